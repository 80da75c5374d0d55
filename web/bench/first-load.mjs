/**
 * How long the first load of the node page takes, and what of it waits for what: printed, not judged.
 *
 * `TOMBOLO_BIN=…/tombolo node bench/first-load.mjs [times]` loads it so often with an empty cache: the log-in form, then
 * the page of a session that is there already. Times depend on the machine; a release build compares with a release build.
 */

import { openBrowser, openPage } from '../tests/browser.mjs';
import { PASSWORD, startServer } from '../tests/server.mjs';

/** @import { Page } from 'playwright-core' */

const times = Number(process.argv[2] ?? 9);
const [browser, server] = await Promise.all([openBrowser(), startServer()]);
try {
  const logIn = await openPage(browser);
  await logIn.page.goto(server.origin);
  await logIn.page.getByLabel('Password').fill(PASSWORD);
  await logIn.page.getByRole('button', { name: 'Log in' }).click();
  await logIn.page.locator('#glance li').first().waitFor();
  const storageState = await logIn.page.context().storageState();
  await logIn.close();

  for (const [what, state, ready] of /** @type {[string, typeof storageState | undefined, string][]} */ ([
    ['log-in form', undefined, '#entry button'], ['page of a session', storageState, '#glance li'],
  ])) {
    /** @type {Awaited<ReturnType<typeof load>>[]} */
    const all = [];
    for (let n = 0; n < times; n += 1) {
      const { page, close } = await openPage(browser, state === undefined ? {} : { storageState: state });
      all.push(await load(page, server.origin, ready));
      await close();
    }
    const median = (/** @type {(one: (typeof all)[number]) => number} */ of) => all.map(of).sort((a, b) => a - b)[Math.floor(all.length / 2)] ?? NaN;
    console.log(`${what}: there after ${median((one) => one.ready).toFixed(0)} ms (median of ${times}; the fastest ${Math.min(...all.map((one) => one.ready)).toFixed(0)} ms; first paint ${median((one) => one.paint).toFixed(0)} ms, files there ${median((one) => one.files).toFixed(0)} ms), ${all[0]?.count} requests, ${((all[0]?.bytes ?? 0) / 1000).toFixed(1)} kB`);
    if (process.argv.includes('--waterfall')) console.log(all.at(-1)?.requests.join('\n'));
  }
} finally {
  await browser.close();
  await server.stop();
}

/**
 * @param {Page} page
 * @param {string} origin
 * @param {string} ready what is there when the page can be used
 */
async function load(page, origin, ready) {
  // Noted in the page itself, so that no round trip to the driver counts.
  await page.addInitScript((ready) => {
    new MutationObserver((_, observer) => {
      const found = document.querySelector(ready);
      if (found === null || !found.checkVisibility()) return;
      /** @type {any} */ (window).readyAt = performance.now();
      observer.disconnect();
    }).observe(document, { childList: true, subtree: true, attributes: true });
  }, ready);
  await page.goto(origin);
  await page.waitForFunction(() => /** @type {any} */ (window).readyAt !== undefined);
  return page.evaluate(() => {
    const entries = /** @type {PerformanceResourceTiming[]} */ ([...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]);
    const files = entries.filter(({ name }) => !/\/(rpc|events)$/.test(name));
    return {
      ready: /** @type {number} */ (/** @type {any} */ (window).readyAt),
      paint: performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? NaN,
      files: Math.max(...files.filter(({ name }) => !name.includes('/aiui/') || name.endsWith('.js')).map(({ responseEnd }) => responseEnd)),
      count: entries.length,
      bytes: entries.reduce((sum, { transferSize }) => sum + transferSize, 0),
      requests: entries.map(({ name, startTime, responseStart, responseEnd }) => `  ${startTime.toFixed(0).padStart(5)} … ${responseEnd.toFixed(0).padStart(5)} ms (waits ${(responseStart - startTime).toFixed(0)})  ${new URL(name).pathname}`),
    };
  });
}
