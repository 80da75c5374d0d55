/**
 * The conversation in the frame: answers, tools, stop, reload, restart, give-up; and the chat on a page of its own.
 *
 * Owns that what the operator sees is what the assistant did. What may not pass the bridge is `bridge.test.mjs`.
 */

import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { ask, chatFrame, countCalls, logIn, missing, openBrowser, openPage } from './browser.mjs';
import { PASSWORD, startServer } from './server.mjs';

/** @import { Browser, Frame, Page } from 'playwright-core' */
/** @import { Server } from './server.mjs' */

describe('the chat', { skip: missing }, () => {
  /** @type {Browser} */
  let browser;
  /** @type {Server} */
  let server;
  before(async () => {
    [browser, server] = await Promise.all([openBrowser(), startServer()]);
  });
  afterEach(() => server.model.reset());
  after(async () => {
    await browser?.close();
    await server?.stop();
  });

  test('a question is answered through the frame, with the tool that ran and the leg that answered', async () => {
    const { page, faults, close } = await openPage(browser);
    const chat = await logIn(page, server);
    server.model.say('There are **412 GB** free.', { tool: 'system_disk_status' });
    await ask(chat, 'How much disk space is left?');
    const reply = chat.locator('.reply');
    await reply.waitFor();
    assert.equal(await reply.locator('.answer strong').innerText(), '412 GB');
    assert.equal(await reply.locator('.tool-name').innerText(), 'system_disk_status');
    assert.equal(await reply.locator('.tool-outcome').innerText(), 'ran');
    assert.match(await reply.locator('.entry-meta').innerText(), /Ollama/i);
    assert.equal(await chat.locator('.question-text').innerText(), 'How much disk space is left?');
    assert.equal(await chat.locator('#log').getAttribute('aria-live'), 'polite');
    assert.deepEqual(faults, []);
    await close();
  });

  test('stop ends model and turn, and the next question is answered', async () => {
    const { page, close } = await openPage(browser);
    const chat = await logIn(page, server);
    const abandoned = server.model.abandoned;
    const stops = countCalls(page, 'assistant.stop');
    server.model.hold();
    await ask(chat, 'Count all the sand.');
    await chat.locator('#thinking').waitFor();
    assert.equal(await chat.getByRole('button', { name: 'Send' }).count(), 0, 'no second question meanwhile');
    await chat.getByRole('button', { name: 'Stop' }).click();
    await chat.getByText('stopped', { exact: true }).waitFor();
    await chat.locator('#thinking').waitFor({ state: 'hidden' });
    assert.equal(stops(), 1);
    await until(() => server.model.abandoned === abandoned + 1, 'the model server was let go');
    server.model.release();
    server.model.say('Seven.');
    await ask(chat, 'How many days has a week?');
    await chat.getByText('Seven.').waitFor();
    await close();
  });

  test('Escape stops too', async () => {
    const { page, close } = await openPage(browser);
    const chat = await logIn(page, server);
    server.model.hold();
    await ask(chat, 'Count it again.');
    await chat.locator('#thinking').waitFor();
    await page.keyboard.press('Escape');
    await chat.getByText('stopped', { exact: true }).waitFor();
    server.model.release();
    await close();
  });

  test('a reload restores the conversation, in order', async () => {
    const { page, close } = await openPage(browser);
    const chat = await logIn(page, server);
    for (const n of ['one', 'two']) {
      server.model.say(`Answer ${n}.`, { tool: 'system_disk_status' });
      await ask(chat, `Question ${n}?`);
      await chat.getByText(`Answer ${n}.`).waitFor();
    }
    await page.reload();
    const again = await chatFrame(page);
    assert.deepEqual(await texts(again), ['Question one?', 'Answer one.', 'Question two?', 'Answer two.']);
    assert.equal(await again.locator('.tool-name').count(), 2);
    await close();
  });

  test('a reload in the middle of a turn goes on waiting for the same turn', async () => {
    const { page, close } = await openPage(browser);
    const chat = await logIn(page, server);
    const asked = server.model.asked;
    server.model.hold();
    server.model.say('Low water is at six.');
    await ask(chat, 'When is low water?');
    await until(() => server.model.asked === asked + 1, 'the model is asked');
    await page.reload();
    const again = await chatFrame(page);
    await again.locator('#thinking').waitFor();
    assert.deepEqual(await texts(again), ['When is low water?']);
    server.model.release();
    await again.getByText('Low water is at six.').waitFor();
    assert.deepEqual(await texts(again), ['When is low water?', 'Low water is at six.']);
    assert.equal(server.model.asked, asked + 1, 'asked once');
    await close();
  });

  test('after such a reload the turn can still be stopped', async () => {
    const { page, close } = await openPage(browser);
    const chat = await logIn(page, server);
    server.model.hold();
    await ask(chat, 'Wait for the tide.');
    await chat.locator('#thinking').waitFor();
    await page.reload();
    const again = await chatFrame(page);
    await again.getByRole('button', { name: 'Stop' }).click();
    await again.getByText('stopped', { exact: true }).waitFor();
    server.model.release();
    await close();
  });

  test('clear asks once more, then deletes it here and at the node', async () => {
    const { page, close } = await openPage(browser);
    const chat = await logIn(page, server);
    server.model.say('Gone soon.');
    await ask(chat, 'Remember this.');
    await chat.getByText('Gone soon.').waitFor();
    const clears = countCalls(page, 'assistant.clear-history');
    await chat.getByRole('button', { name: 'Clear' }).click();
    assert.equal(clears(), 0, 'one press deletes nothing');
    await chat.getByRole('button', { name: 'Delete it all?' }).click();
    await chat.getByText('Ask this node.').waitFor();
    assert.equal(clears(), 1);
    await page.reload();
    const again = await chatFrame(page);
    assert.deepEqual(await texts(again), []);
    await close();
  });

  test('without an answer the chat gives up after 180 seconds, and lets nothing run on', async () => {
    const { page, close } = await openPage(browser);
    await page.clock.install();
    const chat = await logIn(page, server);
    const stops = countCalls(page, 'assistant.stop');
    server.model.hold();
    await ask(chat, 'Are you there?');
    await chat.locator('#thinking').waitFor();
    await page.clock.fastForward(179_000);
    assert.equal(await chat.locator('.error').count(), 0, 'not before');
    await page.clock.fastForward(2_000);
    await chat.getByText('There was no answer within 180 seconds.').waitFor();
    await until(() => stops() === 1, 'the turn is stopped');
    server.model.release();
    await close();
  });

  test('an error is a line for people, and can be asked again', async () => {
    const { page, close } = await openPage(browser);
    const chat = await logIn(page, server);
    await page.route('**/rpc', async (route) => {
      if (route.request().postDataJSON()?.method !== 'assistant.chat') return route.continue();
      return route.fulfill({ status: 500, contentType: 'text/plain', body: 'thread panicked at src/secret.rs:12' });
    });
    await ask(chat, 'What is wrong?');
    const error = chat.locator('.error');
    await error.waitFor();
    assert.doesNotMatch(await error.innerText(), /panicked|secret|500|undefined|\[object/);
    await page.unroute('**/rpc');
    server.model.say('Nothing any more.');
    await chat.getByRole('button', { name: 'Ask again' }).click();
    await chat.getByText('Nothing any more.').waitFor();
    assert.equal(await chat.locator('.error').count(), 0);
    await close();
  });

  test('a daemon that restarts under the page: the status is called old, then goes on; so does the chat', async () => {
    const { page, faults, close } = await openPage(browser);
    const chat = await logIn(page, server);
    await page.locator('#radio dl').waitFor();
    await server.down();
    await page.getByText('The node does not answer.').waitFor({ timeout: 30_000 });
    await server.up();
    await page.locator('#stale', { hasText: 'The node' }).waitFor({ state: 'detached', timeout: 30_000 }).catch(() => {});
    await page.waitForFunction(() => document.getElementById('stale')?.textContent === '', null, { timeout: 30_000 });
    server.model.say('Back again.');
    await ask(chat, 'Are you back?');
    await chat.getByText('Back again.').waitFor();
    assert.deepEqual(faults, []);
    await close();
  });

  test('copy puts the answer’s own text on the clipboard, from inside the sandbox', async () => {
    const { page, close } = await openPage(browser);
    const chat = await logIn(page, server);
    server.model.say('Copy **me**.');
    await ask(chat, 'Say something to copy.');
    await chat.getByRole('button', { name: 'Copy' }).click();
    await chat.getByRole('button', { name: 'Copied' }).waitFor();
    await chat.getByLabel('Message to the assistant').focus();
    await page.keyboard.press('Control+V');
    assert.equal(await chat.getByLabel('Message to the assistant').inputValue(), 'Copy **me**.');
    await close();
  });

  test('a link leads nowhere: a press shows its whole address, another hides it', async () => {
    const { page, close } = await openPage(browser);
    const chat = await logIn(page, server);
    server.model.say('See [the bank](https://bank.example@evil.example/login?x=1).');
    await ask(chat, 'Where?');
    const link = chat.getByRole('button', { name: 'the bank (evil.example)' });
    await link.click();
    assert.equal(await chat.locator('.answer-target code').innerText(), 'https://bank.example@evil.example/login?x=1');
    assert.equal(await link.getAttribute('aria-expanded'), 'true');
    await link.click();
    assert.equal(await chat.locator('.answer-target').count(), 0);
    assert.equal(page.context().pages().length, 1);
    assert.equal(new URL(page.url()).origin, server.origin);
    await close();
  });

  test('a question can be asked again, and edited before that without losing a draft', async () => {
    const { page, close } = await openPage(browser);
    const chat = await logIn(page, server);
    server.model.say('Six.');
    server.model.say('Six again.');
    server.model.say('Seven.');
    await ask(chat, 'How many?');
    await chat.getByText('Six.', { exact: true }).waitFor();
    await chat.getByRole('button', { name: 'Retry' }).click();
    await chat.getByText('Six again.').waitFor();
    assert.deepEqual(await texts(chat), ['How many?', 'Six.', 'How many?', 'Six again.']);
    const composer = chat.getByLabel('Message to the assistant');
    await composer.fill('a draft');
    await chat.getByRole('button', { name: 'Edit' }).last().click();
    assert.equal(await composer.inputValue(), 'How many?\n\na draft');
    await composer.fill('How many days?');
    await composer.press('Enter');
    await chat.getByText('Seven.').waitFor();
    assert.deepEqual((await texts(chat)).slice(-2), ['How many days?', 'Seven.']);
    await close();
  });

  test('the conversation is exported as Markdown: shown in the frame, saved on a page of its own', async () => {
    const { page, faults, close } = await openPage(browser);
    const chat = await logIn(page, server);
    server.model.say('There are **412 GB** free.', { tool: 'system_disk_status' });
    await ask(chat, 'How much?');
    await chat.locator('.reply').waitFor();
    await chat.getByRole('button', { name: 'Export' }).click();
    const text = await chat.getByLabel('The conversation as Markdown').inputValue();
    assert.match(text, /^# Conversation[^]*## You, \d{4}-\d\d-\d\d \d\d:\d\d UTC\n\nHow much\?\n\n## The assistant \(Ollama\)/);
    assert.match(text, /- tool `system_disk_status`: ran\n\nThere are \*\*412 GB\*\* free\./);
    assert.equal(await chat.getByRole('button', { name: 'Save as a file' }).count(), 0, 'a sandboxed frame may not');
    await page.keyboard.press('Escape');
    assert.equal(await chat.getByLabel('The conversation as Markdown').count(), 0);
    await page.goto(`${server.origin}/chat/`);
    await page.getByText('How much?').waitFor();
    await page.getByRole('button', { name: 'Export' }).click();
    const saved = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Save as a file' }).click();
    assert.equal((await saved).suggestedFilename(), 'conversation.md');
    assert.deepEqual(faults, []);
    await close();
  });

  test('`archyBridge.sendChat` gives the answer, and the whole of it as the one token', async () => {
    const { page, close } = await openPage(browser);
    const chat = await logIn(page, server);
    server.model.say('By the bridge.');
    const [answer, tokens] = await chat.evaluate(async () => {
      /** @type {string[]} */
      const tokens = [];
      const answer = await window.archyBridge?.sendChat('Say it.', (token) => tokens.push(token));
      return [answer, tokens];
    });
    assert.equal(answer?.text, 'By the bridge.');
    assert.deepEqual(tokens, ['By the bridge.']);
    await close();
  });

  test('on a page of its own the chat logs in by itself and has the same conversation', async () => {
    const { page, faults, close } = await openPage(browser);
    await page.goto(`${server.origin}/chat/`);
    await page.getByLabel('Password').fill(PASSWORD);
    await page.getByRole('button', { name: 'Log in' }).click();
    await page.locator('#log[aria-live="polite"]').waitFor();
    server.model.say('Alone, but answered.', { tool: 'system_disk_status' });
    await ask(page, 'Anybody there?');
    await page.getByText('Alone, but answered.').waitFor();
    assert.equal(await page.locator('.tool-name').innerText(), 'system_disk_status');
    await page.goto(server.origin);
    const framed = await chatFrame(page);
    await framed.getByText('Alone, but answered.').waitFor();
    assert.deepEqual(faults, []);
    await close();
  });
});

/**
 * What is written in the conversation, oldest first.
 * @param {Frame | Page} chat
 */
function texts(chat) {
  return chat.locator('.question-text, .answer').allInnerTexts();
}

/**
 * @param {() => boolean} happened
 * @param {string} what
 */
async function until(happened, what) {
  const end = Date.now() + 10_000;
  while (!happened()) {
    if (Date.now() > end) assert.fail(`it did not happen: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
