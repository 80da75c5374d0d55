/**
 * Getting in and out: set-up link, log-in, wrong password, lost session, log-out.
 *
 * Owns that nobody sees a node page without a session, and that nothing of one stays after it.
 */

import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { ask, chatFrame, logIn, missing, openBrowser, openPage } from './browser.mjs';
import { PASSWORD, startServer } from './server.mjs';

/** @import { Browser, Page } from 'playwright-core' */
/** @import { Server } from './server.mjs' */

describe('getting in', { skip: missing }, () => {
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

  test('without a session there is the form and nothing of the node', async () => {
    const { page, faults, close } = await openPage(browser);
    await page.goto(server.origin);
    await page.getByRole('heading', { name: 'Log in to this node' }).waitFor();
    assert.equal(await page.evaluate(() => document.activeElement?.id), 'password', 'the field has the focus');
    assert.equal(await page.locator('iframe').count(), 0);
    assert.equal(await page.locator('.panel').count(), 0);
    assert.deepEqual(faults, []);
    await close();
  });

  test('a wrong password is said beside its field, and the right one goes in', async () => {
    const { page, faults, close } = await openPage(browser);
    await page.goto(server.origin);
    const field = page.getByLabel('Password');
    await page.getByRole('button', { name: 'Log in' }).click();
    assert.match(await page.locator('#password-error').innerText(), /Enter the operator/);
    await field.fill('not the password');
    await field.press('Enter');
    await page.waitForFunction(() => document.getElementById('password-error')?.textContent === 'That did not match.');
    assert.equal(await field.getAttribute('aria-invalid'), 'true');
    assert.equal(await page.locator('iframe').count(), 0);
    await enterPatiently(page);
    await chatFrame(page);
    assert.equal(await page.locator('#password').count(), 0, 'the form is gone, and what was typed with it');
    assert.deepEqual(faults, []);
    await close();
  });

  test('a reload keeps the session', async () => {
    const { page, close } = await openPage(browser);
    await logIn(page, server);
    await page.reload();
    await chatFrame(page);
    assert.equal(await page.getByLabel('Password').count(), 0);
    await close();
  });

  test('log out ends it here and at the node, and leaves nothing on the screen', async () => {
    const { page, close } = await openPage(browser);
    await logIn(page, server);
    await page.locator('#radio dl').waitFor();
    await page.getByRole('button', { name: 'Log out' }).click();
    await page.getByLabel('Password').waitFor();
    assert.equal(await page.locator('iframe').count(), 0);
    assert.equal(await page.locator('.panel').count(), 0);
    await page.reload();
    await page.getByLabel('Password').waitFor();
    await close();
  });

  test('a session that ends elsewhere shows the form, and the conversation is there again after it', async () => {
    const { page, close } = await openPage(browser);
    const chat = await logIn(page, server);
    server.model.say('The causeway is dry.');
    await ask(chat, 'Is the causeway dry?');
    await chat.getByText('The causeway is dry.').waitFor();
    await endSession(page, server);
    await page.getByText('Your session has ended').waitFor();
    assert.equal(await page.locator('iframe').count(), 0);
    assert.equal(await page.locator('.panel').count(), 0);
    await enterPatiently(page);
    const again = await chatFrame(page);
    await again.getByText('The causeway is dry.').waitFor();
    await close();
  });

  test('a token that another tab made old is renewed without a word', async () => {
    const { page, close } = await openPage(browser);
    const chat = await logIn(page, server);
    // The other tab ends the session and logs in anew: same cookie jar, another token.
    const other = await page.context().newPage();
    await other.goto(server.origin);
    await other.getByRole('button', { name: 'Log out' }).click();
    await page.getByLabel('Password').waitFor();
    await enterPatiently(other);
    await chatFrame(other);
    await page.reload();
    const fresh = await chatFrame(page);
    await other.evaluate(async () => {
      const call = (/** @type {string} */ method, /** @type {string} */ token, /** @type {any} */ params = {}) =>
        fetch('/rpc', {
          method: 'POST',
          headers: { 'Content-Type': 'application/json', 'X-CSRF-Token': token },
          body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
        }).then((response) => response.json());
      return call('auth.login', '', { password: 'a long enough password' });
    });
    server.model.say('Still here.');
    await ask(fresh, 'Are you still there?');
    await fresh.getByText('Still here.').waitFor();
    assert.equal(await page.getByLabel('Password').count(), 0);
    assert.ok(chat.isDetached());
    await close();
  });

  test('a node that does not answer is said so, and waited for', async () => {
    const { page, close } = await openPage(browser);
    await page.goto(server.origin);
    await page.getByLabel('Password').waitFor();
    let refuse = true;
    await page.route('**/rpc', (route) => (refuse ? route.abort() : route.continue()));
    await page.reload();
    await page.getByText('The node does not answer. Trying again.').waitFor();
    refuse = false;
    await page.getByLabel('Password').waitFor();
    await close();
  });
});

