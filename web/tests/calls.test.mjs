/**
 * Tool calls that wait for a decision, against the daemon: from the chat and from a peer on the mesh.
 *
 * Owns that what was pressed is what happened: scored by the files that the tools leave, and by what the peer hears. Needs
 * the daemon (`TOMBOLO_BIN`); how the card looks is in `attention.test.mjs`.
 */

import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';
import { ask, chatFrame, logIn, missing, openBrowser, openPage, PHONE, WIDE } from './browser.mjs';
import { keyOf } from './radio.mjs';
import { linked, noDaemon, startDriven } from './server.mjs';

/** @import { Browser, Page } from 'playwright-core' */

/** A program that changes something, and notes. @param {string} folder */
const TOOLS = (folder) => [
  '[tools]', 'notes = "own"',
  '[[tools.commands]]', 'name = "mark"', 'description = "Leaves a mark"', `command = ["/usr/bin/touch", ${JSON.stringify(join(folder, 'marked'))}]`,
];
const ANA = `{ id = "!a1b2c3d4", key = "${keyOf('Ana')}", name = "Ana", grants = ["notes"] }`;

describe('calls that wait', { skip: missing || noDaemon }, () => {
  /** @type {Browser} */
  let browser;
  /** @type {Awaited<ReturnType<typeof startDriven>>} */
  let server;
  before(async () => {
    [browser, server] = await Promise.all([openBrowser(), startDriven({ contacts: [ANA], more: TOOLS })]);
  });
  afterEach(() => server.model.reset());
  after(async () => {
    await browser?.close();
    await server?.stop();
  });

  const marked = () => existsSync(join(server.folder, 'marked'));
  /** Everything in all notebooks. */
  const notes = () => {
    const books = join(server.folder, 'data', 'notes');
    return existsSync(books) ? readdirSync(books).map((name) => readFileSync(join(books, name), 'utf8')).join('') : '';
  };

  /**
   * Presses a button of a card, as soon as it takes it.
   * @param {Page} page
   * @param {string} tool
   * @param {'Approve' | 'Deny'} word
   */
  async function decide(page, tool, word) {
    const card = page.locator('.card', { hasText: tool });
    await card.getByRole('button', { name: word, disabled: false }).click();
    await card.waitFor({ state: 'detached' });
  }

  for (const [name, size] of /** @type {[string, typeof WIDE][]} */ ([['1280', WIDE], ['375', PHONE]])) {
    test(`at ${name} px, from the chat: what is denied is not done, what is approved is done once`, async () => {
      const { page, faults, close } = await openPage(browser, { viewport: size });
      let chat = await logIn(page, server);
      const card = page.locator('.card', { hasText: 'app_mark' });
      // Not granted yet: it is not offered at all. The grant is given in the page, and counts at once.
      await page.getByRole('button', { name: 'Node', exact: true }).click();
      const grants = page.locator('.settings-view .grants-block');
      await grants.getByLabel('apps', { exact: true }).check();
      await grants.getByText('These are set here').waitFor();
      await page.locator('#views').getByRole('button', { name: 'Chat', exact: true }).click();
      chat = await chatFrame(page);

      for (const [word, done] of /** @type {['Approve' | 'Deny', boolean][]} */ ([['Deny', false], ['Approve', true]])) {
        server.model.say('I have asked for it.', { tool: 'app_mark' });
        await ask(chat, `Leave the mark, please: ${word}.`);
        await card.waitFor();
        assert.match(await card.innerText(), /You → app_mark[\s\S]*Changes something of apps/);
        assert.equal(marked(), false, 'it waits');
        assert.equal(await chat.getByRole('button', { name: 'Approve' }).count(), 0, 'nothing to press in the frame');
        await decide(page, 'app_mark', word);
        await page.locator('#notices', { hasText: done ? 'app_mark: ran' : 'app_mark was denied' }).waitFor();
        assert.equal(marked(), done);
      }
      await page.locator('#views').getByRole('button', { name: 'Log', exact: true }).click();
      await page.locator('.log-line.tool', { hasText: 'ran' }).last().waitFor();
      assert.deepEqual(faults, []);
      rmSync(join(server.folder, 'marked'));
      await page.locator('#views').getByRole('button', { name: 'Node', exact: true }).click();
      await grants.getByLabel('apps', { exact: true }).uncheck();
      await grants.locator('.grant:not(.given)', { hasText: 'apps' }).waitFor();
      await close();
    });

    test(`at ${name} px, from a verified peer: the same, and the peer hears what came of it`, async () => {
      const { radio, model } = server;
      const { page, faults, close } = await openPage(browser, { viewport: size });
      await logIn(page, server);
      const card = page.locator('.card', { hasText: 'notes_add' });
      for (const [word, done] of /** @type {['Approve' | 'Deny', boolean][]} */ ([['Deny', false], ['Approve', true]])) {
        const text = `low water at ${name}, ${word}`;
        const before = radio.heard('Ana').length;
        model.say('I have asked for it.', { tool: 'notes_add', args: { text } });
        await radio.say('Ana', `!ai keep a note: ${text}`);
        await card.waitFor({ timeout: 40_000 });
        assert.match(await card.innerText(), new RegExp(`Ana → notes_add[\\s\\S]*verified by the key [0-9a-f ]+[\\s\\S]*${text}`));
        assert.ok(!notes().includes(text), 'it waits');
        // The peer is told at once that it waits, and once more what came of it.
        const asked = (await radio.hears('Ana', before + 1))[before];
        assert.match(asked ?? '', /notes_add/);
        await decide(page, 'notes_add', word);
        const heard = (await radio.hears('Ana', before + 2))[before + 1];
        assert.match(heard ?? '', done ? /^Noted as #\d+\.$/ : /^The operator said no: nothing was done\.$/);
        assert.equal(notes().includes(text), done);
      }
      assert.deepEqual(faults, []);
      await close();
    });
  }

  test('a daemon that restarts with a call pending has dropped it: no card, nothing done, and the peer’s code is worth nothing', async () => {
    const { radio, model } = server;
    const { page, close } = await openPage(browser);
    await logIn(page, server);
    const text = 'a note that never comes to be';
    const card = page.locator('.card', { hasText: 'notes_add' });
    const before = radio.heard('Ana').length;
    model.say('I have asked for it.', { tool: 'notes_add', args: { text } });
    await radio.say('Ana', `!ai please keep ${text}`);
    await card.waitFor({ timeout: 40_000 });
    const [, code] = /ok (\S+)/.exec((await radio.hears('Ana', before + 1))[before] ?? '') ?? [];
    await server.down();
    await page.locator('#stale:not(:empty)').waitFor({ timeout: 20_000 });
    await server.up();
    await page.waitForFunction(() => document.getElementById('stale')?.textContent === '');
    await card.waitFor({ state: 'detached' });
    await linked(server);
    await radio.say('Ana', `!ai ok ${code}`);
    assert.equal((await radio.hears('Ana', before + 2))[before + 1], 'Nothing to confirm.');
    assert.ok(!notes().includes(text));
    // It goes on: the next call waits as ever, and does what it says, and nothing of the one before.
    model.say('I have asked for it.', { tool: 'notes_add', args: { text: 'another one' } });
    await radio.say('Ana', '!ai keep another one');
    await card.waitFor({ timeout: 40_000 });
    await decide(page, 'notes_add', 'Approve');
    await page.locator('#notices', { hasText: 'notes_add: ran' }).waitFor();
    assert.ok(notes().includes('another one') && !notes().includes(text));
    await close();
  });
});
