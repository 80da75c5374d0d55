/**
 * That everyone can use the pages: by keyboard, by screen reader, on a phone, in the dark, over a slow link.
 *
 * Owns the axe-core runs, the sizes and the screenshots in `output/`.
 */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, afterEach, before, describe, test } from 'node:test';
import { ask, logIn, missing, openBrowser, openPage, OUTPUT, PHONE, WIDE } from './browser.mjs';
import { PASSWORD, startServer } from './server.mjs';

/** @import { Browser, Frame, Page } from 'playwright-core' */
/** @import { Server } from './server.mjs' */

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const FIRST_LOAD_BYTES = 150_000;
const ANSWER = [
  'There are **412 GB** free of 983 GB on `/var/lib/tombolo`.',
  '- transcripts: 3 MB\n- models: 38 GB\n- logs: 2 GB a month',
  '|part|bytes|airtime|\n|-|-|-|\n|1/2|198|1.99 s|\n|2/2|121|1.35 s|',
  '```sh\ndf -h /var/lib/tombolo | tail -1 | awk \'{print $4}\' # a line that is longer than a phone is wide\n```',
].join('\n\n');

describe('access', { skip: missing }, () => {
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

  for (const scheme of /** @type {('light' | 'dark')[]} */ (['light', 'dark'])) {
    for (const [name, viewport] of /** @type {[string, { width: number, height: number }][]} */ ([['1280', WIDE], ['375', PHONE]])) {
      test(`no violation at ${name} px, ${scheme}: log-in, empty chat, answers, thinking, error, status`, async () => {
        // The page's own policy would keep the checker out; what it checks is the same.
        const { page, close } = await openPage(browser, { viewport, colorScheme: scheme, bypassCSP: true });
        const shot = (/** @type {string} */ state) => page.screenshot({ path: `${OUTPUT}${state}-${name}-${scheme}.png`, animations: 'disabled' });
        await page.goto(server.origin);
        await page.getByLabel('Password').waitFor();
        await violations(page, 'log-in');
        await shot('login');
        await page.getByRole('button', { name: 'Log in' }).click();
        await violations(page, 'log-in with an error');

        const chat = await logIn(page, server);
        await page.locator('#disk .meter').first().waitFor({ state: 'attached' });
        await violations(page, 'page');
        await violations(chat, 'empty chat');
        await shot('empty');

        server.model.say(ANSWER, { tool: 'system_disk_status' });
        await ask(chat, 'How much disk space is left, and how would you send that to Ana?');
        await chat.locator('.reply').waitFor();
        server.model.hold();
        server.model.say('A short one.');
        await ask(chat, 'And in short?');
        await chat.locator('#thinking').waitFor();
        await violations(chat, 'thinking');
        await shot('thinking');
        server.model.release();
        await chat.getByText('A short one.').waitFor();
        await violations(chat, 'answers');
        await shot('chat');

        await page.route('**/rpc', (route) =>
          route.request().postDataJSON()?.method === 'assistant.chat' ? route.fulfill({ status: 500, body: '' }) : route.continue(),
        );
        await ask(chat, 'What if it fails?');
        await chat.locator('.error').waitFor();
        await violations(chat, 'error');
        await page.unroute('**/rpc');

        if (name === '375') await page.getByRole('button', { name: 'Status' }).click();
        await violations(page, 'status');
        await shot('status');
        await page.setViewportSize({ width: viewport.width, height: 2600 });
        await shot('status-whole');
        await close();
      });
    }
  }

  test('everything can be done by keyboard alone', async () => {
    const { page, close } = await openPage(browser);
    await page.goto(server.origin);
    await page.getByLabel('Password').waitFor();
    await page.keyboard.type(PASSWORD);
    await page.keyboard.press('Enter');
    await page.waitForSelector('iframe');
    const chat = await (await page.waitForSelector('iframe')).contentFrame();
    assert.ok(chat);
    await chat.waitForSelector('#log[aria-live="polite"]');

    await tabTo(page, chat, (focused) => focused === 'text');
    server.model.say('By keyboard.');
    await page.keyboard.type('First line');
    await page.keyboard.press('Shift+Enter');
    await page.keyboard.type('second line');
    await page.keyboard.press('Enter');
    await chat.getByText('By keyboard.').waitFor();
    assert.equal(await chat.locator('.question-text').innerText(), 'First line\nsecond line');

    server.model.hold();
    await page.keyboard.type('Stop this one');
    await page.keyboard.press('Enter');
    await chat.locator('#thinking').waitFor();
    await tabTo(page, chat, (focused) => focused === 'stop');
    await page.keyboard.press('Enter');
    await chat.getByText('stopped', { exact: true }).waitFor();
    server.model.release();
    assert.equal(await chat.evaluate(() => document.activeElement?.id), 'text', 'the focus goes back to the question');

    await tabTo(page, chat, (focused) => focused === 'clear', 'Shift+Tab');
    await page.keyboard.press('Enter');
    await page.keyboard.press('Enter');
    await chat.getByText('Ask this node.').waitFor();

    await tabTo(page, chat, (focused) => focused === 'logout', 'Shift+Tab');
    await page.keyboard.press('Enter');
    await page.getByLabel('Password').waitFor();
    await close();
  });

  for (const width of [320, 375, 768, 899, 900, 1280]) {
    test(`nothing is wider than the page at ${width} px`, async () => {
      const { page, close } = await openPage(browser, { viewport: { width, height: 700 } });
      const chat = await logIn(page, server);
      server.model.say(`${ANSWER}\n\n${'unbroken'.repeat(40)}`, { tool: 'system_disk_status' });
      await ask(chat, `What about ${'x'.repeat(200)}?`);
      await chat.locator('.reply').waitFor();
      const wider = () => document.documentElement.scrollWidth - document.documentElement.clientWidth;
      assert.equal(await chat.evaluate(wider), 0, 'the chat');
      assert.equal(await chat.locator('#log').evaluate((log) => log.scrollWidth - log.clientWidth), 0, 'the log');
      if (width === 320) await page.screenshot({ path: `${OUTPUT}chat-320-light.png` });
      if (width < 900) await page.getByRole('button', { name: 'Status' }).click();
      await page.locator('#disk .meter').first().waitFor();
      assert.equal(await page.evaluate(wider), 0, 'the page');
      assert.equal(await page.locator('#status-pane').evaluate((pane) => pane.scrollWidth - pane.clientWidth), 0, 'the status');
      if (width === 320) await page.screenshot({ path: `${OUTPUT}status-320-light.png` });
      await close();
    });
  }

  test('the first load is small, and comes from the node alone', async () => {
    const { page, close } = await openPage(browser);
    let bytes = 0;
    /** @type {Set<string>} */
    const hosts = new Set();
    /** @type {Promise<unknown>[]} */
    const reading = [];
    page.on('request', (request) => hosts.add(new URL(request.url()).origin));
    // As they come over the line, headers and calls too; the line of events never ends.
    page.context().on('requestfinished', (request) => {
      reading.push(request.sizes().then((sizes) => (bytes += sizes.responseBodySize + sizes.responseHeadersSize), () => 0));
    });
    await logIn(page, server);
    await page.locator('#disk .meter').first().waitFor();
    await Promise.all(reading);
    assert.deepEqual([...hosts], [server.origin]);
    assert.ok(bytes > 10_000, 'it was measured');
    assert.ok(bytes < FIRST_LOAD_BYTES, `${bytes} bytes`);
    await close();
  });

  test('with animations unwanted there are none', async () => {
    const { page, close } = await openPage(browser, { reducedMotion: 'reduce' });
    const chat = await logIn(page, server);
    server.model.hold();
    await ask(chat, 'Keep still.');
    await chat.locator('#thinking').waitFor();
    assert.equal(await chat.evaluate(() => document.getAnimations().length), 0);
    server.model.release();
    await close();
  });
});

