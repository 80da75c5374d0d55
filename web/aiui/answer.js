/**
 * Turns the HTML of an answer into nodes that can't do anything.
 *
 * The daemon renders and sanitises; this does it again, so that even a broken daemon can't put a script, a link or a
 * remote picture into the page. Owns the list of elements that may be seen. No attribute
 * of the source survives but the first number of a list.
 */

import { copyButton } from './clipboard.js';
import { element } from './element.js';
import { visibleText } from './untrusted.js';

/** Kept as they are, without attributes. */
const KEPT = new Set([
  'p', 'br', 'hr', 'ul', 'ol', 'li', 'strong', 'em', 'del', 'code', 'pre', 'blockquote',
  'table', 'thead', 'tbody', 'tr', 'th', 'td',
]);
/** Shown as another element. */
const RENAMED = new Map([['b', 'strong'], ['i', 'em'], ['s', 'del']]);
const HEADING = /^h[1-6]$/;
/** Gone with everything in them. */
const DROPPED = new Set([
  'script', 'style', 'template', 'noscript', 'iframe', 'frame', 'object', 'embed', 'svg', 'math', 'head', 'title',
  'form', 'input', 'button', 'select', 'textarea', 'audio', 'video', 'canvas', 'link', 'meta', 'base', 'dialog',
]);
const MAX_DEPTH = 24;
const MAX_NODES = 5000;
const MAX_HTML_CHARS = 400_000;

/**
 * The policy that `require-trusted-types-for 'script'` asks for; the page's CSP lets exist only this one. What it lets
 * through is parsed into a document without a window, never into the page.
 */
const policy = /** @type {any} */ (globalThis).trustedTypes?.createPolicy('answer', {
  /** @param {string} html */
  createHTML: (html) => html,
});

/**
 * The nodes of an answer; where there is no HTML, its text in paragraphs.
 * @param {string | undefined} html
 * @param {string} text
 * @returns {DocumentFragment}
 */
export function answerNodes(html, text) {
  const fragment = document.createDocumentFragment();
  if (typeof html === 'string' && html !== '' && html.length <= MAX_HTML_CHARS) {
    const parsed = new DOMParser().parseFromString(policy ? policy.createHTML(html) : html, 'text/html');
    copy(parsed.body, fragment, 0, { left: MAX_NODES });
    if (fragment.textContent?.trim() !== '') return fragment;
  }
  const paragraphs = visibleText(text, MAX_HTML_CHARS).split(/\n{2,}/);
  for (const paragraph of paragraphs) {
    const made = document.createElement('p');
    made.className = 'plain';
    made.textContent = paragraph;
    fragment.append(made);
  }
  return fragment;
}

/**
 * @param {Node} from
 * @param {ParentNode & Node} into
 * @param {number} depth
 * @param {{ left: number }} budget
 */
function copy(from, into, depth, budget) {
  for (const node of from.childNodes) {
    if (budget.left <= 0) return;
    budget.left -= 1;
    if (node instanceof Text) {
      into.append(visibleText(node.data, MAX_HTML_CHARS));
    } else if (node instanceof Element) {
      const name = node.localName;
      if (node.namespaceURI !== 'http://www.w3.org/1999/xhtml' || DROPPED.has(name)) continue;
      const place = depth < MAX_DEPTH ? shell(node, name, into) : into;
      copy(node, place, depth + 1, budget);
      if (name === 'a') address(node, into);
    }
  }
}

/**
 * The element that stands for `node`, put into `into`; `into` itself where only its content is shown.
 * @param {Element} node
 * @param {string} name
 * @param {ParentNode & Node} into
 * @returns {ParentNode & Node}
 */
function shell(node, name, into) {
  if (name === 'img') {
    into.append(`[picture: ${visibleText(node.getAttribute('alt') || 'not shown', 200)}]`);
    return into;
  }
  const shown = RENAMED.get(name) ?? name;
  /** @type {HTMLElement} */
  let made;
  if (HEADING.test(name)) {
    // Not a heading: an answer must not change the outline of the page.
    made = document.createElement('p');
    made.className = 'answer-heading';
  } else if (name === 'a' || (name === 'span' && node.className === 'link')) {
    made = linkTo(node.getAttribute('data-address'));
  } else if (KEPT.has(shown)) {
    made = document.createElement(shown);
    const start = Number(node.getAttribute('start'));
    if (made instanceof HTMLOListElement && Number.isSafeInteger(start) && start > 1) made.start = start;
  } else {
    return into;
  }
  if (shown === 'table' || shown === 'pre') {
    // A region of its own, so that a wide one scrolls in itself, by keyboard too.
    const frame = document.createElement('div');
    frame.className = 'answer-wide';
    frame.tabIndex = 0;
    frame.setAttribute('role', 'group');
    frame.setAttribute('aria-label', shown === 'table' ? 'Table' : 'Code');
    frame.append(made);
    into.append(frame);
  } else {
    into.append(made);
  }
  return made;
}

/**
 * A link's text. It leads nowhere: a press shows the whole address below the paragraph, where it can be read and copied.
 * @param {string | null} to
 * @returns {HTMLElement}
 */
function linkTo(to) {
  const target = visibleText(to ?? '', 2000);
  if (!/^https?:\/\//i.test(target)) return element('span', { class: 'answer-link' });
  const link = element('button', { type: 'button', class: 'answer-link', 'aria-expanded': 'false' });
  const shown = element(
    'span',
    { class: 'answer-target', role: 'group', 'aria-label': 'Where this link leads' },
    element('code', {}, target),
    copyButton(target),
  );
  link.addEventListener('click', () => {
    const open = shown.isConnected;
    if (open) shown.remove();
    else (link.closest('p, li, td, th, blockquote') ?? link).append(shown);
    link.setAttribute('aria-expanded', String(!open));
  });
  return link;
}

/**
 * A link is not followed from here: where it would lead is shown beside it, to be read and copied.
 * @param {Element} node
 * @param {ParentNode & Node} into
 */
function address(node, into) {
  const target = visibleText(node.getAttribute('href') ?? '', 300);
  if (!/^https?:\/\//i.test(target) || target === node.textContent?.trim()) return;
  const made = document.createElement('span');
  made.className = 'answer-address';
  made.textContent = ` (${target})`;
  into.append(made);
}
