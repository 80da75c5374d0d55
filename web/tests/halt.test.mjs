/**
 * The kill switch and the suspension of a contact, against the daemon: scored by what the peers hear.
 *
 * Owns that nothing leaves the radio while it shall not, and that it goes on afterwards. Needs the daemon (`TOMBOLO_BIN`);
 * the buttons themselves are in `attention.test.mjs` and `contacts.test.mjs`.
 */

import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { logIn, missing, openBrowser, openPage, PHONE, WIDE } from './browser.mjs';
import { contact, MESH } from './radio.mjs';
import { linked, noDaemon, startDriven } from './server.mjs';

/** @import { Browser } from 'playwright-core' */

describe('stopped and suspended', { skip: missing || noDaemon }, () => {
  /** @type {Browser} */
  let browser;
  /** @type {Awaited<ReturnType<typeof startDriven>>} */
  let server;
  before(async () => {
    const contacts = [contact('Ana', '!a1b2c3d4'), contact('Ben', '!b0b0b0b2')];
    [browser, server] = await Promise.all([openBrowser(), startDriven({ contacts, mesh: `speed = 4\n${MESH}` })]);
  });
  afterEach(() => server.model.reset());
  after(async () => {
    await browser?.close();
    await server?.stop();
  });

  for (const [name, size] of /** @type {[string, typeof WIDE][]} */ ([['1280', WIDE], ['375', PHONE]])) {
    test(`at ${name} px, Stop all ends a turn, silences the node also over a restart, and Resume takes it back`, async () => {
      const { radio, model } = server;
      const { page, faults, close } = await openPage(browser, { viewport: size });
      await logIn(page, server);
      const before = radio.heard('Ana').length;
      const asked = model.asked;
      // A turn is in the middle.
      const abandoned = model.abandoned;
      model.hold();
      model.say(`too late ${name}`);
      await radio.say('Ana', `!ai a question at ${name}`);
      await page.locator('.message', { hasText: `a question at ${name}` }).waitFor({ state: 'attached' });
      while (model.asked === asked) await new Promise((resolve) => setTimeout(resolve, 20));
      await page.getByRole('button', { name: 'Stop all' }).click();
      await page.getByRole('button', { name: 'Stop now?' }).click();
      const card = page.locator('.card', { hasText: 'Everything is stopped.' });
      await card.waitFor();
      await page.locator('#notices', { hasText: 'Stopped: 1 answer ended, 0 parts withdrawn.' }).waitFor();
      while (model.abandoned === abandoned) await new Promise((resolve) => setTimeout(resolve, 20));
      model.reset();

      await radio.say('Ana', '!ai ping');
      await page.locator('.message', { hasText: '!ai ping' }).filter({ hasText: 'not answered' }).last().waitFor({ state: 'attached' });
      await server.down();
      await server.up();
      await linked(server);
      await page.reload();
      await card.waitFor();
      await radio.say('Ben', `!ai is anybody there at ${name}?`);
      await page.locator('.message', { hasText: `is anybody there at ${name}?` }).filter({ hasText: 'not answered' }).waitFor({ state: 'attached' });
      assert.equal(model.asked, asked + 1, 'no model was asked');

      await card.getByRole('button', { name: 'Resume' }).click();
      await card.waitFor({ state: 'detached' });
      model.say(`I am there at ${name}.`);
      await radio.say('Ben', `!ai and now at ${name}?`);
      const heard = await radio.hears('Ben', radio.heard('Ben').length + 1);
      assert.equal(heard.at(-1), `I am there at ${name}.`);
      assert.equal(radio.heard('Ana').length, before, 'what was stopped does not come after all');
      assert.deepEqual(faults, []);
      await close();
    });

    test(`at ${name} px, a suspended contact is not answered, others are, and taken back it is again`, async () => {
      const { radio, model } = server;
      const { page, faults, close } = await openPage(browser, { viewport: size });
      await logIn(page, server);
      const before = radio.heard('Ana').length;
      await page.locator('#views').getByRole('button', { name: 'Contacts', exact: true }).click();
      const ana = page.locator('.person', { hasText: '!a1b2c3d4' });
      const edit = page.getByRole('button', { name: 'Edit Ana' });
      await edit.click();
      await ana.getByRole('button', { name: /^Suspend/ }).click();
      await ana.locator('.badge', { hasText: 'suspended' }).waitFor();
      const asked = model.asked;
      await radio.say('Ana', `!ai can you hear me at ${name}?`);
      await page.locator('.message', { hasText: `can you hear me at ${name}?` }).filter({ hasText: 'not answered' }).waitFor({ state: 'attached' });
      model.say(`Hello Ben at ${name}.`);
      const bens = radio.heard('Ben').length;
      await radio.say('Ben', `!ai can you hear me, at ${name}?`);
      assert.equal((await radio.hears('Ben', bens + 1))[bens], `Hello Ben at ${name}.`);
      assert.equal(radio.heard('Ana').length, before);
      assert.equal(model.asked, asked + 1);

      await ana.getByRole('button', { name: /^Take back/ }).click();
      await ana.locator('.badge', { hasText: 'key pinned' }).waitFor();
      model.say(`Hello Ana at ${name}.`);
      await radio.say('Ana', `!ai and now, at ${name}?`);
      assert.equal((await radio.hears('Ana', before + 1))[before], `Hello Ana at ${name}.`);
      assert.deepEqual(faults, []);
      await close();
    });
  }
});
