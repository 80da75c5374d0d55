/**
 * How long a page with 5,000 lines of log and 500 nodes keeps its user waiting: printed, not judged.
 *
 * `node bench/large.mjs` drives the page on the mock, and prints for each thing that a user does the long tasks (50 ms and
 * more, when nothing can be clicked) and the longest. Times depend on the machine.
 */

import { openBrowser, openNode } from '../tests/browser.mjs';
import { startServer } from '../tests/server.mjs';

const LINES = 5000;
const NODES = 500;

delete process.env.TOMBOLO_BIN;
const [browser, server] = await Promise.all([openBrowser(), startServer()]);
try {
  const { page, mock, world, close } = await openNode(browser, server, {
    change: (world) => {
      const now = Date.now();
      world.log = Array.from({ length: LINES }, (_, n) => ({ seq: n + 1, at: now - (LINES - n) * 1000, level: n % 40 === 0 ? 'warn' : 'info', target: 'tombolo::mesh::service', message: `line ${n} of a long log, with from=!a1b2c3d4 and what else there is to say` }));
      world.nodes = Array.from({ length: NODES }, (_, n) => ({
        node: `!${(n + 1).toString(16).padStart(8, '0')}`, long_name: `Node number ${n}`, short_name: 'N', fingerprint: null, contact: null, standing: 'stranger', last_heard: n + 1, snr: 1, hops: n % 7, battery: 50,
      }));
    },
  });
  await page.evaluate(() => {
    /** @type {number[]} */
    const tasks = [];
    /** @type {any} */ (window).tasks = tasks;
    new PerformanceObserver((list) => {
      for (const { duration } of list.getEntries()) tasks.push(Math.round(duration));
    }).observe({ type: 'longtask', buffered: true });
  });
  /**
   * @param {string} what
   * @param {() => Promise<unknown>} act
   */
  const measure = async (what, act) => {
    const began = Date.now();
    await act();
    // What it led to is drawn, and what was seen of it is reported.
    await page.evaluate(() => new Promise((resolve) => setTimeout(() => requestAnimationFrame(() => setTimeout(resolve, 50)), 200)));
    const tasks = await page.evaluate(() => /** @type {number[]} */ (/** @type {any} */ (window).tasks).splice(0));
    console.log(`${what.padEnd(46)} ${String(tasks.length).padStart(3)} long tasks, the longest ${String(Math.max(0, ...tasks)).padStart(4)} ms, ${String(tasks.reduce((sum, one) => sum + one, 0)).padStart(5)} ms in all; ${Date.now() - began} ms until it was over`);
  };
  const open = (/** @type {string} */ view) => page.locator('#views').getByRole('button', { name: view, exact: true }).click();

  await measure('logged in', async () => {});
  // All lines: 500 come when the view is opened, the others by the line of events.
  await measure('the log is opened', async () => {
    await open('Log');
    await page.locator('.log-line').first().waitFor();
  });
  await measure(`${LINES} lines come as events`, async () => {
    for (let n = 0; n < LINES; n += 1) mock.log({ message: `event ${n}` });
    await page.locator('.log-line', { hasText: `event ${LINES - 1}` }).waitFor({ timeout: 60_000 });
  });
  await measure('one more line', async () => {
    mock.log({ message: 'one more' });
    await page.locator('.log-line', { hasText: 'one more' }).waitFor();
  });
  await measure('100 lines, one each 20 ms', async () => {
    for (let n = 0; n < 100; n += 1) {
      mock.log({ message: `steady ${n}` });
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    await page.locator('.log-line', { hasText: 'steady 99' }).waitFor();
  });
  await measure('a filter is typed', async () => {
    await page.getByLabel('Find in the log').pressSequentially('event 49', { delay: 30 });
    await page.getByText(/^\d+ of [\d,]+ lines$/).waitFor();
  });
  await measure('and taken out', () => page.getByLabel('Find in the log').fill(''));
  await measure('a kind is switched off and on', async () => {
    for (let n = 0; n < 2; n += 1) await page.getByRole('button', { name: 'Daemon', exact: true }).click();
  });
  await measure('scrolled to the first line', async () => {
    for (let n = 0; n < 60 && (await page.getByRole('button', { name: 'Earlier lines' }).isVisible()); n += 1) await page.getByRole('button', { name: 'Earlier lines' }).click();
  });
  await measure('the contacts are opened', async () => {
    await open('Contacts');
    await page.locator('.heard li').first().waitFor();
  });
  await measure('a node is looked for', () => page.getByLabel('Find a node').pressSequentially('number 37', { delay: 30 }));
  await measure('all nodes were heard again, 10 times', async () => {
    for (let n = 0; n < 10; n += 1) {
      world.nodes = world.nodes.map((node) => ({ ...node, last_heard: node.last_heard + 1000 }));
      mock.events.publish('changed', { what: 'contacts' });
      await new Promise((resolve) => setTimeout(resolve, 300));
    }
  });
  await measure('the status is opened', () => open('Status'));
  await measure('the status changes 20 times', async () => {
    for (let n = 0; n < 20; n += 1) {
      world.status.airtime.used_ms += 700;
      mock.events.publish('status', world.status);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  });
  await measure('the history is opened', () => open('History'));
  await close();
} finally {
  await browser.close();
  await server.stop();
}
