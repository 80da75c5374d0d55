/**
 * The first start, from the one-time link to the summary; and who else may log in.
 *
 * Owns the whole way, on a wide page and on a phone: interrupted, gone on with, finished.
 */

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { chatFrame, missing, openBrowser, openNode, openPage, PHONE, WIDE } from './browser.mjs';
import { lively } from './mock-world.mjs';
import { contact } from './radio.mjs';
import { PASSWORD, startServer } from './server.mjs';

/** @import { Browser } from 'playwright-core' */
/** @import { Server } from './server.mjs' */

const onMock = process.env.TOMBOLO_BIN ? 'the mock’s world is needed' : false;

for (const [name, size] of /** @type {[string, typeof WIDE][]} */ ([['1280', WIDE], ['375', PHONE]])) {
  describe(`the first start at ${name} px`, { skip: missing || onMock }, () => {
    /** @type {Browser} */
    let browser;
    /** @type {Server} */
    let server;
    before(async () => {
      [browser, server] = await Promise.all([openBrowser(), startServer({ fresh: true })]);
    });
    after(async () => {
      await browser?.close();
      await server?.stop();
    });

    test('password, radio, model, contact, question, summary', async () => {
      const mock = server.mock;
      assert.ok(mock);
      const world = lively();
      mock.world = world;
      world.assistant.allowed_contacts = [];
      world.grants = world.grants.slice(0, 1);
      Object.assign(world.status, { connected: false, link: 'waiting for a radio', my_node: null, owner: '', fingerprint: null, firmware: '', region: '', modem: '' });
      Object.assign(world.status.airtime, { limit_ms: null, share_ms: null });
      Object.assign(world.assistant, { ollama_detected: false, models: [], model: null });

      const { page, faults, close } = await openPage(browser, { viewport: size });
      await page.goto(server.setupLink);
      await page.getByLabel('New password').fill(PASSWORD);
      await page.getByLabel('Once more').fill(PASSWORD);
      await page.getByRole('button', { name: 'Set password' }).click();

      // The radio: not there, then with an old firmware and no region, then right.
      const step = page.locator('.step');
      await step.getByRole('heading', { name: 'Radio' }).waitFor();
      await step.getByText('No radio is connected').waitFor();
      await step.getByRole('button', { name: 'Skip for now' }).waitFor();
      Object.assign(world.status, { connected: true, link: 'the simulated radio', my_node: '!70b01001', owner: 'Tombolo Node', fingerprint: '3f0a 91c2 77de 04b8', firmware: '2.7.14.abc', region: 'UNSET', modem: 'LongFast' });
      await step.getByText('Firmware 2.7.14.abc is too old').waitFor();
      await step.getByText('The region is not set').waitFor();
      await step.getByRole('button', { name: 'Skip for now' }).waitFor();
      Object.assign(world.status, { firmware: '2.7.15.def', region: 'EU_868' });
      Object.assign(world.status.airtime, { limit_ms: 360_000, share_ms: 180_000 });
      await step.getByText('Region EU_868').waitFor();
      assert.match(await step.innerText(), /Firmware 2\.7\.15\.def\s/);
      assert.doesNotMatch(await step.innerText(), /too old/);
      await step.getByRole('button', { name: 'Continue' }).click();

      // The model: Ollama without one, then with two.
      await step.getByRole('heading', { name: 'Model' }).waitFor();
      assert.equal(await page.evaluate(() => document.activeElement?.textContent), 'Model', 'the heading is read out');
      await step.getByText('Ollama does not answer').first().waitFor();
      world.assistant.ollama_detected = true;
      mock.events.publish('changed', { what: 'legs' });
      await step.getByText('ollama pull').waitFor();
      Object.assign(world.assistant, { models: ['qwen2.5-coder:7b', 'llama3.2:3b'], model: { name: 'qwen2.5-coder:7b', source: 'configuration' } });
      mock.events.publish('changed', { what: 'legs' });
      await step.getByLabel('Local model').selectOption('llama3.2:3b');
      await page.locator('#notices', { hasText: 'llama3.2:3b is asked from now on' }).waitFor();
      assert.equal(world.assistant.model?.name, 'llama3.2:3b');
      await step.getByRole('button', { name: 'Continue' }).click();

      // Left here, and gone on with: after a reload, and from another view.
      await step.getByRole('heading', { name: 'First contact' }).waitFor();
      await page.reload();
      await step.getByRole('heading', { name: 'First contact' }).waitFor();
      await page.locator('#views').getByRole('button', { name: 'Node', exact: true }).click();
      await page.locator('.card', { hasText: 'The set-up is not finished.' }).getByRole('button', { name: 'Continue the set-up' }).click();
      await step.getByRole('heading', { name: 'First contact' }).waitFor();

      await step.getByLabel('Whom do you pair?').fill('Ana');
      await step.getByRole('button', { name: 'Show a code' }).click();
      await step.locator('.code-big', { hasText: /^!ai pair \d{7}$/ }).waitFor();
      mock.operator.paired();
      await step.locator('.judged', { hasText: 'Ana' }).getByText('77aa 0c11 b2d4 90fe').waitFor();
      await step.getByRole('button', { name: 'Continue' }).click();

      // A question.
      await step.getByRole('heading', { name: 'Test question' }).waitFor();
      server.model.say('There are 412 GB free.', { tool: 'system_disk_status' });
      await step.getByRole('button', { name: 'Ask', exact: true }).click();
      await step.getByText('There are 412 GB free.').waitFor();
      assert.match(await step.innerText(), /Ollama answered in/);
      await step.getByRole('button', { name: 'Continue' }).click();

      // What is allowed now.
      await step.getByRole('heading', { name: 'What is allowed' }).waitFor();
      const summary = await step.innerText();
      assert.match(summary, /Only contacts are answered: Ana\./);
      assert.match(summary, /Ana may use system\./);
      assert.match(summary, /No question leaves for a cloud model: none is set up\./);
      assert.match(summary, /Answers may take 180 s on air in an hour, of 360 s/);
      await step.getByRole('button', { name: 'To the node' }).click();
      const chat = await chatFrame(page);
      await chat.getByText('There are 412 GB free.').waitFor();
      assert.equal(await page.locator('.card').count(), 0, 'nothing is left to do');
      assert.deepEqual(faults, []);
      await page.reload();
      await chatFrame(page);
      assert.equal(new URL(page.url()).hash, '');
      await close();

      // The link is used up.
      const second = await openPage(browser);
      await second.page.goto(server.setupLink);
      await second.page.getByLabel('New password').fill(PASSWORD);
      await second.page.getByLabel('Once more').fill(PASSWORD);
      await second.page.getByRole('button', { name: 'Set password' }).click();
      await second.page.getByText('This node is set up already').waitFor();
      await second.close();
    });
  });
}

