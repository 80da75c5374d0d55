/**
 * The conversation as one Markdown text, to be kept elsewhere.
 *
 * Owns the form of that text and how it is handed over: a sandboxed frame may not save a file, so there it is shown to
 * be copied; on a page of its own it is saved. What is exported is what the daemon has stored, not what is on the screen.
 */

/** @import { HistoryEntry } from '../rpc.d.ts' */
import { copyButton } from './clipboard.js';
import { element } from './element.js';
import { toolsOf } from './entry.js';
import { legName } from './legs.js';
import { visibleText } from './untrusted.js';

/** More than a transcript can hold. */
const MAX_CHARS = 4_000_000;

/**
 * @param {HistoryEntry[]} entries oldest first
 * @returns {string}
 */
export function markdownOf(entries) {
  const lines = ['# Conversation with the node’s assistant', ''];
  for (const entry of entries) {
    const when = entry.at > 0 ? `, ${new Date(entry.at).toISOString().slice(0, 16).replace('T', ' ')} UTC` : '';
    if (entry.role === 'user') {
      lines.push(`## You${when}`, '', entry.text, '');
      continue;
    }
    const by = entry.status === 'stopped' ? 'stopped' : legName(entry.backend ?? '');
    lines.push(`## The assistant (${by || 'unknown'})${when}`, '');
    for (const tool of toolsOf(entry.tools)) lines.push(`- tool \`${tool.name}\`: ${tool.outcome.replaceAll('_', ' ')}`);
    if (toolsOf(entry.tools).length > 0) lines.push('');
    lines.push(entry.text, '');
  }
  return visibleText(lines.join('\n'), MAX_CHARS);
}

/**
 * Shows the text in `place`, to be copied; where a page may save a file, to be saved too.
 * @param {HTMLElement} place
 * @param {string} text
 * @param {boolean} maySave
 * @param {() => void} closed
 */
export function showExport(place, text, maySave, closed) {
  const field = element('textarea', { readonly: true, 'aria-label': 'The conversation as Markdown' });
  field.value = text;
  const close = element('button', { type: 'button', class: 'bare' }, 'Close');
  const end = () => {
    place.hidden = true;
    place.replaceChildren();
    closed();
  };
  close.addEventListener('click', end);
  place.onkeydown = (event) => {
    if (event.key !== 'Escape') return;
    event.stopPropagation();
    end();
  };
  const save = element('button', { type: 'button', class: 'bare' }, 'Save as a file');
  save.addEventListener('click', () => {
    const address = URL.createObjectURL(new Blob([text], { type: 'text/markdown' }));
    element('a', { download: 'conversation.md', href: address }).click();
    // The browser has taken the content by the next task.
    setTimeout(() => URL.revokeObjectURL(address), 0);
  });
  place.replaceChildren(
    field,
    element('div', { class: 'exported-actions' }, copyButton(text), maySave && save, close),
  );
  place.hidden = false;
  field.focus();
  field.select();
}
