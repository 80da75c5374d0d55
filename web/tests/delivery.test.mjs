/**
 * What the log says of a text's arrival, against the daemon: each state after what really happened on the air.
 *
 * Owns that the word is true. Needs the daemon (`TOMBOLO_BIN`); that each state has its own word is in `status.test.mjs`.
 */

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { logIn, missing, openBrowser, openPage, OUTPUT, PHONE, WIDE } from './browser.mjs';
import { contact, MESH } from './radio.mjs';
import { linked, noDaemon, startDriven } from './server.mjs';

/** @import { Browser, Page } from 'playwright-core' */

/** Retries of an absent peer's text, the wait for one that was only passed on: longer than that nothing takes. */
const STATE_MS = 60_000;
/** Air so fast that a radio gives up after some seconds, and Ben behind a relay. */
const FAST = MESH.replace('[radio]', 'speed = 3\n[radio]').replace('name = "Ben"', 'name = "Ben"\nhops = 1');

describe('states of delivery', { skip: missing || noDaemon }, () => {
  /** @type {Browser} */
  let browser;
  /** @type {Awaited<ReturnType<typeof startDriven>>} */
  let server;
  /** The log at both widths. @type {{ page: Page, faults: string[], close: () => Promise<void> }[]} */
  let opened;
  before(async () => {
    const contacts = [contact('Ana', '!a1b2c3d4'), contact('Ben', '!b0b0b0b2')];
    [browser, server] = await Promise.all([openBrowser(), startDriven({ mesh: FAST, contacts })]);
    opened = await Promise.all([WIDE, PHONE].map((viewport) => openPage(browser, { viewport })));
    for (const { page } of opened) {
      await logIn(page, server);
      await page.locator('#views').getByRole('button', { name: 'Log', exact: true }).click();
    }
  });
  after(async () => {
    await browser?.close();
    await server?.stop();
  });

  /**
   * Asks as a peer; the answer is what the model says next.
   * @param {'Ana' | 'Ben'} peer
   * @param {string} answer
   * @param {string} [question]
   */
  async function asked(peer, answer, question = answer) {
    server.model.say(answer);
    await server.radio.say(peer, `!ai say: ${question}`);
  }

  /**
   * Waits until both logs say so of that text.
   * @param {string} text
   * @param {RegExp} words the state, and the reason
   */
  async function says(text, words) {
    await Promise.all(opened.map(async ({ page }) => {
      const line = page.locator('.log-line.out', { hasText: text });
      await line.filter({ hasText: words }).waitFor({ timeout: STATE_MS }).catch(async (fault) => {
        throw new Error(`${await line.innerText().catch(() => 'no line')}: not ${words}`, { cause: fault });
      });
    }));
  }

  /** Restarts the daemon: what it keeps for a peer goes when the peer is next heard, without a rest before. */
  async function restarted() {
    await server.down();
    await server.up();
    await linked(server);
  }

  test('acknowledged by the peer’s own radio: delivered', async () => {
    await asked('Ana', 'it arrives');
    await says('it arrives', /delivered/);
    assert.deepEqual(server.radio.heard('Ana'), ['it arrives']);
  });

  test('passed on by a relay and not acknowledged: relayed, and never more than that', async () => {
    await server.radio.change('Ben', { drop_acks: true });
    await asked('Ben', 'it is passed on');
    await says('it is passed on', /relayed/);
    // It goes once more when he is heard, and even then nobody says that it arrived.
    await says('it is passed on', /waiting\s*until the peer is heard again/);
    await restarted();
    await server.radio.say('Ben', 'good evening', { channel: 0 });
    await server.radio.hears('Ben', 2);
    await says('it is passed on', /relayed/);
    for (const { page } of opened) assert.equal(await page.locator('.log-line.out', { hasText: /it is passed on.*delivered/ }).count(), 0);
    await server.radio.change('Ben', { drop_acks: false });
  });

  test('a key that our own radio does not hold: failed at once, with the reason', async () => {
    // Asked under her key; then the radio takes another one for hers.
    server.model.hold();
    await asked('Ana', 'it is not sealed to another');
    await Promise.all(opened.map(({ page }) => page.locator('.log-line.in', { hasText: 'it is not sealed' }).waitFor({ timeout: STATE_MS })));
    await server.radio.learnKey('!a1b2c3d4', 'Mallory');
    server.model.release();
    await says('it is not sealed', /failed\s*the radio can.t encrypt to the peer.s key/);
    await server.radio.learnKey('!a1b2c3d4', 'Ana');
  });

  test('out of reach: it waits until the peer is heard, then fails with the reason when nothing comes again', async () => {
    server.model.hold();
    await asked('Ana', 'it finds nobody');
    await Promise.all(opened.map(({ page }) => page.locator('.log-line.in', { hasText: 'it finds nobody' }).waitFor({ timeout: STATE_MS })));
    await server.radio.change('Ana', { reachable: false });
    server.model.release();
    await says('it finds nobody', /waiting\s*until the peer is heard again, at most 24 hours/);
    for (const { page } of opened) await page.screenshot({ path: `${OUTPUT}delivery-${page.viewportSize()?.width}.png` });
    await restarted();
    await server.radio.change('Ana', { reachable: true, drop_acks: true });
    await server.radio.say('Ana', 'I am here again', { channel: 0 });
    await says('it finds nobody', /failed\s*the peer.s radio does not answer/);
    await server.radio.change('Ana', { drop_acks: false });
  });

  test('stopped in the middle, and the link lost: not confirmed, and what had not left never leaves', async () => {
    server.model.hold();
    // Two parts: one is on its way, one waits behind it.
    const first = 'nobody knows whether it arrived';
    const [page] = opened.map(({ page }) => page);
    assert.ok(page);
    await asked('Ana', `${first} ${'and so on '.repeat(18)}the end`, first);
    await page.locator('.log-line.in', { hasText: first }).waitFor({ timeout: STATE_MS });
    await server.radio.change('Ana', { reachable: false });
    server.model.release();
    await says(`1/2 ${first}`, /sent/);
    await page.getByRole('button', { name: 'Stop all' }).click();
    await page.getByRole('button', { name: 'Stop now?' }).click();
    await Promise.all(opened.map(({ page }) => page.locator('.card', { hasText: 'Everything is stopped.' }).waitFor()));
    await server.radio.dropLink();
    await says(`1/2 ${first}`, /not confirmed/);
    await server.radio.change('Ana', { reachable: true });
    await page.getByRole('button', { name: 'Resume' }).click();
    await asked('Ana', 'it goes on');
    await says('it goes on', /delivered/);
    assert.ok(server.radio.heard('Ana').every((text) => !text.startsWith('2/2')));
    assert.equal(await page.locator('.log-line.out', { hasText: '1/2' }).count(), 1, 'one line, whatever ids it had');
    for (const { faults } of opened) assert.deepEqual(faults, []);
  });
});