describe('who may log in', { skip: missing }, () => {
  /** @type {Browser} */
  let browser;
  /** @type {Server} */
  let server;
  before(async () => {
    [browser, server] = await Promise.all([openBrowser(), startServer({ driven: true, contacts: [contact('Ana', '!a1b2c3d4'), contact('Ben', '!b0b0b0b2')], models: ['qwen2.5-coder:7b', 'llama3.2:3b'] })]);
  });
  after(async () => {
    await browser?.close();
    await server?.stop();
  });

  /** A password for viewers, as the operator would set it. */
  async function letViewersIn() {
    if (server.mock) {
      server.mock.viewerPassword = 'only for looking';
      return;
    }
    const { page, close } = await openNode(browser, server, { view: 'settings' });
    await page.getByText('Let others look').click();
    await page.getByLabel('Password for viewers').fill('only for looking');
    await page.getByRole('button', { name: 'Set it' }).click();
    await page.locator('#notices', { hasText: 'Viewers can log in with it.' }).waitFor();
    await close();
  }

  test('the operator lets others look, with a password of their own; what is wrong is said beside its field', async () => {
    const { page, mock, faults, close } = await openNode(browser, server, { view: 'settings' });
    await page.getByText('Let others look').click();
    const field = page.getByLabel('Password for viewers');
    await field.fill('short');
    await page.getByRole('button', { name: 'Set it' }).click();
    await page.getByText('Use at least 8 characters.').waitFor();
    await field.fill(PASSWORD);
    await page.getByRole('button', { name: 'Set it' }).click();
    await page.locator('.field', { has: field }).getByText('This is the password of another role: each role needs another password.').waitFor();
    await field.fill('only for looking');
    await page.getByRole('button', { name: 'Set it' }).click();
    await page.locator('#notices', { hasText: 'Viewers can log in with it.' }).waitFor();
    if (server.mock) assert.equal(mock.viewerPassword, 'only for looking');
    assert.equal(await field.inputValue(), '', 'no password stays in the page');
    await page.getByRole('button', { name: 'Let nobody look' }).click();
    await page.getByRole('button', { name: 'Take their password away?' }).click();
    await page.locator('#notices', { hasText: 'There are no viewers any more.' }).waitFor();
    if (server.mock) assert.equal(mock.viewerPassword, null);
    await page.getByText('Change your password').click();
    await page.getByLabel('Your password now').fill('not that one');
    await page.getByLabel('New password').fill('another long enough');
    await page.getByRole('button', { name: 'Change it' }).click();
    await page.locator('.field', { has: page.getByLabel('Your password now') }).getByText('That did not match.').waitFor();
    assert.deepEqual(faults, []);
    await close();
  });

  for (const [name, size] of /** @type {[string, typeof WIDE][]} */ ([['1280', WIDE], ['375', PHONE]])) {
    test(`at ${name} px, a viewer sees everything that is for viewers, and nothing to press that changes anything`, async () => {
      await letViewersIn();
      const { page, calls, faults, close } = await openNode(browser, server, { size, password: 'only for looking' });
      await page.locator('#radio', { hasText: 'EU_868' }).waitFor();
      assert.equal(await page.locator('iframe').count(), 0, 'no chat');
      assert.equal(await page.getByRole('button', { name: 'Stop all' }).count(), 0);
      const allowed = new Set(['Status', 'Contacts', 'Log', 'History', 'Node', 'Log out', 'Save', 'More', 'Earlier lines', 'More Ana', 'More Ben', 'Close Ana', 'Received', 'Sent', 'Turns', 'Tool calls', 'Security', 'Link', 'Daemon']);
      for (const view of ['Status', 'Contacts', 'Log', 'History', 'Node']) {
        await page.locator('#views').getByRole('button', { name: view, exact: true }).click();
        if (view === 'Contacts') await page.getByRole('button', { name: 'More Ana' }).click();
        if (view === 'Node') await page.getByText('What is allowed now').waitFor();
        if (view === 'History') await page.getByRole('img', { name: /^Own airtime/ }).waitFor();
        const buttons = await page.getByRole('button').evaluateAll((all) => all.filter((one) => one.checkVisibility()).map((one) => one.textContent?.trim() ?? ''));
        assert.deepEqual(buttons.filter((word) => !allowed.has(word) && !/^(last \d+; log|\d+; edit|\d+ heard)$/.test(word)), [], view);
        assert.equal(await page.locator('form:visible').count(), 0, view);
        const inputs = await page.locator('input:visible, select:visible').evaluateAll((all) => all.filter((one) => !(/** @type {any} */ (one).disabled)).map((one) => one.getAttribute('aria-label')));
        assert.deepEqual(inputs.filter((label) => !['Find in the log', 'Delivery', 'Find a node'].includes(label ?? '')), [], view);
      }
      assert.deepEqual(calls, []);
      assert.deepEqual(faults, []);
      await close();
    });
  }

  test('sessions are listed, and another one is ended with a second press', async () => {
    const first = await openNode(browser, server, { size: PHONE });
    const { page, close } = await openNode(browser, server, { view: 'settings' });
    await page.locator('.settings-view li', { hasText: 'this one' }).waitFor();
    const others = page.getByRole('button', { name: 'End the session from 127.0.0.1' });
    const before = await others.count();
    assert.ok(before >= 1);
    await others.last().click();
    await page.getByRole('button', { name: 'End it now? End the session from 127.0.0.1' }).click();
    await page.waitForFunction((left) => document.querySelectorAll('.settings-view button[data-key^="end-"]').length === left, before - 1);
    void first;
    await first.close();
    await close();
  });

  test('switches and the model change at once, and what is refused goes back', async () => {
    const { page, calls, world, close } = await openNode(browser, server, { view: 'settings' });
    await page.getByLabel('Peers are answered').uncheck();
    await page.locator('#assistant .badge', { hasText: 'peers are not answered' }).waitFor();
    await page.getByText('Nobody on the mesh is answered.').waitFor();
    await page.getByLabel('Peers are answered').check();
    await page.locator('#assistant .badge', { hasText: 'answers peers' }).waitFor();
    world.assistant.models = ['qwen2.5-coder:7b'];
    server.model.names = ['qwen2.5-coder:7b'];
    await page.getByLabel('Local model').selectOption('llama3.2:3b');
    await page.locator('.field', { hasText: 'Local model' }).getByText('There is no model "llama3.2:3b"').waitFor();
    assert.equal(await page.getByLabel('Local model').inputValue(), 'qwen2.5-coder:7b');
    assert.deepEqual(calls.map(({ params }) => params), [{ enabled: false }, { enabled: true }, { model: 'llama3.2:3b' }]);
    await close();
  });
});