describe('the first start', { skip: missing }, () => {
  /** @type {Browser} */
  let browser;
  /** @type {Server} */
  let server;
  before(async () => {
    [browser, server] = await Promise.all([openBrowser(), startServer({ fresh: true })]);
  });
  afterEach(() => server.model.reset());
  after(async () => {
    await browser?.close();
    await server?.stop();
  });

  test('without the link, the form says where to find it', async () => {
    const { page, close } = await openPage(browser);
    await page.goto(server.origin);
    await page.getByText('Open the set-up link').waitFor();
    await close();
  });

  test('the link sets the password once, and its token leaves the address at once', async () => {
    const { page, faults, close } = await openPage(browser);
    await page.goto(server.setupLink);
    await page.getByRole('heading', { name: 'Set up this node' }).waitFor();
    assert.equal(new URL(page.url()).hash, '');
    assert.equal(await page.evaluate(() => history.length), 2, 'and no entry with it is left behind');

    await page.getByLabel('New password').fill('short');
    await page.getByRole('button', { name: 'Set password' }).click();
    assert.match(await page.locator('#new-password-error').innerText(), /at least/);
    await page.getByLabel('New password').fill(PASSWORD);
    await page.getByLabel('Once more').fill(`${PASSWORD}x`);
    await page.getByRole('button', { name: 'Set password' }).click();
    assert.match(await page.locator('#repeat-password-error').innerText(), /differ/);
    await page.getByLabel('Once more').fill(PASSWORD);
    await page.getByRole('button', { name: 'Set password' }).click();
    await page.locator('.setup-view').waitFor();
    assert.equal(new URL(page.url()).hash, '#setup', 'the set-up goes on');
    assert.deepEqual(faults, []);
    await close();

    const second = await openPage(browser);
    await second.page.goto(server.setupLink);
    await second.page.getByLabel('New password').fill(PASSWORD);
    await second.page.getByLabel('Once more').fill(PASSWORD);
    await second.page.getByRole('button', { name: 'Set password' }).click();
    await second.page.getByText('This node is set up already. Log in with its password.').waitFor();
    await second.page.getByRole('heading', { name: 'Log in to this node' }).waitFor();
    assert.equal(await second.page.locator('iframe').count(), 0);
    await second.close();
  });
});

/**
 * Logs in on the form that is there, as often as the back-off after a failure asks for.
 * @param {Page} page
 */
async function enterPatiently(page) {
  await page.getByLabel('Password').fill(PASSWORD);
  await page.getByRole('button', { name: 'Log in' }).click();
  for (let tries = 0; tries < 10; tries += 1) {
    const left = await Promise.race([
      page.waitForSelector('iframe').then(() => true),
      page.getByText('Too many failed tries').waitFor().then(() => false, () => false),
    ]);
    if (left) return;
    await page.waitForTimeout(1000);
    await page.getByLabel('Password').fill(PASSWORD);
    await page.getByRole('button', { name: 'Log in' }).click();
  }
}

/**
 * Ends the page's session as another tab would.
 * @param {Page} page
 * @param {Server} server
 */
async function endSession(page, server) {
  const cookie = (await page.context().cookies()).map(({ name, value }) => `${name}=${value}`).join('; ');
  const call = async (/** @type {string} */ method, /** @type {Record<string, string>} */ headers) => {
    const response = await fetch(`${server.origin}/rpc`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Cookie: cookie, ...headers },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: {} }),
    });
    return response.json();
  };
  const { result } = await call('auth.whoami', {});
  await call('auth.logout', { 'X-CSRF-Token': result.csrf_token });
}
