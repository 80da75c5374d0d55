/**
 * What an answer's HTML may become, and text from the air: nothing but what is on the list.
 *
 * Owns the hostile texts. They are given to the page's own functions inside the real frame, under its real policy, as a
 * daemon would that sanitises nothing.
 */

import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { logIn, missing, openBrowser, openPage } from './browser.mjs';
import { startServer } from './server.mjs';

/** @import { Browser, Frame, Page } from 'playwright-core' */
/** @import { Server } from './server.mjs' */

describe('answers', { skip: missing }, () => {
  /** @type {Browser} */
  let browser;
  /** @type {Server} */
  let server;
  /** @type {Page} */
  let page;
  /** @type {Frame} */
  let chat;
  before(async () => {
    [browser, server] = await Promise.all([openBrowser(), startServer()]);
    ({ page } = await openPage(browser));
    chat = await logIn(page, server);
  });
  afterEach(() => server.model.reset());
  after(async () => {
    await browser?.close();
    await server?.stop();
  });

  /**
   * What the chat makes of it, written as HTML.
   * @param {string} html
   */
  function made(html) {
    return chat.evaluate(async (html) => {
      const { answerNodes } = await import('/aiui/answer.js');
      const holder = document.createElement('div');
      holder.append(answerNodes(html, 'the text'));
      return holder.innerHTML;
    }, html);
  }

  test('what an answer uses is kept', async () => {
    for (const html of [
      '<p>a <em>b</em> <strong>c</strong> <del>d</del> <code>e</code></p>',
      '<ul><li>a<ul><li>b</li></ul></li></ul>',
      '<ol start="3"><li>a</li></ol>',
      '<blockquote><p>q</p></blockquote>',
      '<p>a<br>b</p><hr>',
    ]) {
      assert.equal(await made(html), html);
    }
    assert.match(await made('<table><thead><tr><th>a</th></tr></thead><tbody><tr><td>1</td></tr></tbody></table>'), /<table><thead><tr><th>a<\/th>/);
    assert.match(await made('<pre><code>df -h\n</code></pre>'), /<pre><code>df -h\n<\/code><\/pre>/);
    assert.equal(await made('<h3>One</h3>'), '<p class="answer-heading">One</p>');
    assert.equal(
      await made('<p><span class="link" data-address="https://h.example/x">bank (h.example)</span></p>'),
      '<p><button type="button" class="answer-link" aria-expanded="false">bank (h.example)</button></p>',
    );
    assert.equal(
      await made('<p><span class="link" data-address="javascript:window.ran=1">bank</span></p>'),
      '<p><span class="answer-link">bank</span></p>',
    );
    assert.equal(await made('<p><span class="link">bank (h.example)</span></p>'), '<p><span class="answer-link">bank (h.example)</span></p>');
  });

  test('everything else is gone, with its attributes, and runs nothing', async () => {
    for (const [html, kept] of [
      ['<p onclick="x()" style="color:red" id="a" class="b">a</p>', '<p>a</p>'],
      ['a<script>window.ran = 1</script>', 'a'],
      ['a<img src=x onerror="window.ran = 1">', 'a[picture: not shown]'],
      ['a<img src="https://evil.example/x.png?secret" alt="Alt">', 'a[picture: Alt]'],
      ['a<svg onload="window.ran = 1"><script>window.ran = 1</script></svg>', 'a'],
      ['a<math><mtext><script>window.ran = 1</script></mtext></math>', 'a'],
      ['a<iframe srcdoc="<script>parent.ran = 1</script>"></iframe>', 'a'],
      ['a<style>*{display:none}</style><link rel="stylesheet" href="//evil.example">', 'a'],
      ['a<form action="//evil.example"><input name=q><button>b</button></form>', 'a'],
      ['<a href="javascript:window.ran = 1">x</a>', '<span class="answer-link">x</span>'],
      ['<a href="https://evil.example/?q=1">bank</a>', '<span class="answer-link">bank</span><span class="answer-address"> (https://evil.example/?q=1)</span>'],
      ['<p>a<template><b>b</b></template></p>', '<p>a</p>'],
      ['<custom-element>a</custom-element>', 'a'],
      ['<ol start="-1"><li>a</li></ol>', '<ol><li>a</li></ol>'],
      ['<ol start="1e99"><li>a</li></ol>', '<ol><li>a</li></ol>'],
      ['<p>a\u202eb\u200bc</p>', '<p>a\ufffdb\ufffdc</p>'],
      ['<noscript><p title="</noscript><img src=x onerror=alert(1)>">a', 'the text'],
    ]) {
      const result = await made(String(html));
      if (kept === 'the text') assert.doesNotMatch(result, /<(?!p\b|\/p)|onerror=.*>.*</, String(html));
      else assert.equal(result, kept);
    }
    assert.equal(await chat.evaluate(() => /** @type {any} */ (window).ran), undefined);
  });

  test('depth and number of elements are bounded', async () => {
    const deep = await made('<blockquote>'.repeat(400) + 'x');
    assert.equal(deep.match(/<blockquote>/g)?.length, 24);
    assert.match(deep, /x/);
    const many = await made('<p>x</p>'.repeat(9000));
    assert.equal(many.match(/<p>/g)?.length, 2500, 'five thousand nodes, texts counted');
  });

  test('without HTML the text is shown as text', async () => {
    assert.equal(await made(''), '<p class="plain">the text</p>');
    const escaped = await chat.evaluate(async () => {
      const { answerNodes } = await import('/aiui/answer.js');
      const holder = document.createElement('div');
      holder.append(answerNodes(undefined, '<b>not bold</b>\n\nsecond'));
      return holder.innerHTML;
    });
    assert.equal(escaped, '<p class="plain">&lt;b&gt;not bold&lt;/b&gt;</p><p class="plain">second</p>');
  });

  test('hidden characters are made visible, and emoji and scripts are left alone', async () => {
    const shown = await chat.evaluate(async () => {
      const { visibleName, visibleText } = await import('/aiui/untrusted.js');
      return {
        bidi: visibleText('a\u202eb\u2066c\u200fd'),
        zeroWidth: visibleText('a\u200bb\ufeffc\u2060d'),
        tags: visibleText('a\u{e0041}b'),
        controls: visibleText('a\u001b[31mb\u0007c\r\nd'),
        loneJoiner: visibleText('a\u200db'),
        piled: visibleText(`a${'\u0301'.repeat(40)}b`),
        emoji: visibleText('👩\u200d🚀 👍🏽 ❤\ufe0f \u{1f3f4}'),
        scripts: visibleText('naïve 日本語 عربي हिन्दी'),
        name: visibleName('two\nlines\tand tabs'),
        long: visibleText('x'.repeat(50), 10),
        astral: visibleText('😀'.repeat(5), 3),
        nothing: visibleText(null) + visibleText(undefined),
      };
    });
    assert.deepEqual(shown, {
      bidi: 'a\ufffdb\ufffdc\ufffdd',
      zeroWidth: 'a\ufffdb\ufffdc\ufffdd',
      tags: 'a\ufffdb',
      controls: 'a\ufffd[31mb\ufffdc\ufffd\nd',
      loneJoiner: 'a\ufffdb',
      piled: `a${'\u0301'.repeat(4)}b`,
      emoji: '👩\u200d🚀 👍🏽 ❤\ufe0f \u{1f3f4}',
      scripts: 'naïve 日本語 عربي हिन्दी',
      name: 'two lines and tabs',
      long: `${'x'.repeat(10)}…`,
      astral: '😀😀😀…',
      nothing: '',
    });
  });
});
