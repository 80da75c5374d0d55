/**
 * The lines of the conversation: a question, an answer with its tools, an error.
 *
 * Owns how one line looks. Decides nothing and asks nobody.
 */

/** @import { Answer, LegReason, ToolRecord } from '../rpc.d.ts' */
import { answerNodes } from './answer.js';
import { copyButton } from './clipboard.js';
import { element } from './element.js';
import { legName } from './legs.js';
import { visibleName, visibleText } from './untrusted.js';

/** Glyph and word of each outcome, and what it means where it is no success. @type {Map<string, [string, string, string?]>} */
const OUTCOMES = new Map([
  ['ran', ['✓', 'ran']],
  ['failed', ['✕', 'failed', 'It ran and gave an error; the answer was made without its result.']],
  ['unknown', ['✕', 'no such tool', 'The model asked for a tool that this node does not have.']],
  ['denied', ['✕', 'not granted', 'It did not run: the grant is missing, or you said no.']],
  ['bad_arguments', ['✕', 'wrong arguments', 'It did not run: what the model wrote does not fit it.']],
  ['needs_confirmation', ['…', 'waits for your approval', 'It has not run. Approve or deny it on the node page.']],
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
 * @param {number | undefined} at Unix milliseconds
 * @param {(text: string) => void} edit puts the question into the composer again
 * @returns {HTMLElement}
 */
export function questionEntry(text, at, edit) {
  const meta = element('div', { class: 'entry-meta' }, at ? timeOf(at) : '');
  meta.append(smallButton('Edit', 'Edit this question and ask it anew', () => edit(text)));
  return element(
    'div',
    { class: 'entry question' },
    element('p', { class: 'visually-hidden' }, 'You asked:'),
    element('p', { class: 'question-text' }, visibleText(text, 8000)),
    meta,
  );
}

/**
 * @param {Answer} answer
 * @param {(() => void) | null} [again] asks the same question anew
 * @returns {HTMLElement}
 */
export function answerEntry(answer, again = null) {
  const body = element('div', { class: 'answer' }, answerNodes(answer.html, answer.text));
  const tools = toolsOf(answer.tools);
  const stopped = answer.status === 'stopped';
  const meta = element('div', { class: 'entry-meta' });
  if (answer.backend && !stopped) meta.append(element('span', { class: 'by' }, legName(answer.backend)));
  if (stopped) meta.append(element('span', { class: 'by' }, 'stopped'));
  if (answer.text !== '' && !stopped) meta.append(copyButton(answer.text));
  if (again !== null) meta.append(smallButton('Retry', 'Ask the same question again', again));
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
  return element('ul', { class: 'tools', 'aria-label': 'Tools used' }, ...tools.map(toolCard));
}

/**
 * One tool: a line where it ran, with what that means where it did not.
 * @param {{ name: string, outcome: string | null }} tool `outcome` is null while it runs
 * @returns {HTMLLIElement}
 */
export function toolCard({ name, outcome }) {
  const [glyph, word, meaning] = OUTCOMES.get(outcome ?? '') ?? ['·', outcome === null ? 'running' : visibleName(outcome)];
  const kind = outcome === 'ran' ? 'good' : outcome === null ? 'runs' : outcome === 'needs_confirmation' ? 'wait' : 'bad';
  return element(
    'li',
    { class: `tool ${kind}` },
    element('span', { class: 'tool-glyph', 'aria-hidden': 'true' }, glyph),
    element('span', { class: 'tool-name' }, visibleName(name)),
    element('span', { class: 'tool-outcome' }, word),
    meaning !== undefined && element('span', { class: 'tool-meaning' }, meaning),
  );
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

/**
 * @param {string} word
 * @param {string} meaning said to whoever can't see where it stands
 * @param {() => void} act
 */
function smallButton(word, meaning, act) {
  const button = element('button', { type: 'button', class: 'bare small', title: meaning }, word);
  button.addEventListener('click', act);
  return button;
}

/** @param {number} at Unix milliseconds */
function timeOf(at) {
  const then = new Date(at);
  return then.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' });
}
