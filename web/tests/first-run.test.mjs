/**
 * The whole first run against the daemon: from the one-time link to a peer that asks and is answered.
 *
 * Owns that everything in it is real: the password, the radio that is judged, the model, the code by radio, the answer.
 * Needs the daemon (`TOMBOLO_BIN`); what the steps say to a world of the mock is in `setup.test.mjs`.
 */

import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { chatFrame, missing, openBrowser, openPage, OUTPUT, PHONE, WIDE } from './browser.mjs';
import { MESH, printOf } from './radio.mjs';
import { linked, noDaemon, PASSWORD, startDriven } from './server.mjs';

/** @import { Browser } from 'playwright-core' */

const OLD_RADIO = MESH.replace('region = "EU_868"', 'region = "UNSET"\nfirmware = "2.7.14.e959000"');

describe('the whole first run', { skip: missing || noDaemon }, () => {
  /** @type {Browser} */
  let browser;
  before(async () => void (browser = await openBrowser()));
  after(async () => void (await browser?.close()));
  /** @type {Awaited<ReturnType<typeof startDriven>>} */
  let server;
  afterEach(async () => void (await server?.stop()));

  for (const [name, size] of /** @type {[string, typeof WIDE][]} */ ([['1280', WIDE], ['375', PHONE]])) {
    test(`at ${name} px: password, radio, model, contact, question, summary; and it stays done`, async () => {
      server = await startDriven({ fresh: true, off: true, contacts: [], models: ['qwen2.5-coder:7b', 'llama3.2:3b'] });
      const { radio, model } = server;
      const { page, faults, close } = await openPage(browser, { viewport: size });
      const step = page.locator('.step');
      const shot = (/** @type {string} */ what) => page.screenshot({ path: `${OUTPUT}first-${what}-${name}.png`, fullPage: true });

      // The password: what is wrong is said beside its field.
      await page.goto(server.setupLink);
      const set = page.getByRole('button', { name: 'Set password' });
      await page.getByLabel('New password').fill('short');
      await set.click();
      assert.match(await page.locator('#new-password-error').innerText(), /at least/);
      await page.getByLabel('New password').fill(PASSWORD);
      await page.getByLabel('Once more').fill('another');
      await set.click();
      assert.match(await page.locator('#repeat-password-error').innerText(), /differ/);
      await page.getByLabel('Once more').fill(PASSWORD);
      await set.click();

      // The radio: not there, there but not fit, fit.
      await step.getByRole('heading', { name: 'Radio' }).waitFor();
      await step.getByText('No radio is connected').waitFor();
      await radio.on(OLD_RADIO);
      await step.getByText('A radio is connected').waitFor({ timeout: 40_000 });
      await step.getByText('Firmware 2.7.14.e959000 is too old').waitFor();
      await step.getByText('The region is not set').waitFor();
      await shot('radio-bad');
      await radio.off();
      await step.getByText('No radio is connected').waitFor();
      await radio.on();
      await step.getByText('Region EU_868').waitFor({ timeout: 40_000 });
      await step.getByText('The law allows 360 s of sending in an hour').waitFor();
      assert.doesNotMatch(await step.innerText(), /too old|not set/);
      await shot('radio');
      await step.getByRole('button', { name: 'Continue' }).click();

      // The model: one of those that the server has.
      await step.getByRole('heading', { name: 'Model' }).waitFor();
      await step.getByText('Ollama answers').waitFor();
      assert.deepEqual(await step.getByLabel('Local model').locator('option').allInnerTexts(), ['qwen2.5-coder:7b', 'llama3.2:3b']);
      await step.getByLabel('Local model').selectOption('llama3.2:3b');
      await page.locator('#notices', { hasText: 'llama3.2:3b is asked from now on' }).waitFor();
      await shot('model');
      await step.getByRole('button', { name: 'Continue' }).click();

      // The contact: a stranger's guess changes nothing, the peer's own message does.
      await step.getByRole('heading', { name: 'First contact' }).waitFor();
      await step.getByLabel('Whom do you pair?').fill('Ana');
      await step.getByRole('button', { name: 'Show a code' }).click();
      const shown = await step.locator('.code-big').innerText();
      assert.match(shown, /^!ai pair \S+$/);
      assert.match(await step.innerText(), /From Ana’s device, send this direct message to Tombolo Node \(!70b01001\)/);
      await shot('code');
      await radio.say('Mallory', '!ai pair 0000000');
      await radio.say('Ana', shown);
      await step.locator('.judged', { hasText: 'Ana' }).getByText('!a1b2c3d4').waitFor({ timeout: 40_000 });
      assert.equal(await step.locator('.judged').count(), 1);
      await page.locator('#notices', { hasText: `its key ${printOf('Ana')} is pinned and confirmed` }).waitFor();
      assert.equal(await page.locator('#notices', { hasText: 'Ana is paired' }).locator('.notice', { hasText: 'is paired' }).count(), 1, 'said once');
      await radio.hears('Ana', 1);
      assert.deepEqual(radio.heard('Mallory'), []);
      await step.getByRole('button', { name: 'Continue' }).click();

      // A question, to the chosen model.
      await step.getByRole('heading', { name: 'Test question' }).waitFor();
      model.say('There is room enough.', { tool: 'system_disk_status' });
      await step.getByRole('button', { name: 'Ask', exact: true }).click();
      await step.getByText('There is room enough.').waitFor();
      assert.match(await step.innerText(), /Ollama answered in/);
      assert.equal(model.last, 'llama3.2:3b');
      await step.getByRole('button', { name: 'Continue' }).click();

      // What is allowed now.
      await step.getByRole('heading', { name: 'What is allowed' }).waitFor();
      const summary = step.locator('.sentences');
      await summary.getByText('Only contacts are answered: Ana. Everybody else meets silence.').waitFor();
      const text = await summary.innerText();
      assert.match(text, /Ana may use system\./);
      assert.match(text, /Questions on channels are not answered, only direct messages\./);
      assert.match(text, /No question leaves for a cloud model: none is set up\./);
      assert.match(text, /Answers may take 180 s on air in an hour, of 360 s that the law allows\./);
      await shot('summary');
      await step.getByRole('button', { name: 'To the node' }).click();
      const chat = await chatFrame(page);
      await chat.getByText('There is room enough.').waitFor();
      assert.equal(await page.locator('.card').count(), 0, 'nothing is left to do');

      // It stays done, over a reload and a restart; and what was set up holds.
      await page.reload();
      await chatFrame(page);
      assert.equal(new URL(page.url()).hash, '');
      await server.down();
      await server.up();
      await page.reload();
      await chatFrame(page);
      await page.locator('#contacts', { hasText: 'Ana' }).waitFor({ state: 'attached' });
      assert.equal(await page.locator('.card').count(), 0);
      model.say('Low water is at four.');
      await linked(server);
      await radio.say('Ana', '!ai when is low water?');
      assert.equal((await radio.hears('Ana', 2))[1], 'Low water is at four.');
      assert.equal(model.last, 'llama3.2:3b');
      assert.deepEqual(faults, []);
      await close();

      // The link is used up.
      const second = await openPage(browser, { viewport: size });
      await second.page.goto(server.setupLink);
      await second.page.getByLabel('New password').fill(PASSWORD);
      await second.page.getByLabel('Once more').fill(PASSWORD);
      await second.page.getByRole('button', { name: 'Set password' }).click();
      await second.page.getByText('This node is set up already').waitFor();
      await second.close();
    });
  }
});
