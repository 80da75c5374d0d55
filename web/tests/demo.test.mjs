/**
 * The demo as a person sees it: its link, the conversation on the simulated mesh, the chat beside it.
 *
 * Owns that page and mesh are joined in the real program. Needs the daemon (`TOMBOLO_BIN`): the mock proves nothing here.
 */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { after, before, describe, test } from 'node:test';
import { ask, chatFrame, missing, openBrowser, openPage, OUTPUT, PHONE } from './browser.mjs';

/** @import { ChildProcess } from 'node:child_process' */
/** @import { Browser, Page } from 'playwright-core' */

const BINARY = process.env.TOMBOLO_BIN ?? '';
/** The script's last question is answered long before. */
const SCRIPT_MS = 60_000;

describe('the demo', { skip: missing || (BINARY === '' ? 'TOMBOLO_BIN names no daemon' : false) }, () => {
  /** @type {Browser} */
  let browser;
  /** @type {ChildProcess} */
  let demo;
  let link = '';
  before(async () => {
    browser = await openBrowser();
    demo = spawn(BINARY, ['demo', '--listen', '127.0.0.1:0'], { stdio: ['ignore', 'pipe', 'ignore'] });
    if (demo.stdout === null) throw new Error('no output');
    const lines = createInterface({ input: demo.stdout });
    link = await new Promise((resolve, reject) => {
      lines.on('line', (line) => {
        const found = /http:\S+login=\S+/.exec(line)?.[0];
        if (found) resolve(found);
      });
      demo.once('exit', () => reject(new Error('the demo ended before it gave its link')));
    });
  });
  after(async () => {
    await browser?.close();
    demo?.kill('SIGKILL');
  });

  test('its link opens the page logged in, once, and the mesh conversation is seen with its arrival', async () => {
    const { page, faults, close } = await openPage(browser);
    await page.goto(link);
    const chat = await chatFrame(page);
    assert.equal(new URL(page.url()).search, '', 'the token is out of the address');

    await page.locator('.message.in', { hasText: 'how much disk space is left?' }).first().waitFor({ timeout: SCRIPT_MS });
    const answer = page.locator('.message.out').first();
    await answer.locator('.badge', { hasText: 'delivered' }).waitFor({ timeout: SCRIPT_MS });
    assert.match(await answer.innerText(), /Ana[\s\S]*free of/);
    assert.match(await page.locator('.message.in').first().innerText(), /verified/);
    assert.match(await page.locator('#contacts').innerText(), /Ana[\s\S]*key pinned/);
    assert.doesNotMatch(await page.locator('.figure').innerText(), /^0 s/, 'the airtime was counted');

    await ask(chat, 'How much disk space is left?');
    await chat.locator('.reply .tool-name', { hasText: 'system_disk_status' }).waitFor();
    assert.match(await chat.locator('.reply .answer').innerText(), /free of/);
    assert.deepEqual(faults, []);
    await shots(page, '1280');

    const second = await openPage(browser);
    await second.page.goto(link);
    await second.page.getByLabel('Password').waitFor();
    await second.close();

    await page.setViewportSize(PHONE);
    await shots(page, '375');
    await page.getByRole('button', { name: 'Status' }).click();
    await page.screenshot({ path: `${OUTPUT}demo-status-375.png` });

    const stranger = page.locator('.message.ignored');
    await stranger.waitFor({ timeout: SCRIPT_MS });
    assert.match(await stranger.innerText(), /unverified[\s\S]*not answered/);
    await close();
  });
});

/**
 * @param {Page} page
 * @param {string} name
 */
async function shots(page, name) {
  for (const colorScheme of /** @type {('light' | 'dark')[]} */ (['light', 'dark'])) {
    await page.emulateMedia({ colorScheme });
    await page.screenshot({ path: `${OUTPUT}demo-${name}-${colorScheme}.png`, animations: 'disabled' });
  }
}
