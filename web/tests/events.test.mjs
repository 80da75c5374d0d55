/**
 * The line of events: that the page lives from it, finds it again, and says when it has nothing new.
 *
 * Owns the client's side of `GET /events`. The mock plays a daemon that breaks off, sleeps, or has no such path.
 */

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { countCalls, logIn, missing, openBrowser, openNode, openPage } from './browser.mjs';
import { waiting } from './mock-world.mjs';
import { startServer } from './server.mjs';

/** @import { Browser } from 'playwright-core' */
/** @import { Server } from './server.mjs' */

const onMock = process.env.TOMBOLO_BIN ? 'the mock’s world is needed' : false;

describe('the events', { skip: missing || onMock }, () => {
  /** @type {Browser} */
  let browser;
  /** @type {Server} */
  let server;
  before(async () => {
    [browser, server] = await Promise.all([openBrowser(), startServer()]);
  });
  after(async () => {
    await browser?.close();
    await server?.stop();
  });

  test('what happens is shown without asking in turn', async () => {
    const { page, mock, world, faults, close } = await openNode(browser, server);
    await waitFor(() => mock.events.count > 0);
    await page.locator('#disk .meter').first().waitFor();
    const asked = countCalls(page, 'mesh.status');
    world.status.owner = 'Renamed by an event';
    await page.locator('#radio', { hasText: 'Renamed by an event' }).waitFor();
    assert.equal(asked(), 0, 'the event held it');
    assert.deepEqual(faults, []);
    await close();
  });

  test('a broken line is found again from the last event on, and nothing in between is lost', async () => {
    const { page, mock, close } = await openNode(browser, server, { view: 'log' });
    await waitFor(() => mock.events.count > 0);
    await page.locator('.log-line').first().waitFor();
    mock.log({ message: 'before the break' });
    await page.locator('.log-line', { hasText: 'before the break' }).waitFor();
    mock.events.asked.length = 0;
    mock.events.close();
    mock.log({ message: 'while nobody listened' });
    await page.locator('.log-line', { hasText: 'while nobody listened' }).waitFor();
    await waitFor(() => mock.events.asked.length > 0);
    assert.match(mock.events.asked[0] ?? '', /^boot\d+-\d+$/);
    await close();
  });

  test('another daemon under the page: everything is asked anew, also what the one before had not', async () => {
    if (server.mock === null) return;
    server.mock.without.add('assistant.pending');
    const { page, mock, world, close } = await openNode(browser, server);
    await waitFor(() => mock.events.count > 0);
    await page.locator('#disk .meter').first().waitFor();
    world.nodes = world.nodes.slice(0, 1);
    world.pending.push(waiting());
    mock.without.clear();
    mock.events.restart();
    await page.locator('#nodes', { hasText: '1 heard' }).waitFor();
    await page.locator('.card', { hasText: 'service_restart' }).waitFor();
    // Its log counts from one again.
    world.log = [];
    mock.log({ level: 'warn', message: 'login failed from 192.0.2.99' });
    await page.locator('#security', { hasText: '192.0.2.99' }).waitFor();
    await close();
  });

  test('an answer that was on its way when something newer came does not undo it', async () => {
    const { page, mock, world, close } = await openNode(browser, server);
    await waitFor(() => mock.events.count > 0);
    await page.locator('#disk .meter').first().waitFor();
    /** @type {() => void} */
    let release = () => {};
    const held = new Promise((resolve) => (release = () => resolve(undefined)));
    let asked = false;
    await page.route('**/rpc', async (route) => {
      if (route.request().postDataJSON()?.method !== 'mesh.status') return route.continue();
      const response = await route.fetch();
      asked = true;
      await held;
      return route.fulfill({ response });
    });
    mock.events.publish('reset', {});
    await waitFor(() => asked);
    world.status.owner = 'The newer one';
    await page.locator('#radio', { hasText: 'The newer one' }).waitFor();
    const answered = page.waitForResponse((response) => response.request().postDataJSON()?.method === 'mesh.status');
    release();
    await answered;
    mock.log({ level: 'warn', message: 'login failed from 192.0.2.55' });
    await page.locator('#security', { hasText: '192.0.2.55' }).waitFor();
    assert.match(await page.locator('#radio').innerText(), /The newer one/);
    await close();
  });

  test('without such a path the page asks in turn, and shows the same', async () => {
    if (server.mock === null) return;
    server.mock.events.there = false;
    try {
      const { page, world, faults, close } = await openNode(browser, server);
      world.status.owner = 'Found by asking';
      await page.locator('#radio', { hasText: 'Found by asking' }).waitFor();
      assert.deepEqual(faults, []);
      await close();
    } finally {
      server.mock.events.there = true;
    }
  });

  test('an older daemon, without the methods that are new: everything else is shown, and what is missing is said', async () => {
    if (server.mock === null) return;
    for (const method of ['assistant.pending', 'assistant.grants-list', 'assistant.ledger', 'auth.sessions', 'mesh.history', 'system.log']) server.mock.without.add(method);
    server.mock.events.there = false;
    try {
      const { page, faults, close } = await openNode(browser, server);
      await page.locator('#radio', { hasText: 'EU_868' }).waitFor();
      await page.getByRole('button', { name: 'History', exact: true }).click();
      await page.getByText('keeps no history').waitFor();
      await page.getByRole('button', { name: 'Node', exact: true }).click();
      await page.getByText('The grants can’t be seen').waitFor();
      await page.getByRole('button', { name: 'Contacts', exact: true }).click();
      await page.getByRole('button', { name: 'Edit Ana' }).click();
      await page.getByText('nothing to change here yet').waitFor();
      assert.deepEqual(faults, []);
      await close();
    } finally {
      server.mock.without.clear();
      server.mock.events.there = true;
    }
  });

  test('a line that is silent for longer than the daemon would be is dead, and the page says how old it is', async () => {
    const { page, close } = await openPage(browser);
    await page.clock.install();
    await logIn(page, server);
    await page.locator('#disk .meter').first().waitFor();
    await waitFor(() => (server.mock?.events.count ?? 0) > 0);
    const asked = server.mock?.events.asked ?? [];
    asked.length = 0;
    // Nothing comes for as long as the daemon would never be silent.
    await page.clock.runFor(19_000);
    assert.equal(asked.length, 0, 'that is not yet too long');
    await page.clock.runFor(3000);
    await waitFor(() => asked.length === 1);
    // The node answered all the time; a call that the leap of the clock broke off is made again.
    await page.waitForFunction(() => document.getElementById('stale')?.textContent === '');
    // Then it is gone without a word.
    await page.route('**/events', (route) => route.abort());
    await page.route('**/rpc', (route) => route.abort());
    await page.clock.runFor(45_000);
    await page.locator('#stale', { hasText: 'The node does not answer. What is shown is' }).waitFor();
    assert.match(await page.locator('#stale').innerText(), /\d+ s old; trying again/);
    await page.unroute('**/events');
    await page.unroute('**/rpc');
    await page.clock.runFor(10_000);
    await page.waitForFunction(() => document.getElementById('stale')?.textContent === '');
    await close();
  });

  test('a page that nobody sees gives its line up, and takes it up again where it was', async () => {
    const { page, close } = await openPage(browser);
    await page.clock.install();
    await logIn(page, server);
    const events = server.mock?.events;
    assert.ok(events);
    await waitFor(() => events.count === 1);
    await hide(true);
    for (const n of [1, 2, 3, 4]) {
      // The daemon says something in time.
      if (server.mock) server.mock.world.status.owner = `Owner ${n}`;
      await page.locator('#radio', { hasText: `Owner ${n}` }).waitFor();
      await page.clock.runFor(n < 4 ? 18_000 : 100);
    }
    assert.equal(events.count, 1, 'a short look elsewhere costs nothing');
    await page.clock.runFor(6000);
    await waitFor(() => events.count === 0);
    events.asked.length = 0;
    await hide(false);
    await waitFor(() => events.count === 1);
    assert.match(events.asked[0] ?? '', /^boot\d+-\d+$/);
    await close();

    /** @param {boolean} hidden */
    function hide(hidden) {
      return page.evaluate((hidden) => {
        Object.defineProperty(document, 'hidden', { configurable: true, value: hidden });
        document.dispatchEvent(new Event('visibilitychange'));
      }, hidden);
    }
  });

  test('a session that ends somewhere else ends this page too, told by its line', async () => {
    const { page, mock, close } = await openNode(browser, server);
    await waitFor(() => mock.events.count > 0);
    await page.context().clearCookies();
    mock.events.close();
    await page.getByText('Your session has ended').waitFor();
    assert.equal(await page.locator('.panel').count(), 0);
    await close();
  });
});

