/**
 * The live log and the history: what stands in them, the filters, and that thousands of lines don't stop the page.
 *
 * Owns the counts of what is in the document. It measures no time: what is counted is nodes, and that a click is answered.
 */

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { missing, openBrowser, openNode, PHONE, WIDE } from './browser.mjs';
import { startServer } from './server.mjs';

/** @import { Browser, Page } from 'playwright-core' */
/** @import { Server } from './server.mjs' */

const onMock = process.env.TOMBOLO_BIN ? 'the mock’s world is needed' : false;

describe('the log', { skip: missing || onMock }, () => {
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

  for (const [name, size] of /** @type {[string, typeof WIDE][]} */ ([['1280', WIDE], ['375', PHONE]])) {
    test(`at ${name} px, messages, tool calls, security and the daemon’s lines stand in one order, and are filtered`, async () => {
      const { page, mock, faults, close } = await openNode(browser, server, { size, view: 'log' });
      await page.locator('.log-line', { hasText: 'ollama answered' }).waitFor();
      await page.locator('.log-line', { hasText: 'system_disk_status' }).waitFor();
      const times = await page.locator('.log-line time').evaluateAll((all) => all.map((time) => time.getAttribute('datetime') ?? ''));
      assert.deepEqual(times, [...times].sort(), 'in order');
      assert.match(await page.locator('.log-line.out', { hasText: '2/3 so there' }).innerText(), /not confirmed/);
      assert.match(await page.locator('.log-line.out', { hasText: 'pong' }).innerText(), /failed\s+the radio refused the key/);
      assert.match(await page.locator('.log-line.in', { hasText: 'how much disk space is left?' }).first().innerText(), /unverified[\s\S]*not answered: not a contact/);

      mock.events.publish('mesh', { at: Date.now(), event: 'security', kind: 'replay', from: '!0badcafe', detail: 'an answered packet came again' });
      await page.locator('.log-line.security', { hasText: 'replay, not answered' }).waitFor();
      await page.locator('#notices', { hasText: 'Security: replay, not answered, !0badcafe.' }).waitFor();
      mock.events.publish('mesh', { at: Date.now(), event: 'turn_ended', turn_id: 't9', backend: 'ollama', tools: [{ name: 'system_load', category: 'system', outcome: 'ran' }], millis: 4200, parts: 2 });
      assert.match(await page.locator('.log-line.turn').last().innerText(), /answered in 4.2 s, 2 parts/);

      await page.getByRole('button', { name: 'Daemon', exact: true }).click();
      assert.equal(await page.locator('.log-line.log').count(), 0);
      assert.equal(await page.getByRole('button', { name: 'Daemon', exact: true }).getAttribute('aria-pressed'), 'false');
      await page.getByLabel('Delivery').selectOption('failed');
      assert.equal(await page.locator('.log-line').count(), 1);
      await page.getByLabel('Delivery').selectOption('Any delivery');
      await page.getByLabel('Find in the log').fill('TIDE');
      assert.equal(await page.locator('.log-line').count(), 2);
      await page.getByText(/^2 of \d+ lines$/).waitFor();
      await page.getByLabel('Find in the log').fill('there is no such line');
      await page.getByText('Nothing yet.').waitFor();
      assert.deepEqual(faults, []);
      await close();
    });
  }

  test('a state of delivery that is learnt later changes its line, in its place', async () => {
    const { page, world, close } = await openNode(browser, server, { view: 'log' });
    const line = page.locator('.log-line.out', { hasText: '2/3 so there' });
    await line.waitFor();
    await page.locator('.log-line', { hasText: 'ollama answered' }).waitFor();
    await page.locator('.log-line', { hasText: 'files_read' }).waitFor();
    const before = await page.locator('.log-line').count();
    const message = world.messages.find(({ text }) => text.startsWith('2/3'));
    // It went once more, under another packet id: it is the same message all the same.
    if (message) Object.assign(message, { id: 77, delivery: { state: 'delivered' } });
    await line.locator('.badge', { hasText: 'delivered' }).waitFor();
    assert.equal(await page.locator('.log-line').count(), before);
    await close();
  });

  test('5,000 lines and 500 nodes: a page of them is in the document, every line can be reached, and a click is answered', async () => {
    const { page, mock, world, faults, close } = await openNode(browser, server, {
      view: 'log',
      change: (world) => {
        world.nodes = Array.from({ length: 500 }, (_, n) => ({
          node: `!${(n + 1).toString(16).padStart(8, '0')}`, long_name: `Node ${n}`, short_name: 'N', fingerprint: null, contact: null, standing: 'stranger', last_heard: n + 1, snr: 1, hops: 1, battery: 50,
        }));
      },
    });
    await page.locator('.log-line').first().waitFor();
    for (let n = 0; n < 5200; n += 1) mock.log({ message: `line ${n}` });
    await page.locator('.log-line', { hasText: 'line 5199' }).waitFor();
    await page.getByText('5000 lines', { exact: true }).waitFor();
    assert.equal(await page.locator('.log-line').count(), 200);
    const elements = await page.evaluate(() => document.getElementsByTagName('*').length);
    assert.ok(elements < 4000, `${elements} elements`);

    await page.getByRole('button', { name: 'Earlier lines' }).click();
    assert.equal(await page.locator('.log-line').count(), 200);
    await page.locator('.log-line', { hasText: 'line 5010' }).waitFor();
    assert.equal(await page.locator('.log-line', { hasText: 'line 5199' }).count(), 0);
    // What comes now does not pull the reader away.
    mock.log({ message: 'a newer one' });
    await page.getByRole('button', { name: /^\d+ newer$/ }).waitFor();
    assert.equal(await page.locator('.log-line', { hasText: 'a newer one' }).count(), 0);
    await page.getByRole('button', { name: /^\d+ newer$/ }).click();
    await page.locator('.log-line', { hasText: 'a newer one' }).waitFor();
    await page.getByLabel('Find in the log').fill('line 777');
    await page.locator('.log-line', { hasText: 'line 777' }).first().waitFor();
    await page.getByRole('button', { name: 'Contacts', exact: true }).click();
    await page.getByText('50 of 500 shown').waitFor();
    void world;
    assert.deepEqual(faults, []);
    await close();
  });

  test('what strangers and programs write is one line of text, with what is hidden written out', async () => {
    const evil = '\u001b[31mred\u001b[0m\n2026-01-01 forged line\r\u202etxt.exe\u200b<img src=x onerror="window.ran=1"><script>window.ran=1</script>';
    const { page, mock, world, faults, close } = await openNode(browser, server, { view: 'log' });
    mock.log({ message: `${evil} ${'y'.repeat(10_000)}`, target: evil, level: evil });
    Object.assign(world.messages.at(-1) ?? {}, { text: evil, name: evil });
    world.ledger.push({ at: Date.now(), turn_id: evil, caller: evil, tool: evil, category: evil, outcome: evil, millis: 1 });
    mock.events.publish('mesh', { at: Date.now(), event: 'security', kind: evil, from: evil, detail: evil });
    mock.events.publish('mesh', { at: Date.now(), event: 'turn_ended', turn_id: 'x', backend: evil, tools: [{ name: evil, outcome: evil }], millis: 1, parts: 1 });
    const line = page.locator('.log-line.log', { hasText: 'forged' });
    await line.waitFor();
    await page.locator('.log-line.security', { hasText: 'forged' }).waitFor();
    const shown = await page.locator('.log-box').innerText();
    assert.match(shown, /\\u\{1b\}\[31mred\\u\{1b\}\[0m\\n2026-01-01 forged line\\u\{d\}\\u\{202e\}txt\.exe\\u\{200b\}<img src=x/);
    assert.doesNotMatch(await page.locator('body').innerText(), /[\u001b\u202e\u200b\r]/);
    assert.equal(await page.locator('.log-box img, .log-box script, #notices img').count(), 0);
    assert.equal(await page.evaluate(() => /** @type {any} */ (window).ran), undefined);
    assert.deepEqual(faults, []);
    await close();
  });

  test('save gives the shown lines as a file, one line each', async () => {
    const { page, close } = await openNode(browser, server, { view: 'log' });
    await page.locator('.log-line').first().waitFor();
    await page.getByLabel('Find in the log').fill('tide');
    const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Save' }).click()]);
    assert.match(download.suggestedFilename(), /^tombolo-log-.*\.txt$/);
    const stream = await download.createReadStream();
    let text = '';
    for await (const chunk of stream) text += chunk;
    assert.equal(text.trimEnd().split('\n').length, 2);
    await close();
  });

  test('the history is drawn, said in words, and there as a table', async () => {
    const { page, faults, close } = await openNode(browser, server, { view: 'history' });
    const own = page.getByRole('img', { name: /^Own airtime/ });
    await own.waitFor();
    assert.match(await page.locator('.chart-block', { hasText: 'Own airtime' }).innerText(), /s sent in all; 41.3 s in the busiest hour[\s\S]*Far above it: own share 180 s, law 360 s/);
    assert.match(await page.locator('.chart-block', { hasText: 'Channel use' }).innerText(), /On average [\d.]+ %, at most 18 %/);
    assert.equal(await page.locator('.chart-block', { hasText: 'Channel use' }).locator('.chart-unknown').count(), 2, 'an hour of which nothing is known is no zero');
    const questions = page.locator('.chart-block', { hasText: 'Questions' });
    await questions.getByText('As a table').click();
    assert.equal(await questions.locator('tbody tr').count(), 24);
    assert.match(await questions.locator('thead').innerText(), /answered[\s\S]*refused/);
    assert.deepEqual(faults, []);
    await close();
  });

  test('the security panel remembers what the log knows, from before the page was opened', async () => {
    const { page, mock, close } = await openNode(browser, server);
    const security = page.locator('#security');
    await security.locator('li', { hasText: 'failed log-in' }).waitFor();
    assert.match(await security.innerText(), /from 192\.0\.2\.7[\s\S]*another key[\s\S]*claims !b0b0b0b2[\s\S]*unverified claim/);
    mock.log({ level: 'warn', target: 'tombolo::mesh::service::accept', message: 'name kind=foreign_key from=!11111111 and more kind=flood from=!0badcafe' });
    await security.getByText('flood, held off').waitFor();
    assert.match(await security.locator('li').first().innerText(), /claims !0badcafe/, 'the fields at the end count, not those in a text');
    await close();
  });
});
