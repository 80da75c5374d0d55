/**
 * Many tabs of one browser: they share one line of events, and each shows what happens.
 *
 * Owns that none is cut off by another, and that another takes over when the one that holds the line goes or hides.
 */

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { missing, openBrowser, openPage } from './browser.mjs';
import { PASSWORD, startServer } from './server.mjs';

/** @import { Browser, Page } from 'playwright-core' */
/** @import { Server } from './server.mjs' */

/** More than a session has lines, and as many as a browser has connections to one server. */
const MANY = 6;

describe('many tabs', { skip: missing }, () => {
  /** @type {Browser} */
  let browser;
  /** @type {Server} */
  let server;
  /** Requests for the line, over all tabs. */
  let lines = 0;
  /** Those that are open. @type {Set<object>} */
  const open = new Set();
  /** @type {Page[]} */
  let tabs;
  /** @type {string[]} */
  let faults;
  /** @type {() => Promise<void>} */
  let close;

  before(async () => {
    [browser, server] = await Promise.all([openBrowser(), startServer()]);
    const first = await openPage(browser);
    ({ faults, close } = first);
    const context = first.page.context();
    context.on('request', (request) => {
      if (!request.url().endsWith('/events')) return;
      lines += 1;
      open.add(request);
    });
    context.on('requestfinished', (request) => void open.delete(request));
    context.on('requestfailed', (request) => void open.delete(request));
    await first.page.goto(server.origin);
    await first.page.getByLabel('Password').fill(PASSWORD);
    await first.page.getByRole('button', { name: 'Log in' }).click();
    await first.page.locator('#glance li').first().waitFor();
    tabs = [first.page];
    for (let n = 1; n < MANY; n += 1) {
      const page = await context.newPage();
      page.on('pageerror', (error) => faults.push(`error: ${error.message}`));
      await page.goto(`${server.origin}/#settings`);
      await page.locator('#glance li').first().waitFor();
      tabs.push(page);
    }
  });
  after(async () => {
    await close?.();
    await browser?.close();
    await server?.stop();
  });

  /**
   * One tab switches the answering of peers; the others are told by the line.
   * @param {Page} by
   * @param {boolean} on
   * @param {Page[]} [told]
   */
  async function everyTabTells(by, on, told = tabs) {
    // `mesh.assistant-configure` makes the status another, which comes as an event; asking in turn would take longer.
    await by.locator('#views').getByRole('button', { name: 'Node', exact: true }).click();
    await by.getByLabel('Peers are answered').setChecked(on);
    await Promise.all(told.map((page) => page.locator('#assistant .badge', { hasText: on ? 'answers peers' : 'peers are not answered' }).waitFor({ timeout: 5000 })));
  }

  test('six of them have one line, and each tells what happens', async () => {
    await waitFor(() => open.size === 1);
    const before = lines;
    const [first, second] = tabs;
    assert.ok(first && second);
    for (const [by, on] of /** @type {[Page, boolean][]} */ ([[first, false], [second, true], [first, false], [second, true]])) await everyTabTells(by, on);
    assert.equal(lines, before, 'nobody was cut off and came again');
    assert.equal(open.size, 1);
    for (const page of tabs) assert.equal(await page.locator('#stale').textContent(), '');
    assert.deepEqual(faults, []);
  });

  test('the one that holds the line is closed: another has it at once, and goes on where that was', async () => {
    const before = lines;
    let holder = 0;
    for (const request of open) holder = tabs.findIndex((page) => page === /** @type {any} */ (request).frame().page());
    const [gone] = tabs.splice(holder, 1);
    /** @type {string[]} */
    const asked = [];
    for (const page of tabs) page.on('request', (request) => request.url().endsWith('/events') && asked.push(request.headers()['last-event-id'] ?? ''));
    open.clear();
    await gone?.close();
    await waitFor(() => lines > before && open.size === 1);
    assert.match(asked[0] ?? '', /-\d+$/, 'it says what it has seen');
    const [first] = tabs;
    assert.ok(first);
    await everyTabTells(first, false);
    const settled = lines;
    await everyTabTells(first, true);
    assert.deepEqual([lines, open.size], [settled, 1]);
  });

  test('the one that holds the line is hidden for a minute: another has it', async () => {
    const before = lines;
    let holder = 0;
    for (const request of open) holder = tabs.findIndex((page) => page === /** @type {any} */ (request).frame().page());
    const [hidden] = tabs.slice(holder, holder + 1);
    assert.ok(hidden);
    await hidden.evaluate(() => {
      // A minute is over when the page's next timer ends.
      const real = window.setTimeout;
      window.setTimeout = /** @type {any} */ ((/** @type {any} */ run, /** @type {number} */ ms) => real(run, ms === 60_000 ? 0 : ms));
      Object.defineProperty(document, 'hidden', { configurable: true, value: true });
      document.dispatchEvent(new Event('visibilitychange'));
    });
    await waitFor(() => lines > before && open.size === 1);
    const [first] = tabs.filter((page) => page !== hidden);
    assert.ok(first);
    await everyTabTells(first, false);
    const settled = lines;
    await everyTabTells(first, true);
    assert.deepEqual([lines, open.size], [settled, 1], 'the hidden one takes what is handed on, and no line');
    assert.deepEqual(faults, []);
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
