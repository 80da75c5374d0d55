/**
 * Another key under a contact's number, against the daemon: seen, compared, refused or accepted.
 *
 * Owns that one click decides, and what follows from it for both keys: who is answered, and with which tools. Needs the
 * daemon (`TOMBOLO_BIN`); how the card looks is in `attention.test.mjs`.
 */

import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { logIn, missing, openBrowser, openPage, OUTPUT, PHONE, WIDE } from './browser.mjs';
import { printOf } from './radio.mjs';
import { noDaemon, startDriven } from './server.mjs';

/** @import { Browser } from 'playwright-core' */

const ANA = '!a1b2c3d4';

describe('another key under a contact’s number', { skip: missing || noDaemon }, () => {
  /** @type {Browser} */
  let browser;
  before(async () => void (browser = await openBrowser()));
  after(async () => void (await browser?.close()));
  /** @type {Awaited<ReturnType<typeof startDriven>>} */
  let server;
  afterEach(async () => void (await server?.stop()));

  for (const [name, size] of /** @type {[string, typeof WIDE][]} */ ([['1280', WIDE], ['375', PHONE]])) {
    for (const accept of [false, true]) {
      test(`at ${name} px, both fingerprints are shown, and the new key is ${accept ? 'accepted' : 'refused'} by one click`, async () => {
        server = await startDriven();
        const { radio, model } = server;
        const { page, faults, close } = await openPage(browser, { viewport: size });
        await logIn(page, server);
        // Ana is known, and has a grant that was set here.
        await page.locator('#views').getByRole('button', { name: 'Contacts', exact: true }).click();
        await page.getByRole('button', { name: 'Edit Ana' }).click();
        const ana = page.locator('.person', { hasText: ANA });
        await ana.getByLabel('network', { exact: true }).check();
        await ana.locator('.person-grants', { hasText: 'system, network' }).waitFor();

        await radio.learnKey(ANA, 'Mallory');
        await radio.say('Mallory', '!ai it is me, Ana', { claims: ANA });
        const card = page.locator('#attention .card', { hasText: 'Another key was seen under Ana’s number' });
        await card.waitFor({ timeout: 40_000 });
        const prints = card.locator('.fingerprints div');
        assert.deepEqual(await prints.allInnerTexts().then((all) => all.map((one) => one.split(/\s+/).join(' '))), [`pinned ${printOf('Ana')}`, `new ${printOf('Mallory')}`]);
        await page.screenshot({ path: `${OUTPUT}key-change-${name}.png` });
        assert.equal(model.asked, 0, 'a stranger is not answered');

        await card.getByRole('button', { name: accept ? 'Trust the new key' : 'Refuse the new key' }).click();
        await card.waitFor({ state: 'detached' });
        await page.locator('#notices', { hasText: accept ? `Ana is now known by ${printOf('Mallory')}.` : `The key ${printOf('Mallory')} is not Ana’s.` }).waitFor();
        await ana.getByText(printOf(accept ? 'Mallory' : 'Ana')).first().waitFor();

        // Who holds the key that is pinned now is answered, with what that key may use; the other meets silence.
        const [friend, stranger] = accept ? ['Mallory', 'Ana'] : ['Ana', 'Mallory'];
        await radio.learnKey(ANA, stranger);
        await radio.say(stranger, '!ai and I?', { claims: ANA });
        await page.locator('.message', { hasText: '!ai and I?' }).waitFor({ state: 'attached' });
        await radio.learnKey(ANA, friend);
        model.say('Here you are.');
        await radio.say(friend, '!ai may I ask?', { claims: ANA });
        await page.locator('.message.out', { hasText: 'Here you are.' }).waitFor({ state: 'attached', timeout: 40_000 });
        assert.equal(model.asked, 1);
        assert.ok(model.offered.includes('system_disk_status'), 'what the contact has by default follows');
        // A grant that was set for a key stays with that key.
        assert.equal(model.offered.includes('network_interfaces'), !accept, model.offered.join(' '));
        await ana.locator('.person-grants', { hasText: accept ? /^may use system$/ : 'system, network' }).waitFor();
        assert.equal(await page.locator('#attention .card', { hasText: 'Another key' }).count(), accept ? 1 : 0, 'what was refused is not asked again; Ana’s old key is the other one now');
        assert.deepEqual(faults, []);
        await close();
      });
    }
  }
});