/**
 * @param {Page | Frame} place
 * @param {string} state
 */
async function violations(place, state) {
  await place.evaluate(AXE);
  const found = await place.evaluate(async () => {
    const axe = /** @type {any} */ (window).axe;
    // The frame is checked on its own.
    const result = await axe.run(document, { iframes: false, resultTypes: ['violations', 'incomplete'] });
    return result.violations.map((/** @type {any} */ violation) => `${violation.id}: ${violation.nodes.map((/** @type {any} */ node) => node.html).join(' | ')}`);
  });
  assert.deepEqual(found, [], state);
}

/**
 * Presses Tab until the wanted element has the focus, in the page or in the frame.
 * @param {Page} page
 * @param {Frame} chat
 * @param {(id: string | undefined) => boolean} wanted
 * @param {string} [key]
 */
async function tabTo(page, chat, wanted, key = 'Tab') {
  for (let presses = 0; presses < 60; presses += 1) {
    await page.keyboard.press(key);
    const inPage = await page.evaluate(() => document.activeElement?.id);
    if (wanted(inPage || undefined)) return;
    const inFrame = await page.evaluate(() => document.activeElement instanceof HTMLIFrameElement);
    if (inFrame && wanted((await chat.evaluate(() => document.activeElement?.id)) || undefined)) return;
  }
  assert.fail('the keyboard does not reach it');
}
