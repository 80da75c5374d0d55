/**
 * The figures of the node: what its radio is, whether its clock is right, when it was backed up, how fast its models
 * answer, what a contact has asked; and what a viewer is not told.
 *
 * Owns their wording. That the daemon gives them is for the daemon's tests.
 */

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { logIn, missing, openBrowser, openNode, openPage, PHONE } from './browser.mjs';
import { startServer } from './server.mjs';

/** @import { Browser } from 'playwright-core' */
/** @import { Server } from './server.mjs' */
/** @import { World } from './mock-world.mjs' */

const onMock = process.env.TOMBOLO_BIN ? 'the mock’s world is needed' : false;
const DAY = 86_400_000;

describe('the figures of the node', { skip: missing || onMock }, () => {
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

  /**
   * @param {(world: World) => void} [change]
   * @param {Record<string, unknown>} [options]
   */
  async function opened(change = () => {}, options = {}) {
    const node = await openNode(browser, server, { change, ...options });
    await node.page.locator('#disk dl').waitFor({ state: 'attached' });
    return node;
  }

  test('the radio is shown with its port, frequency, role and firmware', async () => {
    const { page, faults, close } = await opened((world) => void (world.status.firmware_note = 'too old: 2.7.15 or later is needed'));
    const radio = page.locator('#radio');
    const text = await radio.innerText();
    assert.match(text, /Port\s+\/dev\/serial\/by-id\/usb-RAK/);
    assert.match(text, /Frequency\s+869\.525 MHz/);
    assert.match(text, /Role\s+CLIENT/);
    assert.match(text, /2\.7\.26, [\s\S]*too old: 2\.7\.15 or later/);
    assert.doesNotMatch(text, /Licensed/);
    assert.deepEqual(faults, []);
    await close();
  });

  test('a licensed radio says so, and what is not known is left out', async () => {
    const { page, close } = await opened((world) => Object.assign(world.status, { licensed: true, frequency_mhz: null, role: null, port: null }));
    const text = await page.locator('#radio').innerText();
    assert.match(text, /Licensed\s+yes: everything is sent in the clear/);
    assert.doesNotMatch(text, /Frequency|Role|Port/);
    await close();
  });

  test('at 320 px nothing of it is cut off', async () => {
    const { page, close } = await opened(() => {}, { size: { width: 320, height: 640 } });
    await page.getByRole('button', { name: 'Status' }).click();
    for (const part of ['#radio', '#disk', '#assistant .legs', '#contacts']) {
      await page.locator(part).scrollIntoViewIfNeeded();
      const cut = await page.locator(part).evaluate((panel) => [...panel.querySelectorAll('*')].filter((part) => {
        const box = part.getBoundingClientRect();
        return box.width > 0 && (box.right > innerWidth + 0.5 || part.scrollWidth > part.clientWidth + 1) && getComputedStyle(part).overflowX === 'visible' && getComputedStyle(part).display !== 'inline';
      }).map((part) => part.outerHTML.slice(0, 80)));
      assert.deepEqual(cut, [], part);
    }
    await close();
  });

  test('the machine says what it holds, whether its clock is right and when it was backed up', async () => {
    const { page, close } = await opened();
    const text = await page.locator('#disk').innerText();
    assert.match(text, /12\.3 MB in the data folder/);
    assert.match(text, /Clock\s+synchronised by chrony/);
    assert.match(text, /Radio clock\s+3 s behind/);
    assert.match(text, /Backup\s+3 d ago in \/mnt\/usb\/tombolo-backup-20261128-031500/);
    assert.match(text, /Version\s+0\.3\.0/);
    await close();
  });

  test('a clock that nobody keeps, a radio that is far off and a backup that is old or missing stand out', async () => {
    for (const [change, words] of /** @type {[(world: World) => void, RegExp][]} */ ([
      [({ info }) => void (info.clock = { source: 'none', synchronised: false, radio_drift_s: null }), /nobody sets it/],
      [({ info }) => void (info.clock = { source: 'timesyncd', synchronised: false, radio_drift_s: null }), /not yet synchronised by timesyncd/],
      [({ info }) => void (info.clock = { source: 'chrony', synchronised: true, radio_drift_s: 30 }), /30 s ahead/],
      [({ info }) => void (info.backup = null), /none yet: tombolo backup FOLDER/],
      [({ info }) => void (info.backup = { at: Date.now() - 31 * DAY, folder: '/mnt/usb/x' }), /old/],
    ])) {
      const { page, close } = await opened(change);
      const badges = page.locator('#disk .badge.wait');
      await badges.first().waitFor();
      assert.match(await badges.innerText(), words);
      await close();
    }
    const { page, close } = await opened(({ info }) => Object.assign(info, { clock: { source: 'chrony', synchronised: true, radio_drift_s: 29 }, backup: { at: Date.now() - 29 * DAY, folder: '/x' } }));
    await page.locator('#disk', { hasText: '29 s ahead' }).waitFor();
    assert.equal(await page.locator('#disk .badge').count(), 0);
    await close();
  });

  test('an older daemon without these figures is shown as before', async () => {
    const { page, faults, close } = await opened((world) => {
      world.info = { version: '0.2.0', uptime_s: 60, data_dir: '/x' };
      for (const name of ['port', 'frequency_mhz', 'role', 'licensed', 'firmware_note']) delete (/** @type {any} */ (world.status)[name]);
      for (const contact of world.assistant.allowed_contacts) delete contact.queries;
    });
    await page.locator('#disk', { hasText: '0.2.0' }).waitFor();
    assert.doesNotMatch(await page.locator('#disk').innerText(), /Clock|Backup|Data/);
    assert.deepEqual(faults, []);
    await close();
  });

  test('legs say how fast they answer, contacts what they asked, messages and nodes how they were heard', async () => {
    const { page, close } = await opened((world) => void (world.assistant.allowed_contacts[1] && (world.assistant.allowed_contacts[1].queries = { used: 7, limit: null })));
    assert.match(await page.locator('#assistant .legs li').first().innerText(), /Answers in about 4\.2 s/);
    assert.doesNotMatch(await page.locator('#assistant .legs li').nth(1).innerText(), /Answers in/);
    const contacts = await page.locator('#contacts').innerText();
    assert.match(contacts, /3 of 20 questions this hour/);
    assert.match(contacts, /7 questions this hour, no limit/);
    assert.match(await page.locator('#nodes li', { hasText: '!a1b2c3d4' }).innerText(), /SNR 6\.3 dB[\s\S]*RSSI -87 dBm/);
    assert.match(await page.locator('.message', { hasText: '!ai ping' }).innerText(), /SNR 9\.5 dB[\s\S]*RSSI -61 dBm/);
    assert.doesNotMatch(await page.locator('.message.out').first().innerText(), /SNR/);
    await close();
  });

  test('what is wrong with the stored grants is said where they are changed', async () => {
    const warning = 'grants.json could not be read and was set aside';
    const { page, close } = await opened((world) => void (world.grantsWarning = warning), { view: 'contacts' });
    await page.locator('.people-view .callout', { hasText: warning }).waitFor();
    await page.getByRole('navigation').getByRole('button', { name: 'Node' }).click();
    await page.locator('.settings-view .callout', { hasText: warning }).waitFor();
    await close();
  });

  test('a limit in time is shown as time, and far ahead as a day', async () => {
    const far = Date.now() + 400 * DAY;
    for (const [until, words] of /** @type {[number, string][]} */ ([
      [Date.now() + 30.5 * 60_000, 'for 31 min'], [Date.now() + 3 * DAY, 'for 3 days'], [far, 'until '],
    ])) {
      const { page, close } = await opened((world) => void (world.grants[0] && (world.grants[0].categories = [{ category: 'system', until }])), { view: 'settings' });
      const shown = page.getByLabel('Time limit of system').locator('option[value="kept"]');
      await shown.waitFor({ state: 'attached' });
      const day = words === 'until ' ? await page.evaluate((far) => new Date(far).toLocaleDateString(), far) : '';
      assert.equal(await shown.textContent(), `${words}${day}`);
      await close();
    }
  });

  test('a wrong password stands beside the field that it is about', async () => {
    const { page, close } = await opened(() => {}, { view: 'settings' });
    await page.getByText('Change your password').click();
    await page.getByLabel('Your password now').fill('not the right one');
    await page.getByLabel('New password').fill('a new password');
    await page.getByRole('button', { name: 'Change it' }).click();
    const now = page.getByLabel('Your password now');
    await page.waitForFunction(() => document.querySelector('[aria-invalid="true"]') !== null);
    assert.equal(await now.getAttribute('aria-invalid'), 'true');
    assert.equal(await page.getByLabel('New password').getAttribute('aria-invalid'), null);
    assert.match(await now.locator('xpath=..').innerText(), /That did not match\./);
    await close();
  });

  test('what is there is shown while a slow model server keeps the rest waiting', async () => {
    if (server.mock === null) throw new Error('only with the mock');
    const { page, close } = await openPage(browser);
    /** @type {() => void} */
    let answer = () => {};
    const held = new Promise((resolve) => (answer = () => resolve(undefined)));
    await page.route('**/rpc', async (route) => {
      if (route.request().postDataJSON()?.method === 'mesh.assistant-status') await held;
      await route.continue();
    });
    await logIn(page, server);
    await page.locator('#radio', { hasText: 'EU_868' }).waitFor();
    await page.locator('#disk', { hasText: 'synchronised by chrony' }).waitFor();
    assert.equal(await page.locator('#assistant .legs').count(), 0);
    answer();
    await page.locator('#assistant .legs').waitFor();
    await close();
  });

  test('a viewer is not told who may use what', async () => {
    if (server.mock) server.mock.viewerPassword = 'only for looking';
    const { page, faults, close } = await opened(() => {}, { password: 'only for looking', size: PHONE, view: 'contacts' });
    await page.locator('.person', { hasText: 'Ana' }).waitFor();
    assert.doesNotMatch(await page.locator('.people-view').innerText(), /may use|no tools|May use/);
    assert.deepEqual(faults, []);
    await close();
  });
});