describe('the events, with whatever server there is', { skip: missing }, () => {
  /** @type {Browser} */
  let browser;
  /** @type {Server} */
  let server;
  before(async () => {
    [browser, server] = await Promise.all([openBrowser(), startServer({ driven: true })]);
  });
  after(async () => {
    await browser?.close();
    await server?.stop();
  });

  test('the parser takes what comes in any pieces, and no more than an event’s length', async () => {
    const { page, close } = await openPage(browser);
    await page.goto(server.origin);
    const found = await page.evaluate(async () => {
      const { EventParser } = await import(/** @type {any} */ ('/stream.js'));
      const text = 'retry: 2000\r\nid: b-1\r\nevent: hello\r\ndata: {"boot":"b"}\r\n\r\n: keep-alive\n\nevent: reset\n\nid: b-2\ndata: {"a":\ndata: 1}\n\ndata: open';
      const runs = [1, 2, 7, text.length].map((size) => {
        const parser = new EventParser();
        const all = [];
        for (let at = 0; at < text.length; at += size) all.push(...parser.take(text.slice(at, at + size)));
        return all;
      });
      let tooLong = '';
      try {
        new EventParser().take('x'.repeat(1_000_001));
      } catch (error) {
        tooLong = String(error);
      }
      return { runs, tooLong, whole: new EventParser().take('x'.repeat(1_000_000)) };
    });
    for (const run of found.runs) {
      assert.deepEqual(run, [
        { name: 'hello', data: '{"boot":"b"}', id: 'b-1' }, { name: 'reset', data: '', id: null }, { name: 'message', data: '{"a":\n1}', id: 'b-2' },
      ]);
    }
    assert.match(found.tooLong, /too long/);
    assert.deepEqual(found.whole, []);
    await close();
  });

  test('the radio goes and comes: said in words at the top and in the panel, without asking in turn', async () => {
    const { page, world, faults, close } = await openNode(browser, server);
    await page.locator('#radio', { hasText: '!70b01001' }).waitFor({ timeout: 40_000 });
    await page.locator('#disk .meter').first().waitFor();
    const asked = countCalls(page, 'mesh.status');
    const status = { ...world.status };
    if (server.radio === null) Object.assign(world.status, { connected: false, link: 'waiting', my_node: null, owner: '', fingerprint: null, firmware: '', region: '', modem: '' });
    else await server.radio.off();
    await page.locator('#radio', { hasText: 'not connected' }).waitFor();
    await page.locator('#glance', { hasText: 'no radio' }).waitFor();
    assert.ok((await page.locator('#radio dd').allInnerTexts()).every((fact) => fact.trim() !== ''), 'no empty facts');
    if (server.radio === null) Object.assign(world.status, status);
    else await server.radio.on();
    await page.locator('#radio', { hasText: '!70b01001' }).waitFor({ timeout: 40_000 });
    // The link's own event has it asked for at once; nothing else does.
    assert.ok(asked() <= 4, `${asked()} times`);
    assert.deepEqual(faults, []);
    await close();
  });
});

/** @param {() => boolean} condition */
async function waitFor(condition) {
  const end = Date.now() + 10_000;
  while (!condition()) {
    if (Date.now() > end) throw new Error('it did not come');
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
