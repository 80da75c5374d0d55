/**
 * That everyone can use the pages: by keyboard, by screen reader, on a phone, in the dark, over a slow link.
 *
 * Owns the axe-core runs, the sizes and the screenshots in `output/`.
 */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, afterEach, before, describe, test } from 'node:test';
import { ask, logIn, missing, openBrowser, openNode, openPage, OUTPUT, PHONE, WIDE } from './browser.mjs';
import { waiting } from './mock-world.mjs';
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

  const onMock = process.env.TOMBOLO_BIN ? 'the mock’s world is needed' : false;
  for (const scheme of /** @type {('light' | 'dark')[]} */ (['light', 'dark'])) {
    for (const [name, size] of /** @type {[string, { width: number, height: number }][]} */ ([['1280', WIDE], ['375', PHONE]])) {
      test(`no violation at ${name} px, ${scheme}: every view, its forms and errors, what waits, stale`, { skip: onMock }, async () => {
        const { page, world, mock, close } = await openNode(browser, server, { size, colorScheme: scheme, bypassCSP: true });
        const shot = (/** @type {string} */ state) => page.screenshot({ path: `${OUTPUT}${state}-${name}-${scheme}.png`, animations: 'disabled' });
        const open = (/** @type {string} */ view) => page.locator('#views').getByRole('button', { name: view, exact: true }).click();
        await page.locator('#disk .meter').first().waitFor({ state: 'attached' });
        world.pending.push(waiting({ arguments: { path: 'notes/t\u202eide.txt' } }));
        world.status.stopped = true;
        world.status.refused_radio = { fingerprint: 'aaaa bbbb cccc dddd', owner: 'Another', node: '!70b01002' };
        await page.locator('.card', { hasText: 'service_restart' }).getByRole('button', { name: 'Approve', disabled: false }).waitFor();
        await violations(page, 'what waits');
        await shot('waits');
        world.pending = [];
        Object.assign(world.status, { stopped: false, refused_radio: null });
        await page.locator('.card', { hasText: 'Another radio' }).waitFor({ state: 'detached' });
        await page.locator('#attention').getByRole('button', { name: 'Later' }).click();
        await page.locator('#attention').waitFor({ state: 'hidden' });

        await open('Status');
        mock.events.publish('mesh', { at: Date.now(), event: 'security', kind: 'flood', from: '!0badcafe', detail: 'too many' });
        await page.locator('.notice').waitFor();
        await violations(page, 'status');
        await shot('dashboard');

        await open('Contacts');
        await page.getByRole('button', { name: 'Add by number' }).click();
        await page.locator('.adding').getByRole('button', { name: 'Add contact' }).click();
        await page.locator('.field-error:not(:empty)').waitFor();
        await violations(page, 'contacts with a form and an error');
        await shot('contacts-form');
        await page.locator('.adding').getByRole('button', { name: 'Cancel' }).click();
        await page.getByRole('button', { name: 'Pair by code' }).click();
        await page.getByLabel('Whom do you pair?').fill('Dara');
        await page.getByRole('button', { name: 'Show a code' }).click();
        await page.locator('.code-big').waitFor();
        await violations(page, 'a pairing code');
        await shot('pairing');
        await page.locator('.pairing').getByRole('button', { name: 'Cancel' }).click();
        for (const who of ['Ana', 'Ben']) await page.getByRole('button', { name: `Edit ${who}` }).click();
        for (const summary of await page.locator('.person .grant-tools summary').all()) await summary.click();
        await violations(page, 'contacts opened');
        await shot('person');

        await open('Log');
        await page.locator('.log-line', { hasText: 'ollama answered' }).waitFor();
        await page.getByRole('button', { name: 'Daemon', exact: true }).click();
        await violations(page, 'log');
        await page.getByRole('button', { name: 'Daemon', exact: true }).click();
        await shot('log');

        await open('History');
        await page.getByRole('img', { name: /^Own airtime/ }).waitFor();
        for (const summary of await page.locator('.chart-block summary').all()) await summary.click();
        await violations(page, 'history');
        for (const summary of await page.locator('.chart-block summary').all()) await summary.click();
        await shot('history');

        await open('Node');
        await page.locator('.settings-view li', { hasText: 'this one' }).waitFor();
        for (const summary of await page.locator('.passwords summary').all()) await summary.click();
        await violations(page, 'node');
        await shot('node');

        await page.getByRole('button', { name: 'Go through the set-up again' }).click();
        for (const step of ['Radio', 'Model', 'First contact', 'Test question', 'What is allowed']) {
          await page.locator('.step').getByRole('heading', { name: step }).waitFor();
          await violations(page, `set-up: ${step}`);
          await shot(`setup-${step.split(' ')[0]?.toLowerCase()}`);
          if (step !== 'What is allowed') await page.locator('.step-end button').last().click();
        }
        await page.route('**/rpc', (route) => route.abort());
        await page.route('**/events', (route) => route.abort());
        mock.events.close();
        await page.locator('#stale:not(:empty)').waitFor({ timeout: 20_000 });
        await violations(page, 'stale');
        await shot('stale');
        await close();
      });
    }
  }

  for (const width of [320, 375, 768, 899, 900, 1280]) {
    test(`no view is wider than the page at ${width} px, with the longest words there are`, { skip: onMock }, async () => {
      const long = 'W'.repeat(39);
      const { page, world, close } = await openNode(browser, server, {
        size: { width, height: 700 },
        change: (world) => {
          for (const contact of world.assistant.allowed_contacts) contact.name = long;
          for (const node of world.nodes) node.long_name = long;
          for (const message of world.messages) Object.assign(message, { name: long, text: long.repeat(6) });
          for (const call of world.ledger) call.tool = long.repeat(2);
          for (const line of world.log) line.message = `${long.repeat(8)} ${line.message}`;
          Object.assign(world.status, { link: long.repeat(3), owner: long, modem: long, warnings: [long.repeat(3)] });
        },
      });
      world.pending.push(waiting({ name: long, tool: long.repeat(2), arguments: { path: long.repeat(20) } }));
      await page.locator('.card', { hasText: 'Approve' }).waitFor();
      const wider = (/** @type {string} */ selector) => page.locator(selector).evaluate((box) => box.scrollWidth - box.clientWidth);
      for (const view of ['Status', 'Contacts', 'Log', 'History', 'Node']) {
        await page.locator('#views').getByRole('button', { name: view, exact: true }).click();
        if (view === 'Contacts') for (const button of await page.locator('.person-toggle').all()) await button.click();
        if (view === 'Log') await page.locator('.log-line').first().waitFor();
        if (view === 'History') await page.locator('.chart').first().waitFor();
        if (view === 'Node') await page.getByText('What is allowed now').waitFor();
        assert.equal(await wider('html'), 0, view);
        assert.equal(await wider('#attention'), 0, `what waits, ${view}`);
        assert.equal(await wider(view === 'Status' ? '#status-pane' : '#view-pane'), 0, view);
        if (view === 'Log') assert.equal(await wider('.log-box'), 0, 'the lines');
        if (width === 320) await page.screenshot({ path: `${OUTPUT}long-${view.toLowerCase()}-320.png` });
      }
      await close();
    });
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

  const asSource = process.env.TOMBOLO_PAGES === 'source' ? 'sources do not come compressed' : false;
  test('the first load is small, and comes from the node alone', { skip: asSource }, async () => {
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
  // A colour that is on its way to another is neither.
  await place.evaluate(() => Promise.allSettled(document.getAnimations().filter((one) => one instanceof CSSTransition).map((one) => one.finished)));
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
