/**
 * Contacts and grants: adding, pairing, suspending, refusing, and what each may use.
 *
 * Owns that a change is made once, at once, and that a refusal stands beside what caused it.
 */

import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { missing, openBrowser, openNode, PHONE, WIDE } from './browser.mjs';
import { MESH, printOf } from './radio.mjs';
import { linked, startServer } from './server.mjs';

/** @import { Browser, Page } from 'playwright-core' */
/** @import { Server } from './server.mjs' */

const onMock = process.env.TOMBOLO_BIN ? 'the mock’s world is needed' : false;
/** The mesh of the daemon: as far as these tests go, the mock's. */
const TOWN = `${MESH}[[peer]]\nname = "Seaside relay"\nid = "!5ea51de0"\n`;
const KEY = 'Bq3ZrQ8yJr0d2xT5wqVf1m3nPz7uKc9sLh4eXg6oA1U=';

describe('contacts and grants', { skip: missing }, () => {
  /** @type {Browser} */
  let browser;
  /** @type {Server} */
  let server;
  before(async () => void (browser = await openBrowser()));
  // The mock's world is another for each test; a daemon keeps what it was told.
  beforeEach(async () => {
    if (server?.kind === 'mock') return;
    await server?.stop();
    server = await startServer({ driven: true, mesh: TOWN });
    if (server.kind === 'daemon') await linked(server);
  });
  after(async () => {
    await browser?.close();
    await server?.stop();
  });

  for (const [name, size] of /** @type {[string, typeof WIDE][]} */ ([['1280', WIDE], ['375', PHONE]])) {
    test(`at ${name} px, a contact is added by number and key; what is wrong is said beside its field`, async () => {
      const { page, calls, faults, close } = await openNode(browser, server, { size, view: 'contacts' });
      await page.getByRole('button', { name: 'Add by number' }).click();
      const form = page.locator('.adding form');
      const send = form.getByRole('button', { name: 'Add contact' });
      await form.getByLabel('Node number').fill('a1b2');
      await send.click();
      assert.match(await errorOf(page, 'Node number'), /eight hexadecimal digits/);
      await form.getByLabel('Node number').fill('!a1b2c3d4');
      await form.getByLabel('Name').fill('Cleo');
      await form.getByLabel('Public key').fill('short');
      await send.click();
      assert.match(await errorOf(page, 'Public key'), /44 characters/);
      assert.equal(await form.getByLabel('Public key').getAttribute('aria-invalid'), 'true');
      assert.deepEqual(calls, [], 'nothing was sent so far');
      await form.getByLabel('Public key').fill(KEY);
      await send.click();
      await page.waitForFunction(() => document.body.textContent?.includes('is a contact already'));
      assert.match(await errorOf(page, 'Node number'), /!a1b2c3d4 is a contact already/, 'the daemon’s word stands beside the field it names');
      await form.getByLabel('Node number').fill('c1e0c1e0');
      await form.getByLabel('Public key').fill('A'.repeat(43));
      await send.click();
      await page.waitForFunction(() => document.body.textContent?.includes('small order'));
      assert.match(await errorOf(page, 'Public key'), /no point of small order/);
      await form.getByLabel('Public key').fill(KEY);
      await send.click();
      await page.locator('.person', { hasText: 'Cleo' }).waitFor();
      assert.match(await page.locator('.person', { hasText: 'Cleo' }).innerText(), /!c1e0c1e0[\s\S]*key pinned/);
      assert.deepEqual(calls.at(-1), { method: 'mesh.assistant-configure', params: { add_contact: { id: '!c1e0c1e0', key: KEY, name: 'Cleo' } } });
      assert.equal(await page.locator('.adding').isVisible(), false, 'the form is put away');
      assert.deepEqual(faults, []);
      await close();
    });

    test(`at ${name} px, a contact is paired by a code that the peer sends`, async () => {
      const { page, mock, world, faults, close } = await openNode(browser, server, { size, view: 'contacts' });
      await page.getByRole('button', { name: 'Pair by code' }).click();
      const pairing = page.locator('.pairing');
      await pairing.getByRole('button', { name: 'Show a code' }).click();
      assert.match(await errorOf(page, 'Whom do you pair?'), /Give the contact a name/);
      await pairing.getByLabel('Whom do you pair?').fill('Dara');
      await pairing.getByRole('button', { name: 'Show a code' }).click();
      await pairing.locator('.code-big').waitFor();
      if (server.mock) assert.equal(await pairing.locator('.code-big').innerText(), `!ai pair ${world.pairing?.code}`);
      assert.match(await pairing.innerText(), /From Dara’s device, send this direct message to Tombolo Node \(!70b01001\)/);
      if (server.radio === null) mock.operator.paired();
      else await server.radio.say('Mallory', await pairing.locator('.code-big').innerText());
      await page.locator('.person', { hasText: 'Dara' }).waitFor();
      await pairing.waitFor({ state: 'hidden' });
      const print = server.mock ? '77aa 0c11 b2d4 90fe' : printOf('Mallory');
      await page.locator('#notices', { hasText: `Dara is paired: its key ${print} is pinned and confirmed` }).waitFor();
      assert.deepEqual(faults, []);
      await close();
    });

    test(`at ${name} px, grants change at once, with a time limit, and come back from the node`, { skip: onMock }, async () => {
      const { page, mock, world, faults, close } = await openNode(browser, server, { size, view: 'contacts' });
      await page.getByRole('button', { name: 'Edit Ana' }).click();
      const ana = page.locator('.person', { hasText: '!a1b2c3d4' });
      await ana.getByText('These are from the configuration.').waitFor();
      await ana.getByLabel('files', { exact: true }).check();
      await ana.getByText('These are set here').waitFor();
      assert.deepEqual(mock.operator.calls.at(-1), { method: 'assistant.grants-set', params: { caller: 'key:QW5h', category: 'files', granted: true } });
      await ana.locator('.person-grants', { hasText: 'system, files' }).waitFor();
      assert.equal(await page.evaluate(() => /** @type {any} */ (document.activeElement)?.dataset.key?.endsWith('-gfiles')), true, 'the focus stays where it was');

      await ana.getByLabel('Time limit of files').selectOption('for 1 day');
      await ana.getByLabel('Time limit of files').locator('option', { hasText: /for 2[34] h/ }).waitFor({ state: 'attached' });
      const until = world.grants[1]?.categories.find(({ category }) => category === 'files')?.until ?? 0;
      assert.ok(Math.abs(until - Date.now() - 86_400_000) < 60_000, String(until));

      await ana.locator('.grant', { hasText: 'files' }).locator('summary').click();
      await ana.getByLabel('files_write').selectOption('never');
      await ana.locator('summary', { hasText: 'files_write never' }).waitFor();
      assert.deepEqual(mock.operator.calls.at(-1), { method: 'assistant.grants-set', params: { caller: 'key:QW5h', tool: 'files_write', mode: 'never' } });
      await ana.getByLabel('files_write').selectOption('always');
      await ana.getByText('Files_write changes something: for a peer it can be ask or never.').waitFor();
      assert.equal(await ana.getByLabel('files_write').inputValue(), 'never', 'what is refused is not shown as if it held');
      await ana.getByLabel('files_write').selectOption('as usual: ask');
      await ana.locator('summary', { hasText: 'files_write never' }).waitFor({ state: 'detached' });

      await ana.getByLabel('files', { exact: true }).uncheck();
      await ana.locator('.person-grants', { hasText: /^may use system$/ }).waitFor();
      await ana.getByText('Last changes').click();
      assert.match(await ana.locator('details', { hasText: 'Last changes' }).innerText(), /files taken[\s\S]*files_write: as usual[\s\S]*files_write: never[\s\S]*files given, until/);
      assert.deepEqual(faults, []);
      await close();
    });
  }

  test('a text of the operator’s own: as many bytes as fit, and one more', async () => {
    const { page, calls, close } = await openNode(browser, server, { view: 'contacts' });
    await page.getByRole('button', { name: 'Edit Ana' }).click();
    const field = page.getByLabel('Write to Ana');
    const send = page.locator('form', { has: field }).getByRole('button', { name: 'Send' });
    await send.click();
    assert.match(await errorOf(page, 'Write to Ana'), /Write something/);
    await field.fill(`${'ä'.repeat(100)}x`);
    await page.getByText('201 of 200 bytes').waitFor();
    await send.click();
    await page.getByText('One message holds 200 bytes: shorten it by 1.').waitFor();
    assert.deepEqual(calls, []);
    await field.fill('ä'.repeat(100));
    await send.click();
    await page.locator('#messages', { hasText: 'ä'.repeat(100) }).waitFor();
    assert.deepEqual(calls, [{ method: 'mesh.send', params: { to: '!a1b2c3d4', text: 'ä'.repeat(100) } }]);
    assert.equal(await field.inputValue(), '');
    if (server.radio) assert.deepEqual(await server.radio.hears('Ana', 1), ['ä'.repeat(100)]);
    await close();
  });

  test('suspend and back, from the status as from the list', async () => {
    const { page, calls, close } = await openNode(browser, server, { view: 'contacts' });
    await page.locator('#contacts').getByRole('button', { name: 'Suspend: Ana' }).click();
    await page.locator('.person', { hasText: 'Ana' }).locator('.badge', { hasText: 'suspended' }).waitFor();
    await page.locator('#contacts').getByRole('button', { name: 'Take back: Ana' }).click();
    await page.locator('.person', { hasText: 'Ana' }).locator('.badge', { hasText: 'key pinned' }).waitFor();
    assert.deepEqual(calls.map(({ params }) => params), [{ suspend: { id: '!a1b2c3d4' } }, { unsuspend: { id: '!a1b2c3d4' } }]);
    await close();
  });

  test('removing asks twice, and is there only for those that are kept here', { skip: onMock }, async () => {
    const { page, mock, close } = await openNode(browser, server, { view: 'contacts' });
    await page.getByRole('button', { name: 'Edit Ana' }).click();
    const ana = page.locator('.person', { hasText: '!a1b2c3d4' });
    await ana.getByText('the configuration file').waitFor();
    assert.equal(await ana.getByRole('button', { name: 'Remove Ana' }).count(), 0);
    await page.getByRole('button', { name: 'Edit Ben' }).click();
    await page.getByRole('button', { name: 'Remove Ben' }).click();
    assert.deepEqual(mock.operator.calls, []);
    await page.getByRole('button', { name: 'Remove it? Remove Ben' }).click();
    await page.locator('.person', { hasText: 'Ben' }).waitFor({ state: 'detached' });
    assert.deepEqual(mock.operator.calls, [{ method: 'mesh.assistant-configure', params: { remove_contact: { id: '!b0b0b0b2' } } }]);
    await close();
  });

  test('a heard node is taken over into the form or refused, and the refusal taken back', async () => {
    const { page, calls, world, close } = await openNode(browser, server, { view: 'contacts' });
    await page.getByRole('button', { name: 'Add Seaside relay !5ea51de0 as a contact' }).click();
    assert.equal(await page.getByLabel('Node number').inputValue(), '!5ea51de0');
    assert.equal(await page.locator('.adding').getByLabel('Name').inputValue(), 'Seaside relay');
    await page.locator('.adding').getByRole('button', { name: 'Add contact' }).click();
    await page.locator('.person', { hasText: 'Seaside relay' }).locator('.badge', { hasText: 'no key yet' }).waitFor();

    const mallory = page.locator('.heard li', { hasText: '!0badcafe' });
    await mallory.getByRole('button', { name: /^Refuse/ }).click();
    await mallory.getByRole('button', { name: /^Refuse it\?/ }).click();
    await page.locator('.people-view li', { hasText: '!0badcafe' }).getByRole('button', { name: 'Take back the refusal of !0badcafe' }).click();
    await page.waitForFunction(() => ![...document.querySelectorAll('.people-view h3')].some((h) => h.textContent?.startsWith('Refused') && h.checkVisibility()));
    if (server.mock) assert.deepEqual(world.assistant.denied_askers, []);
    assert.deepEqual(calls.slice(1).map(({ params }) => params), [{ deny: { asker: '!0badcafe' } }, { undeny: { asker: '!0badcafe' } }]);
    await close();
  });

  test('names that could be taken for a contact’s are warned about: heard, added, renamed', { skip: onMock }, async () => {
    const { page, mock, close } = await openNode(browser, server, {
      view: 'contacts',
      change: (world) => void Object.assign(world.nodes[2] ?? {}, { long_name: 'А𝗇a' }),
    });
    await page.locator('.heard li', { hasText: '!0badcafe' }).getByText('its name looks like Ana !a1b2c3d4').waitFor();
    await page.getByRole('button', { name: 'Add by number' }).click();
    const form = page.locator('.adding form');
    await form.getByLabel('Node number').fill('!c1e0c1e0');
    await form.getByLabel('Name').fill('Bеn');
    await form.getByRole('button', { name: 'Add contact' }).click();
    assert.match(await errorOf(page, 'Name'), /This looks like Ben \(!b0b0b0b2\)/);
    assert.deepEqual(mock.operator.calls, []);
    await form.getByRole('button', { name: 'Add contact' }).click();
    await page.locator('.person', { hasText: '!c1e0c1e0' }).waitFor();
    assert.equal(mock.operator.calls.length, 1, 'sent again it is meant');
    await close();
  });

  test('which names look alike', async () => {
    const { page, close } = await openNode(browser, server);
    const found = await page.evaluate(async () => {
      const { lookalike } = await import(/** @type {any} */ ('/confusable.js'));
      const like = (/** @type {string} */ a, /** @type {string} */ b) => lookalike(a, [{ name: b }]) !== undefined;
      return {
        same: [['Ana', 'Ana'], ['ANA', 'ana'], ['Аnа', 'Ana'], ['A n a', 'Ana'], ['Àna', 'Ana'], ['Bi11', 'Bill'], ['Mod3m', 'Modem'], ['rnarta', 'marta'], ['Ｂｅｎ', 'Ben'], ['Ana\u200b', 'Ana']]
          .filter(([a = '', b = '']) => !like(a, b)),
        other: [['Ana', 'Anna'], ['Ben', 'Bea'], ['', 'Ana'], ['🌊', 'Ana'], ['Node 1', 'Node 2']].filter(([a = '', b = '']) => like(a, b)),
      };
    });
    assert.deepEqual(found, { same: [], other: [] });
    await close();
  });

  test('what is being typed is not taken away by news', { skip: onMock }, async () => {
    const { page, world, mock, close } = await openNode(browser, server, { view: 'contacts' });
    await page.getByRole('button', { name: 'Edit Ben' }).click();
    const name = page.locator('.person', { hasText: '!b0b0b0b2' }).getByLabel('Name');
    await name.fill('Benja');
    await name.evaluate((input) => input.setAttribute('data-mine', 'yes'));
    const contact = world.assistant.allowed_contacts.find(({ name }) => name === 'Ben');
    if (contact) contact.queries = { used: 7, limit: 20 };
    mock.events.publish('changed', { what: 'contacts' });
    await page.locator('#contacts', { hasText: '7 of 20' }).waitFor();
    await name.pressSequentially('min');
    assert.equal(await name.inputValue(), 'Benjamin');
    assert.equal(await name.getAttribute('data-mine'), 'yes', 'the field itself stayed, and the place in it');
    // Away from the field, the row is drawn anew, and what was typed is still there.
    await page.locator('#views').getByRole('button', { name: 'Contacts' }).focus();
    mock.events.publish('changed', { what: 'contacts' });
    await page.locator('.person', { hasText: '!b0b0b0b2' }).getByText('7 of 20').waitFor();
    assert.equal(await name.inputValue(), 'Benjamin');
    await page.getByRole('button', { name: 'Rename' }).click();
    await page.locator('.person', { hasText: 'Benjamin' }).waitFor();
    await close();
  });

  test('500 nodes: a page of them is in the document, and one is found by its name', { skip: onMock }, async () => {
    const { page, close } = await openNode(browser, server, {
      view: 'contacts',
      change: (world) => {
        world.nodes = Array.from({ length: 500 }, (_, n) => ({
          node: `!${(n + 1).toString(16).padStart(8, '0')}`, long_name: `Node ${n}`, short_name: 'N', fingerprint: null, contact: null, standing: 'stranger', last_heard: n + 1, snr: 1, hops: 1, battery: 50,
        }));
      },
    });
    await page.getByText('50 of 500 shown').waitFor();
    assert.equal(await page.locator('.heard li').count(), 50);
    await page.getByRole('button', { name: 'More', exact: true }).click();
    assert.equal(await page.locator('.heard li').count(), 100);
    await page.getByLabel('Find a node').fill('node 37');
    await page.getByText('11 of 500 found').waitFor();
    assert.equal(await page.locator('.heard li').count(), 11);
    await close();
  });
});

/**
 * What stands beside the field with that label.
 * @param {Page} page
 * @param {string} label
 */
async function errorOf(page, label) {
  const field = page.locator('.field:visible', { has: page.locator(`label:text-is("${label}")`) });
  await field.locator('.field-error:not(:empty)').waitFor();
  return field.locator('.field-error').innerText();
}
