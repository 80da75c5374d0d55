/**
 * The lines of the conversation: a question, an answer with its tools, an error.
 *
 * Owns how one line looks. Decides nothing and asks nobody.
 */

/** @import { Answer, LegReason, ToolRecord } from '../rpc.d.ts' */
import { answerNodes } from './answer.js';
import { element } from './element.js';
import { legName } from './legs.js';
import { visibleName, visibleText } from './untrusted.js';

/** Glyph and word of each outcome. */
const OUTCOMES = new Map([
  ['ran', ['✓', 'ran']],
  ['failed', ['✕', 'failed']],
  ['unknown', ['✕', 'no such tool']],
  ['denied', ['✕', 'not granted']],
  ['bad_arguments', ['✕', 'wrong arguments']],
  ['needs_confirmation', ['…', 'waits for your approval']],
]);

/**
 * The records that have the form of one.
 * @param {unknown} value
 * @returns {ToolRecord[]}
 */
export function toolsOf(value) {
  return Array.isArray(value) ? value.filter((tool) => typeof tool?.name === 'string') : [];
}

/**
 * @param {string} text
 * @param {number} [at] Unix milliseconds
 * @returns {HTMLElement}
 */
export function questionEntry(text, at) {
  const clock = at ? timeOf(at) : '';
  return element(
    'div',
    { class: 'entry question' },
    element('p', { class: 'visually-hidden' }, 'You asked:'),
    element('p', { class: 'question-text' }, visibleText(text, 8000)),
    clock && element('p', { class: 'entry-meta' }, clock),
  );
}

/**
 * @param {Answer} answer
 * @returns {HTMLElement}
 */
export function answerEntry(answer) {
  const body = element('div', { class: 'answer' }, answerNodes(answer.html, answer.text));
  const tools = toolsOf(answer.tools);
  const stopped = answer.status === 'stopped';
  const meta = element('div', { class: 'entry-meta' });
  if (answer.backend && !stopped) meta.append(element('span', { class: 'by' }, legName(answer.backend)));
  if (stopped) meta.append(element('span', { class: 'by' }, 'stopped'));
  if (answer.text !== '' && !stopped) meta.append(copyButton(answer.text));
  return element(
    'div',
    { class: `entry reply ${answer.status === 'failed' ? 'failed' : ''}` },
    element('p', { class: 'visually-hidden' }, 'The assistant:'),
    tools.length > 0 && toolCards(tools),
    body,
    reasonList(answer.reasons),
    meta,
  );
}

/**
 * @param {string} line
 * @param {(() => void) | null} again
 * @returns {HTMLElement}
 */
export function errorEntry(line, again) {
  const made = element('div', { class: 'entry error' }, element('p', {}, visibleText(line, 300)));
  if (again !== null) {
    const button = element('button', { type: 'button' }, 'Ask again');
    button.addEventListener('click', () => {
      made.remove();
      again();
    });
    made.append(button);
  }
  return made;
}

/** @param {ToolRecord[]} tools */
function toolCards(tools) {
  const list = element('ul', { class: 'tools', 'aria-label': 'Tools used' });
  for (const tool of tools) {
    const [glyph, word] = OUTCOMES.get(tool.outcome) ?? ['·', visibleName(tool.outcome)];
    const good = tool.outcome === 'ran';
    list.append(
      element(
        'li',
        { class: `tool ${good ? 'good' : tool.outcome === 'needs_confirmation' ? 'wait' : 'bad'}` },
        element('span', { class: 'tool-glyph', 'aria-hidden': 'true' }, glyph),
        element('span', { class: 'tool-name' }, visibleName(tool.name)),
        element('span', { class: 'tool-outcome' }, String(word)),
      ),
    );
  }
  return list;
}

/** @param {LegReason[]} reasons */
function reasonList(reasons) {
  if (!Array.isArray(reasons) || reasons.length === 0) return null;
  const list = element('ul', {});
  for (const { leg, reason } of reasons) {
    list.append(element('li', {}, `${legName(String(leg))}: ${visibleText(reason, 300)}`));
  }
  const names = reasons.map(({ leg }) => legName(String(leg)));
  const summary = names.length > 2 ? 'No model answered' : `${names.join(' and ')} did not answer`;
  return element('details', { class: 'reasons' }, element('summary', {}, summary), list);
}

/** @param {string} text */
function copyButton(text) {
  const button = element('button', { type: 'button', class: 'bare copy' }, 'Copy');
  button.addEventListener('click', async () => {
    const done = await copied(text);
    button.textContent = done ? 'Copied' : 'Could not copy';
    setTimeout(() => (button.textContent = 'Copy'), 2000);
  });
  return button;
}

/**
 * The clipboard's own interface is missing over plain HTTP from another machine, and may be refused in a frame.
 * @param {string} text
 * @returns {Promise<boolean>}
 */
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = element('textarea', { class: 'visually-hidden', 'aria-hidden': 'true', tabindex: -1 });
    field.value = text;
    document.body.append(field);
    const before = document.activeElement;
    field.select();
    const done = document.execCommand('copy');
    field.remove();
    if (before instanceof HTMLElement) before.focus();
    return done;
  }
}

/** @param {number} at Unix milliseconds */
function timeOf(at) {
  const then = new Date(at);
  return then.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' });
}
