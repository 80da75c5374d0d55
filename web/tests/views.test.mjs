/**
 * Every view as it is with the daemon behind it, after a first run and some traffic: wide, on a phone, narrow; light and dark.
 *
 * Owns that nothing of the real thing is too wide, inaccessible or a fault in the page. Needs the daemon (`TOMBOLO_BIN`);
 * every state that there can be is shown by the mock in `access.test.mjs`. The screenshots are in `output/`.
 */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { ask, chatFrame, logIn, missing, openBrowser, openPage, OUTPUT, PHONE, WIDE } from './browser.mjs';
import { contact, MESH } from './radio.mjs';
import { noDaemon, startDriven } from './server.mjs';

/** @import { Browser, Page } from 'playwright-core' */

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const NARROW = { width: 320, height: 640 };
/** Names as strangers have them. */
const TOWN = `${MESH}${['Harbour café ☕', 'Ben\\u202eneB', '<b>Relay</b>', 'A node with quite a long name up there', '灯台'].map((name, n) =>
  `[[peer]]\nname = "${name}"\nid = "!0000010${n}"\nhops = ${n}\nsnr = ${5 - 4 * n}\n`).join('')}`;

describe('every view of a daemon', { skip: missing || noDaemon }, () => {
  /** @type {Browser} */
  let browser;
  /** @type {Awaited<ReturnType<typeof startDriven>>} */
  let server;
  /** @type {Page} */
  let page;
  /** @type {string[]} */
  let faults;
  before(async () => {
    const more = (/** @type {string} */ folder) => [
      '[tools]', 'notes = "own"', '[[tools.commands]]', 'name = "mark"', 'description = "Leaves a mark"', `command = ["/usr/bin/touch", ${JSON.stringify(join(folder, 'marked'))}]`,
    ];
    const ana = contact('Ana', '!a1b2c3d4').replace(' }', ', grants = ["system", "notes"] }');
    [browser, server] = await Promise.all([openBrowser(), startDriven({ mesh: TOWN, contacts: [ana, '"!b0b0b0b2"'], more })]);
    const { radio, model } = server;
    ({ page, faults } = await openPage(browser, { bypassCSP: true }));
    await logIn(page, server);
    const chat = await chatFrame(page);
    model.say('There are **412 GB** free of 983 GB.', { tool: 'system_disk_status' });
    await ask(chat, 'How much disk space is left?');
    await chat.locator('.reply').waitFor();
    model.say('Low water is at four, and again a little before half past four in the morning; the causeway is dry for two hours around each of them.');
    await radio.say('Ana', '!ai when is low water, and how long can the causeway be walked?');
    await radio.hears('Ana', 1);
    await radio.say('Mallory', '!ai let me in');
    await radio.say('Ben', '!ai hello, it is Ben');
    await page.locator('#attention .card', { hasText: 'Is this the key of' }).waitFor();
    model.say('I have asked for it.', { tool: 'notes_add', args: { text: 'low water at four' } });
    await radio.say('Ana', '!ai keep a note: low water at four');
    await page.locator('.card', { hasText: 'notes_add' }).waitFor();
  });
  after(async () => {
    await browser?.close();
    await server?.stop();
  });

  for (const scheme of /** @type {const} */ (['light', 'dark'])) {
    for (const size of [WIDE, PHONE, NARROW]) {
      test(`at ${size.width} px, ${scheme}`, async () => {
        await page.emulateMedia({ colorScheme: scheme });
        await page.setViewportSize(size);
        for (const view of ['Chat', 'Status', 'Contacts', 'Log', 'History', 'Node']) {
          await page.locator('#views').getByRole('button', { name: view, exact: true }).click();
          if (view === 'Contacts') {
            const edit = page.getByRole('button', { name: 'Edit Ana' });
            if (await edit.isVisible()) await edit.click();
          }
          if (view === 'History') await page.getByRole('img', { name: /^Own airtime/ }).waitFor();
          if (view === 'Log') await page.locator('.log-line').first().waitFor();
          if (view === 'Node') await page.getByText('this one').waitFor();
          const wider = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
          assert.equal(wider, 0, `${view} is wider than the page`);
          await page.evaluate(AXE);
          const found = await page.evaluate(async () => {
            const { violations } = await /** @type {any} */ (window).axe.run(document, { iframes: false });
            return violations.map((/** @type {any} */ { id, nodes }) => `${id}: ${nodes.map((/** @type {any} */ node) => node.html).slice(0, 3).join(' ')}`);
          });
          assert.deepEqual(found, [], view);
          await page.screenshot({ path: `${OUTPUT}real-${view.toLowerCase()}-${size.width}-${scheme}.png`, animations: 'disabled' });
          await page.setViewportSize({ width: size.width, height: 2200 });
          await page.screenshot({ path: `${OUTPUT}real-${view.toLowerCase()}-${size.width}-${scheme}-whole.png`, animations: 'disabled' });
          await page.setViewportSize(size);
        }
        assert.deepEqual(faults, []);
      });
    }
  }
});
