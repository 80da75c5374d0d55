/**
 * The status: what the panels say of the mesh, and that what strangers wrote is only text.
 *
 * Owns the wording that the operator decides by. The mock tells of a world that a real mesh does not show on demand; the
 * first test runs against both.
 */

import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { logIn, missing, openBrowser, openPage } from './browser.mjs';
import { startServer } from './server.mjs';
import { lively } from './mock-world.mjs';

/** @import { Browser, Page } from 'playwright-core' */
/** @import { Server } from './server.mjs' */
/** @import { World } from './mock-world.mjs' */

const onMock = process.env.TOMBOLO_BIN ? 'the mock’s world is needed' : false;

describe('the status', { skip: missing }, () => {
  /** @type {Browser} */
  let browser;
  /** @type {Server} */
  let server;
  before(async () => {
    [browser, server] = await Promise.all([openBrowser(), startServer()]);
  });
  afterEach(() => server.model.reset());
  after(async () => {
    await browser?.close();
    await server?.stop();
  });

  /**
   * The status of a world, changed before the page first asks.
   * @param {(world: World) => void} [change]
   */
  async function statusOf(change = () => {}) {
    if (server.mock === null) throw new Error('only with the mock');
    server.mock.world = lively();
    change(server.mock.world);
    const opened = await openPage(browser);
    await logIn(opened.page, server);
    await opened.page.locator('#disk .meter').first().waitFor();
    return opened;
  }

  /**
   * @param {Page} page
   * @param {string} id
   */
  const text = (page, id) => page.locator(`#${id}`).innerText();

  test('it says what the radio is, what the airtime is, and who answers', async () => {
    const { page, faults, close } = await openPage(browser);
    await logIn(page, server);
    await page.locator('#radio .badge', { hasText: 'connected' }).waitFor();
    await page.locator('#radio', { hasText: '!70b01001' }).waitFor();
    await page.locator('#radio', { hasText: 'EU_868' }).waitFor();
    await page.locator('#airtime [role="meter"]').first().waitFor();
    assert.match(await text(page, 'airtime'), /of 180 s[\s\S]*own share 180 s[\s\S]*law 360 s/);
    assert.match(await text(page, 'assistant'), /Ollama/);
    assert.match(await text(page, 'assistant'), /!ai/);
    assert.match(await text(page, 'contacts'), /!a1b2c3d4/);
    await page.locator('#disk [role="meter"]').first().waitFor();
    assert.deepEqual(faults, []);
    await close();
  });

  test('every state of delivery has its own word, with the reason', { skip: onMock }, async () => {
    const states = ['queued', 'sent', 'relayed', 'delivered', 'not_confirmed', 'waiting', 'failed', 'cancelled'];
    const { page, close } = await statusOf((world) => {
      world.messages = states.map((state, n) => ({
        at: Date.now(), direction: 'out', node: '!a1b2c3d4', name: 'Ana', assurance: 'verified', channel: null, text: `part ${n}`,
        delivery: state === 'waiting' || state === 'failed' ? { state, reason: `because of ${state}` } : { state }, ignored: null, id: n,
      }));
    });
    const notes = await page.locator('.message .message-note').allInnerTexts();
    assert.deepEqual(notes.map((note) => note.replace(/\s+/g, ' ').replace(/^\S /, '').trim()), [
      'queued', 'sent', 'relayed', 'delivered', 'not confirmed', 'waiting because of waiting', 'failed because of failed', 'withdrawn',
    ]);
    await close();
  });

  test('a text that is not answered says why, and how sure we are of its sender', { skip: onMock }, async () => {
    const { page, close } = await statusOf();
    const stranger = page.locator('.message', { hasText: 'Mallory' });
    assert.match(await stranger.innerText(), /unverified[\s\S]*not answered: not a contact/);
    assert.match(await page.locator('.message.in', { hasText: 'tide' }).innerText(), /signed[\s\S]*#bots/);
    await close();
  });

  test('a foreign key under a contact’s number shows both fingerprints', { skip: onMock }, async () => {
    const { page, close } = await statusOf();
    const ben = page.locator('#contacts li', { hasText: 'Ben' });
    assert.match(await ben.innerText(), /not confirmed/);
    assert.match(await ben.innerText(), /51d0 c3aa 0e9f 6612/);
    assert.match(await page.locator('#attention').innerText(), /Another key was seen under Ben[\s\S]*51d0 c3aa 0e9f 6612[\s\S]*e2e2 0001 9bfa 44c0/);
    assert.match(await page.locator('#nodes li').first().innerText(), /Ben[\s\S]*foreign key/);
    await close();
  });

  test('names and texts from the air are text: no element, no hidden character', { skip: onMock }, async () => {
    const evil = '<img src=x onerror="window.ran=1"><b>x</b>\u202eevil\u200b\u0007';
    const { page, faults, close } = await statusOf((world) => {
      for (const message of world.messages) Object.assign(message, { text: evil, name: evil, channel: evil, ignored: evil, delivery: { state: evil, reason: evil } });
      for (const node of world.nodes) Object.assign(node, { long_name: evil, short_name: evil, standing: evil });
      for (const contact of world.assistant.allowed_contacts) Object.assign(contact, { name: evil, grants: [evil], pin: evil });
      Object.assign(world.assistant, { trigger: evil, channels: [evil], models: [evil], denied_askers: [evil] });
      for (const leg of world.assistant.legs ?? []) Object.assign(leg, { name: evil, state: evil, reason: evil });
      Object.assign(world.status, { link: evil, owner: evil, firmware: evil, region: evil, modem: evil, warnings: [evil] });
      Object.assign(world.status.airtime, { paused: evil, notes: [evil] });
    });
    assert.equal(await page.locator('#status-pane img, #status-pane b').count(), 0);
    const shown = await page.locator('#status-pane').innerText();
    assert.match(shown, /<img src=x onerror=/);
    assert.doesNotMatch(shown, /[\u202e\u200b\u0007]/);
    assert.equal(await page.evaluate(() => /** @type {any} */ (window).ran), undefined);
    assert.deepEqual(faults, []);
    await close();
  });

  test('airtime: paused says why and until when, an unset region has no bar, a missing telemetry is said', { skip: onMock }, async () => {
    const paused = await statusOf((world) => {
      Object.assign(world.status.airtime, { used_ms: 181_000, paused: 'own share is used up', recovers_in_s: 240 });
    });
    assert.match(await text(paused.page, 'airtime'), /Sending waits\. own share is used up A full message fits again in 4 min/);
    assert.match(await paused.page.locator('#glance').innerText(), /sending waits/);
    await paused.close();

    const unset = await statusOf((world) => {
      Object.assign(world.status.airtime, { limit_ms: null, share_ms: null, channel_utilization: null, air_util_tx: null, paused: 'the region is not set' });
    });
    assert.equal(await unset.page.locator('#airtime [role="meter"]').count(), 0);
    assert.match(await text(unset.page, 'airtime'), /does not say how busy the channel is/);
    await unset.close();
  });

  test('channel use has its limits at 25 and 40 percent', { skip: onMock }, async () => {
    for (const [use, word] of /** @type {[number, RegExp][]} */ ([
      [24.9, /room to send/], [25, /busy: slower/], [39.9, /busy: slower/], [40, /nothing is sent/],
    ])) {
      const { page, close } = await statusOf((world) => void (world.status.airtime.channel_utilization = use));
      assert.match(await text(page, 'airtime'), word, `${use} %`);
      await close();
    }
  });

  test('a lost radio is said in words at the top and in the panel', { skip: onMock }, async () => {
    const { page, close } = await statusOf((world) => {
      Object.assign(world.status, { connected: false, link: 'waiting for /dev/serial/by-id/usb-radio', my_node: null, owner: '', fingerprint: null, firmware: '', region: '', modem: '', port: null, frequency_mhz: null, role: null });
    });
    assert.match(await text(page, 'radio'), /not connected[\s\S]*waiting for \/dev\/serial/);
    assert.match(await page.locator('#glance').innerText(), /no radio/);
    assert.equal(await page.locator('#radio dd').count(), 0, 'no empty facts');
    await close();
  });

  test('a large mesh: the newest are in the status, and the way to all of them is beside them', { skip: onMock }, async () => {
    const { page, close } = await statusOf((world) => {
      world.nodes = Array.from({ length: 500 }, (_, n) => ({
        node: `!${n.toString(16).padStart(8, '0')}`, long_name: `Node ${n}`, short_name: 'N', fingerprint: null, contact: null, standing: 'stranger', last_heard: n + 1, snr: null, hops: null, battery: null,
      }));
    });
    assert.equal(await page.locator('#nodes li').count(), 12);
    assert.match(await page.locator('#nodes li').first().innerText(), /Node 499/, 'the newest first');
    await page.getByRole('button', { name: 'All 500 nodes' }).click();
    await page.getByText('50 of 500 shown').waitFor();
    assert.equal(await page.locator('.heard li').count(), 50);
    await close();
  });

  test('the newest message is in sight, also on a phone, until the operator scrolls back', { skip: onMock }, async () => {
    const { page, close } = await statusOf();
    const box = page.locator('#messages .scroll-box');
    const fromEnd = () => box.evaluate((box) => Math.round(box.scrollHeight - box.scrollTop - box.clientHeight));
    const newer = async (/** @type {string} */ text) => {
      const messages = server.mock?.world.messages ?? [];
      messages.push({ .../** @type {any} */ (messages.at(-1)), at: Date.now(), text });
      await page.getByText(text).waitFor();
    };
    assert.equal(await fromEnd(), 0);
    await newer('One more.');
    assert.equal(await fromEnd(), 0, 'it follows');
    await box.evaluate((box) => new Promise((resolve) => {
      box.addEventListener('scroll', resolve, { once: true });
      box.scrollTop = 40;
    }));
    await newer('And another.');
    assert.equal(await box.evaluate((box) => box.scrollTop), 40, 'it stays where the operator reads');
    await close();

    const phone = await openPage(browser, { viewport: { width: 375, height: 740 } });
    await logIn(phone.page, server);
    await phone.page.locator('.message').first().waitFor({ state: 'attached' });
    await phone.page.getByRole('button', { name: 'Status' }).click();
    const end = phone.page.locator('#messages .scroll-box');
    await phone.page.waitForFunction(() => (document.querySelector('#messages .scroll-box')?.scrollTop ?? 0) > 0);
    assert.equal(await end.evaluate((box) => Math.round(box.scrollHeight - box.scrollTop - box.clientHeight)), 0);
    await phone.close();
  });

  test('what does not change is not drawn again, and what changes is', { skip: onMock }, async () => {
    const { page, close } = await statusOf();
    await page.evaluate(() => {
      document.querySelector('#contacts li')?.setAttribute('data-kept', 'yes');
      document.querySelector('#radio dl')?.setAttribute('data-kept', 'yes');
    });
    const polled = page.waitForResponse((response) => response.request().postDataJSON()?.method === 'mesh.nodes');
    if (server.mock !== null) server.mock.world.status.owner = 'Renamed Node';
    await page.getByText('Renamed Node').waitFor();
    await polled;
    assert.equal(await page.locator('#contacts li[data-kept]').count(), 1);
    assert.equal(await page.locator('#radio dl[data-kept]').count(), 0);
    await close();
  });
});
