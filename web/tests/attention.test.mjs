/**
 * What waits for the operator: confirmations, keys, another radio, the kill switch.
 *
 * Owns that the node page asks, shows exactly what would run, and does what was pressed: scored by what reached the node.
 */

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { missing, openBrowser, openNode, PHONE, WIDE } from './browser.mjs';
import { waiting } from './mock-world.mjs';
import { startServer } from './server.mjs';

/** @import { Browser } from 'playwright-core' */
/** @import { Server } from './server.mjs' */

const onMock = process.env.TOMBOLO_BIN ? 'the mock’s world is needed' : false;

describe('what waits for the operator', { skip: missing || onMock }, () => {
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
    test(`at ${name} px, a call is shown with its exact arguments, and approved or denied once`, async () => {
      const { page, world, mock, faults, close } = await openNode(browser, server, { size, change: calm });
      world.pending.push(waiting(), waiting({ id: 'c2', tool: 'files_write', category: 'files', arguments: { path: 'notes/tide.txt', text: 'low at four' } }));
      const card = page.locator('.card', { hasText: 'service_restart' });
      await card.waitFor();
      assert.match(await card.innerText(), /Ana → service_restart[\s\S]*8c11 5e0f a9d3 2b47[\s\S]*"service": "kiwix"[\s\S]*"force": false/);
      assert.match(await card.locator('.countdown').innerText(), /^(2:00|1:5\d)$/);
      assert.equal(await page.title(), '(2) Tombolo');
      assert.equal(await page.locator('#attention-spoken').textContent(), '2 things wait for your decision.');
      await card.getByRole('button', { name: 'Approve' }).click();
      await card.waitFor({ state: 'detached' });
      await page.locator('.card', { hasText: 'files_write' }).getByRole('button', { name: 'Deny' }).click();
      await page.locator('#attention').waitFor({ state: 'hidden' });
      assert.deepEqual(mock.operator.calls, [
        { method: 'assistant.confirm-tool', params: { id: 'c1', approve: true } }, { method: 'assistant.confirm-tool', params: { id: 'c2', approve: false } },
      ]);
      assert.equal(await page.title(), 'Tombolo');
      assert.deepEqual(faults, []);
      await close();
    });
  }

  test('it is asked in the node page, on every view, and never in the frame', async () => {
    const { page, world, close } = await openNode(browser, server, { change: calm });
    const frame = page.frameLocator('iframe');
    await frame.getByText('Ask this node.').waitFor();
    world.pending.push(waiting());
    for (const view of ['Status', 'Contacts', 'Log', 'History', 'Node', 'Chat']) {
      await page.locator('#views').getByRole('button', { name: view, exact: true }).click();
      await page.locator('#attention .card', { hasText: 'service_restart' }).waitFor();
    }
    assert.equal(await frame.getByText('service_restart').count(), 0);
    assert.equal(await frame.getByRole('button', { name: 'Approve' }).count(), 0);
    await close();
  });

  test('time that runs out takes the card away, with nothing sent', async () => {
    const { page, world, mock, close } = await openNode(browser, server, { change: calm });
    world.pending.push(waiting({ expires_in_ms: 2500 }));
    await page.locator('.card').waitFor();
    world.pending = [];
    await page.locator('#attention').waitFor({ state: 'hidden' });
    assert.deepEqual(mock.operator.calls, []);
    await close();
  });

  test('arguments that would deceive the eye are written out', async () => {
    const evil = `safe.txt\u202egpj.exe\u200b\u0000<img src=x onerror=alert(1)> рaypal ${'x'.repeat(10_000)}END`;
    const { page, world, faults, close } = await openNode(browser, server, { change: calm });
    world.pending.push(waiting({ name: `Ana\u202e<b>`, tool: 'files_write\u202e', arguments: { path: evil } }));
    const card = page.locator('.card', { hasText: 'files_write' });
    await card.waitFor();
    const shown = await card.locator('pre').first().innerText();
    assert.match(shown, /safe\.txt\\u\{202e\}gpj\.exe\\u\{200b\}\\u0000<img src=x/);
    assert.match(shown, /END/, 'nothing is left out');
    assert.match(await card.locator('pre').nth(1).textContent() ?? '', /\\u\{440\}aypal/, 'and once more in ASCII, with what looks like a p');
    assert.doesNotMatch(await card.innerText(), /[\u202e\u200b\u0000]/);
    assert.equal(await card.locator('img, b').count(), 0);
    assert.deepEqual(faults, []);
    await close();
  });

  test('a card that comes under the finger is not pressed by it', async () => {
    const { page, world, mock, close } = await openNode(browser, server, { change: calm });
    world.pending.push(waiting());
    await page.evaluate(() => {
      new MutationObserver(() => {
        for (const button of document.querySelectorAll('.card button')) if (button instanceof HTMLElement && button.textContent === 'Approve') button.click();
      }).observe(document.getElementById('attention') ?? document.body, { childList: true, subtree: true });
    });
    await page.locator('.card').waitFor();
    await page.locator('.card button:not([aria-disabled])', { hasText: 'Approve' }).waitFor();
    assert.deepEqual(mock.operator.calls, []);
    await close();
  });

  test('a refusal is said in the card, which stays', async () => {
    const { page, world, close } = await openNode(browser, server, { change: calm });
    world.pending.push(waiting());
    await page.locator('.card').waitFor();
    await page.route('**/rpc', (route) => {
      if (route.request().postDataJSON()?.method !== 'assistant.confirm-tool') return route.continue();
      const data = { name: 'invalid_params', detail: 'no such call waits: it may have expired' };
      return route.fulfill({ status: 400, json: { jsonrpc: '2.0', id: route.request().postDataJSON().id, error: { code: -32602, message: 'x', data } } });
    });
    await page.getByRole('button', { name: 'Approve' }).click();
    await page.locator('.card', { hasText: 'No such call waits: it may have expired.' }).waitFor();
    await close();
  });

  for (const [name, size] of /** @type {[string, typeof WIDE][]} */ ([['1280', WIDE], ['375', PHONE]])) {
    test(`at ${name} px, another key shows both fingerprints, is refused with one press, or trusted with one`, async () => {
      for (const [button, accept] of /** @type {[string, boolean][]} */ ([['Refuse the new key', false], ['Trust the new key', true]])) {
        const { page, mock, world, close } = await openNode(browser, server, { size });
        const card = page.locator('#attention .card', { hasText: 'Another key was seen under Ben' });
        assert.match(await card.innerText(), /pinned\s+51d0 c3aa 0e9f 6612[\s\S]*new\s+e2e2 0001 9bfa 44c0/);
        await card.getByRole('button', { name: button }).click();
        await card.waitFor({ state: 'detached' });
        assert.deepEqual(mock.operator.calls, [{ method: 'mesh.peer-accept-key', params: { id: '!b0b0b0b2', fingerprint: 'e2e2 0001 9bfa 44c0', accept, pinned: '51d0 c3aa 0e9f 6612' } }]);
        const ben = world.assistant.allowed_contacts.find(({ name }) => name === 'Ben');
        assert.equal(ben?.fingerprint, accept ? 'e2e2 0001 9bfa 44c0' : '51d0 c3aa 0e9f 6612');
        // Refused, his first key still waits to be compared.
        assert.equal(await page.locator('#attention .card', { hasText: 'Is this the key of Ben' }).count(), accept ? 0 : 1);
        await close();
      }
    });
  }

  test('by keyboard alone: to the call, approved; the focus is not lost in between', async () => {
    const { page, world, mock, close } = await openNode(browser, server, { view: 'status', change: calm });
    world.pending.push(waiting());
    await page.locator('.card button:not([aria-disabled])', { hasText: 'Approve' }).waitFor();
    for (let presses = 0; presses < 40; presses += 1) {
      await page.keyboard.press('Tab');
      if ((await page.evaluate(() => document.activeElement?.textContent)) === 'Approve') break;
    }
    // News while the focus is there: another call comes.
    world.pending.push(waiting({ id: 'c2', tool: 'files_write' }));
    await page.locator('.card', { hasText: 'files_write' }).waitFor();
    assert.equal(await page.evaluate(() => document.activeElement?.textContent), 'Approve');
    await page.keyboard.press('Enter');
    await page.locator('.card', { hasText: 'service_restart' }).waitFor({ state: 'detached' });
    assert.deepEqual(mock.operator.calls, [{ method: 'assistant.confirm-tool', params: { id: 'c1', approve: true } }]);
    await close();
  });

  test('what is put off stays among the contacts', async () => {
    const { page, close } = await openNode(browser, server);
    await page.locator('#attention').getByRole('button', { name: 'Later' }).click();
    await page.locator('#attention').waitFor({ state: 'hidden' });
    await page.getByRole('button', { name: 'Contacts', exact: true }).click();
    await page.getByRole('button', { name: 'Edit Ben' }).click();
    await page.locator('.person .card', { hasText: 'Another key was seen under Ben' }).waitFor();
    await close();
  });

  test('another radio waits until it is accepted', async () => {
    const { page, mock, close } = await openNode(browser, server, {
      change: (world) => {
        calm(world);
        Object.assign(world.status, { connected: false, link: 'another radio is refused', refused_radio: { fingerprint: 'aaaa bbbb cccc dddd', owner: 'New <b>radio</b>\u202e', node: '!70b01002' } });
      },
    });
    const card = page.locator('.card', { hasText: 'Another radio is plugged in' });
    assert.match(await card.innerText(), /New <b>radio<\/b>\ufffd[\s\S]*aaaa bbbb cccc dddd/);
    await card.getByRole('button', { name: 'Use this radio' }).click();
    await card.waitFor({ state: 'detached' });
    await page.locator('#radio .badge', { hasText: 'connected' }).waitFor();
    assert.deepEqual(mock.operator.calls, [{ method: 'mesh.radio-accept', params: { fingerprint: 'aaaa bbbb cccc dddd' } }]);
    await close();
  });

  for (const [name, size] of /** @type {[string, typeof WIDE][]} */ ([['1280', WIDE], ['375', PHONE]])) {
    test(`at ${name} px, everything is stopped with a second press, said on every view, and goes on again`, async () => {
      const { page, mock, close } = await openNode(browser, server, { size, change: calm });
      await page.getByRole('button', { name: 'Stop all' }).click();
      assert.deepEqual(mock.operator.calls, [], 'one press is none');
      await page.getByRole('button', { name: 'Stop now?' }).click();
      await page.locator('.card', { hasText: 'Everything is stopped.' }).waitFor();
      assert.match(await page.locator('#glance').innerText(), /stopped/);
      await page.getByRole('button', { name: 'Resume' }).click();
      await page.locator('#attention').waitFor({ state: 'hidden' });
      assert.deepEqual(mock.operator.calls, [{ method: 'mesh.stop-all', params: {} }, { method: 'mesh.stop-all', params: { resume: true } }]);
      await close();
    });
  }
});

/** Nothing waits. @param {import('./mock-world.mjs').World} world */
function calm(world) {
  world.assistant.allowed_contacts = world.assistant.allowed_contacts.filter(({ name }) => name !== 'Ben');
}
