/**
 * The browser that the tests drive: the system's Chromium, and the first steps that most tests share.
 *
 * Owns its flags, and that a page which logs an error or breaks its policy fails its test.
 */

import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { chromium } from 'playwright-core';
import { lively } from './mock-world.mjs';
import { PASSWORD } from './server.mjs';

/** @import { Browser, BrowserContext, BrowserContextOptions, Frame, Page } from 'playwright-core' */
/** @import { World } from './mock-world.mjs' */
/** @import { Server } from './server.mjs' */

export const OUTPUT = new URL('output/', import.meta.url).pathname;
const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';
const FLAGS = [
  '--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync',
];

export const WIDE = { width: 1280, height: 800 };
export const PHONE = { width: 375, height: 740 };

/** Why the tests can't run here; `false` when they can. Under CI a missing browser is a failure, not a skip. */
export const missing = existsSync(CHROMIUM) || process.env.CI === 'true' ? false : `there is no browser at ${CHROMIUM}`;

/** @returns {Promise<Browser>} */
export async function openBrowser() {
  mkdirSync(OUTPUT, { recursive: true });
  return chromium.launch({ executablePath: CHROMIUM, args: FLAGS });
}

/**
 * A page in a context of its own. `faults` gathers what it should not do.
 * @param {Browser} browser
 * @param {BrowserContextOptions} [options]
 * @returns {Promise<{ page: Page, faults: string[], close: () => Promise<void> }>}
 */
export async function openPage(browser, options = {}) {
  const context = await browser.newContext({ viewport: WIDE, locale: 'en-GB', ...options });
  context.setDefaultTimeout(10_000);
  if (process.env.TOMBOLO_PAGES === 'source') await fromSource(context);
  const page = await context.newPage();
  /** @type {string[]} */
  const faults = [];
  page.on('pageerror', (error) => faults.push(`error: ${error.message}`));
  page.on('console', (message) => {
    const text = message.text();
    // A call that is refused is written there by the browser itself.
    if (message.type() === 'error' && !/Failed to load resource/.test(text)) faults.push(`console: ${text}`);
  });
  return { page, faults, close: () => context.close() };
}

/**
 * Puts the files of this source tree in the place of those that were built into the daemon, under the daemon's own
 * headers: for work on the pages without building it each time.
 * @param {BrowserContext} context
 */
async function fromSource(context) {
  await context.route(/\.(js|css)$|\/(aiui\/|chat\/)?$/, async (route) => {
    const path = new URL(route.request().url()).pathname;
    const name = path.replace(/^\/chat\//, '/aiui/').replace(/\/$/, '/index.html');
    const file = new URL(`..${name.startsWith('/aiui/') ? '' : '/node'}${name}`, import.meta.url);
    const response = await route.fetch();
    if (!existsSync(file)) return route.fulfill({ response });
    // A file that this daemon has not yet comes with the headers of those that it has.
    const { 'content-encoding': _, ...headers } = response.ok() ? response.headers() : {};
    if (!response.ok()) headers['content-type'] = file.pathname.endsWith('.css') ? 'text/css' : 'text/javascript';
    await route.fulfill({ status: 200, headers, body: readFileSync(file) });
  });
}

/**
 * Logs in and waits until the chat is there.
 * @param {Page} page
 * @param {Server} server
 * @returns {Promise<Frame>} the chat
 */
export async function logIn(page, server) {
  await page.goto(server.origin);
  await page.getByLabel('Password').fill(PASSWORD);
  await page.getByRole('button', { name: 'Log in' }).click();
  return chatFrame(page);
}

/** What changes something at the node. */
const CHANGES = [
  'mesh.assistant-configure', 'mesh.peer-accept-key', 'mesh.radio-accept', 'mesh.stop-all', 'mesh.pair', 'mesh.send', 'assistant.grants-set', 'assistant.confirm-tool',
];

/**
 * The node page on an invented world, logged in and with its figures there. With the daemon it is the daemon's world:
 * `world` and `mock` are only there on the mock.
 * @param {Browser} browser
 * @param {Server} server
 * @param {{ size?: { width: number, height: number }, password?: string, view?: string, change?: (world: World) => void } & BrowserContextOptions} [options]
 */
export async function openNode(browser, server, { size = WIDE, password = PASSWORD, view = '', change = () => {}, ...more } = {}) {
  const world = lively();
  change(world);
  if (server.mock !== null) {
    server.mock.world = world;
    server.mock.operator.calls.length = 0;
  }
  const events = server.mock?.events;
  const came = events?.asked.length ?? 0;
  const opened = await openPage(browser, { viewport: size, ...more });
  /** What the page had changed, oldest first. @type {{ method: string, params: any }[]} */
  const calls = [];
  opened.page.on('request', (request) => {
    const { method, params } = request.url().endsWith('/rpc') ? request.postDataJSON() ?? {} : {};
    if (CHANGES.includes(method)) calls.push({ method, params });
  });
  await opened.page.goto(`${server.origin}/${view === '' ? '' : `#${view}`}`);
  await opened.page.getByLabel('Password').fill(password);
  await opened.page.getByRole('button', { name: 'Log in' }).click();
  await opened.page.locator('#glance li').first().waitFor();
  // What is published before the page listens would be lost on it.
  for (const end = Date.now() + 10_000; events?.there && events.asked.length === came;) {
    if (Date.now() > end) throw new Error('the page does not ask for events');
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  return { ...opened, calls, world, mock: /** @type {NonNullable<Server['mock']>} */ (server.mock) };
}

/**
 * @param {Page} page
 * @returns {Promise<Frame>}
 */
export async function chatFrame(page) {
  const element = await page.waitForSelector('iframe');
  const frame = await element.contentFrame();
  if (frame === null) throw new Error('the frame holds nothing');
  await frame.waitForSelector('#log[aria-live="polite"]');
  if (await element.isVisible()) await takesClicks(frame);
  return frame;
}

/**
 * Waits until the frame takes clicks: against clickjacking, Chromium throws away those into a frame of another origin
 * that has just appeared.
 * @param {Frame} frame
 */
async function takesClicks(frame) {
  await frame.evaluate(() => {
    addEventListener('pointerdown', () => (document.documentElement.dataset.clicked = 'yes'), { once: true });
  });
  const end = Date.now() + 10_000;
  while ((await frame.locator('html').getAttribute('data-clicked')) !== 'yes') {
    if (Date.now() > end) throw new Error('the frame takes no clicks');
    await frame.locator('h1').click();
  }
}

/**
 * Asks in the chat, without waiting for the answer.
 * @param {Frame | Page} chat
 * @param {string} text
 */
export async function ask(chat, text) {
  await chat.getByLabel('Message to the assistant').fill(text);
  await chat.getByRole('button', { name: 'Send' }).click();
}

/**
 * How often the page has called a method of `/rpc`, counted from now on.
 * @param {Page} page
 * @param {string} method
 * @returns {() => number}
 */
export function countCalls(page, method) {
  let count = 0;
  page.on('request', (request) => {
    if (request.url().endsWith('/rpc') && request.postDataJSON()?.method === method) count += 1;
  });
  return () => count;
}
