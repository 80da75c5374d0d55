/**
 * The strip at the top: a peer's call for help, on every view, until a person has seen it.
 *
 * Owns that it is there, says who and how sure that is, is read out, and is cleared by a second press and by nothing else.
 */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, before, describe, test } from 'node:test';
import { missing, openBrowser, openNode, OUTPUT, WIDE } from './browser.mjs';
import { sos } from './mock-world.mjs';
import { PASSWORD, startServer } from './server.mjs';

/** @import { Browser, Page } from 'playwright-core' */
/** @import { World } from './mock-world.mjs' */
/** @import { Server } from './server.mjs' */

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const onMock = process.env.TOMBOLO_BIN ? 'the mock’s world is needed' : false;
const SMALL = { width: 320, height: 640 };
const EVIL = '<img src=x onerror="window.ran=1"><b>b</b>\u202e\u2066evil\u200b\u200f\ufeff\u0007\u001b[31m';
const VIEWS = ['Status', 'Contacts', 'Log', 'History', 'Node', 'Chat'];

describe('a call for help', { skip: missing || onMock }, () => {
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

  for (const scheme of /** @type {('light' | 'dark')[]} */ (['light', 'dark'])) {
    for (const [name, size] of /** @type {[string, typeof WIDE][]} */ ([['1280', WIDE], ['320', SMALL]])) {
      test(`at ${name} px, ${scheme}: it stands above everything on every view, and its coming is read out`, async () => {
        const { page, world, faults, close } = await openNode(browser, server, { size, colorScheme: scheme, bypassCSP: true, change: calm });
        await page.locator('#disk .meter').first().waitFor({ state: 'attached' });
        assert.equal(await page.locator('#distress').isVisible(), false);
        assert.equal(await page.title(), 'Tombolo');
        world.distress.push(sos({ at: Date.now() }));
        const strip = page.locator('#distress');
        await strip.waitFor();
        assert.equal(await page.title(), 'SOS! Tombolo');
        assert.match(await strip.getByRole('alert').first().innerText(), /^SOS from Ana !a1b2c3d4, ●?\s*pinned key 8c11 5e0f a9d3 2b47, \d\d:\d\d\s+broken leg at the causeway, 2 people$/);
        assert.match(await strip.locator('.row-details').first().innerText(), /now[\s\S]*2 hops[\s\S]*SNR -7.5 dB/);
        for (const view of VIEWS) {
          await page.locator('#views').getByRole('button', { name: view, exact: true }).click();
          const box = await strip.boundingBox();
          assert.equal(box?.y, 0, view);
          assert.ok((box?.height ?? 0) > 40, view);
          const wide = await page.locator('html').evaluate((root) => root.scrollWidth - root.clientWidth);
          assert.equal(wide, 0, view);
        }
        world.distress.unshift(
          sos({ id: 'm-2', at: Date.now(), times: 3, name: '!0badcafe', node: '!0badcafe', assurance: 'unverified', fingerprint: null, claims: 'Ben', channel: 'bots', mqtt: true, text: '' }),
        );
        await strip.getByText('1 more').click();
        await page.evaluate(AXE);
        const { violations } = await page.evaluate(() => /** @type {any} */ (window).axe.run(document, { iframes: false }));
        assert.deepEqual(violations.map((/** @type {any} */ found) => `${found.id}: ${found.nodes[0]?.html}`), []);
        await page.screenshot({ path: `${OUTPUT}distress-${name}-${scheme}.png`, animations: 'disabled' });
        assert.deepEqual(faults, []);
        await close();
      });
    }
  }

  test('one press clears nothing, the second clears it for everybody, and a reload brings back only what is not cleared', async () => {
    const { page, world, mock, close } = await openNode(browser, server, { change: calm });
    world.distress.push(sos());
    const clear = page.locator('#distress').getByRole('button', { name: 'Seen, clear: Ana' });
    await clear.waitFor();
    await page.reload();
    await clear.click();
    const sure = page.getByRole('button', { name: 'Clear it for everybody?' });
    await sure.waitFor();
    assert.deepEqual(mock.operator.calls, []);
    await sure.click();
    await page.locator('#distress').waitFor({ state: 'hidden' });
    assert.deepEqual(mock.operator.calls, [{ method: 'mesh.distress-clear', params: { id: 'm-1' } }]);
    assert.equal(await page.title(), 'Tombolo');
    await page.reload();
    await page.locator('#glance li').first().waitFor();
    await page.locator('#disk .meter').first().waitFor({ state: 'attached' });
    assert.equal(await page.locator('#distress').isVisible(), false);
    await close();
  });

  test('a viewer sees it and has nothing to press; what another session cleared is gone for all', async () => {
    if (server.mock === null) return;
    server.mock.viewerPassword = 'only looking';
    const { page, world, close } = await openNode(browser, server, { password: 'only looking', view: 'status', change: (world) => { calm(world); world.distress.push(sos()); } });
    await page.locator('#distress').waitFor();
    assert.equal(await page.locator('#distress button').count(), 0);
    const [call] = world.distress;
    if (call) call.seen_at = Date.now();
    await page.locator('#distress').waitFor({ state: 'hidden' });
    assert.equal(await page.title(), 'Tombolo');
    await close();
  });

  test('of several the newest is said, the others are counted and can be cleared one by one', async () => {
    const { page, mock, close } = await openNode(browser, server, {
      change: (world) => {
        calm(world);
        world.distress.push(
          sos({ id: 'm-3', name: 'Ben', assurance: 'signed', channel: 'bots', text: 'the dam' }), sos({ id: 'm-2', text: 'second' }), sos({ id: 'm-1', text: 'first' }),
          sos({ id: 'm-0', text: 'long over', seen_at: 7 }),
        );
      },
    });
    const strip = page.locator('#distress');
    await strip.getByText('2 more').click();
    assert.match(await strip.getByRole('alert').first().innerText(), /Ben[\s\S]*signed by the contact’s key[\s\S]*#bots[\s\S]*the dam/);
    assert.doesNotMatch(await strip.innerText(), /long over/);
    assert.equal(await page.title(), 'SOS! 3 calls Tombolo');
    const second = strip.locator('li', { hasText: 'second' });
    await second.getByRole('button').click();
    await second.getByRole('button', { name: 'Clear it for everybody?' }).click();
    await second.waitFor({ state: 'detached' });
    await strip.getByText('1 more').waitFor();
    assert.deepEqual(mock.operator.calls, [{ method: 'mesh.distress-clear', params: { id: 'm-2' } }]);
    await close();
  });

  test('a call that comes while a finger is on the button is not cleared by it', async () => {
    const { page, world, mock, close } = await openNode(browser, server, { change: (world) => { calm(world); world.distress.push(sos()); } });
    const strip = page.locator('#distress');
    await strip.getByRole('button', { name: 'Seen, clear: Ana' }).click();
    world.distress.unshift(sos({ id: 'm-2', name: 'Ben', text: 'the dam breaks' }));
    await strip.getByText('the dam breaks').waitFor();
    await strip.locator('> .distress-foot button').click();
    await strip.getByRole('button', { name: 'Clear it for everybody?' }).waitFor();
    assert.deepEqual(mock.operator.calls, []);
    await close();
  });

  test('what the node refuses is said beside the button, and the call stays', async () => {
    const { page, world, mock, close } = await openNode(browser, server, { change: (world) => { calm(world); world.distress.push(sos()); } });
    const strip = page.locator('#distress');
    await strip.getByRole('button', { name: 'Seen, clear: Ana' }).click();
    await page.route('**/rpc', (route) => (route.request().postDataJSON()?.method === 'mesh.distress-clear' ? route.fulfill({ status: 500, body: '' }) : route.continue()));
    await strip.getByRole('button', { name: 'Clear it for everybody?' }).click();
    await strip.locator('.field-error:not(:empty)').waitFor();
    assert.ok(await strip.isVisible());
    assert.deepEqual([mock.operator.calls.length, world.distress[0]?.seen_at], [0, null]);
    await close();
  });

  test('hostile words and names are text, hide nothing, and push nothing away', async () => {
    const { page, faults, close } = await openNode(browser, server, {
      size: SMALL,
      change: (world) => {
        calm(world);
        world.distress.push(sos({ name: `Ana${EVIL}`, node: EVIL, fingerprint: EVIL, claims: EVIL, channel: EVIL, text: `${EVIL}${'Ä'.repeat(10_000)}`, assurance: 'unverified', at: NaN }));
        world.distress.push(sos({ id: 'm-2', text: `\u202e${'W'.repeat(10_000)}` }));
      },
    });
    const strip = page.locator('#distress');
    await strip.getByText('1 more').click();
    assert.match(await strip.innerText(), /<img src=x onerror=/);
    assert.doesNotMatch(await strip.innerText(), /[\u202a-\u202e\u2066-\u2069\u200b\u200f\ufeff\u0007\u001b]/);
    assert.equal(await strip.locator('img, b').count(), 0);
    assert.equal(await page.evaluate(() => /** @type {any} */ (window).ran), undefined);
    const box = await strip.boundingBox();
    assert.ok((box?.height ?? 999) < 0.5 * SMALL.height, `${box?.height}`);
    assert.equal(await page.locator('html').evaluate((root) => root.scrollWidth - root.clientWidth), 0);
    await page.screenshot({ path: `${OUTPUT}distress-hostile.png` });
    assert.deepEqual(faults, []);
    await close();
  });

  test('nothing of it stays after the log-out, and it is there again after the next log-in', async () => {
    const { page, close } = await openNode(browser, server, { change: (world) => { calm(world); world.distress.push(sos()); } });
    await page.locator('#distress').waitFor();
    await page.getByRole('button', { name: 'Log out' }).click();
    await page.getByLabel('Password').waitFor();
    assert.equal(await page.title(), 'Tombolo');
    assert.doesNotMatch(await page.locator('body').evaluate((body) => body.textContent ?? ''), /broken leg/);
    await page.getByLabel('Password').fill(PASSWORD);
    await page.getByRole('button', { name: 'Log in' }).click();
    await page.locator('#distress', { hasText: 'broken leg' }).waitFor();
    await close();
  });
});

/** Nothing else waits. @param {World} world */
function calm(world) {
  world.assistant.allowed_contacts = world.assistant.allowed_contacts.filter(({ name }) => name !== 'Ben');
}
