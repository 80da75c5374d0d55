/**
 * Fields, forms and buttons that change something at the daemon.
 *
 * Owns how a refusal is said: beside the field that it names, else beside the button. Knows no method.
 */

/** @import { Child } from '../aiui/element.js' */
import { element } from '../aiui/element.js';
import { RpcFailure } from '../aiui/rpc.js';

/** How long a button waits for its second press. */
const ARMED_MS = 5000;
let lastId = 0;

/**
 * @typedef {object} Field
 * @property {string} name as the daemon calls it in `error.data.field`
 * @property {HTMLElement} element
 * @property {HTMLInputElement | HTMLSelectElement} input
 * @property {(line: string) => void} fail says it beside the field, and goes there
 * @property {(line: string) => void} warn says it beside the field
 */

/**
 * @param {string} name
 * @param {string} label
 * @param {{ hint?: Child, [attribute: string]: any }} [options] attributes of the input; `hint` stands under it
 * @returns {Field & { input: HTMLInputElement }}
 */
export function textField(name, label, { hint, ...attributes } = {}) {
  const input = element('input', { type: 'text', autocomplete: 'off', spellcheck: 'false', autocapitalize: 'off', ...attributes });
  return Object.assign(fieldOf(name, label, input, hint), { input });
}

/**
 * @param {string} name
 * @param {string} label
 * @param {[string, string][]} choices value and word
 * @param {{ hint?: Child, value?: string }} [options]
 * @returns {Field & { input: HTMLSelectElement }}
 */
export function selectField(name, label, choices, { hint, value } = {}) {
  const input = select(choices, value);
  return Object.assign(fieldOf(name, label, input, hint), { input });
}

/**
 * @param {[string, string][]} choices
 * @param {string} [value]
 * @param {Record<string, string>} [attributes]
 */
export function select(choices, value, attributes = {}) {
  const made = element('select', attributes, ...choices.map(([value, word]) => element('option', { value }, word)));
  if (value !== undefined) made.value = value;
  return made;
}

/**
 * @param {string} name
 * @param {string} label
 * @param {HTMLInputElement | HTMLSelectElement} input
 * @param {Child} hint
 * @returns {Field}
 */
function fieldOf(name, label, input, hint) {
  const id = `field-${++lastId}`;
  input.id = id;
  input.setAttribute('aria-describedby', `${id}-error${hint ? ` ${id}-hint` : ''}`);
  const error = element('p', { id: `${id}-error`, class: 'field-error', role: 'alert' });
  input.addEventListener('input', () => {
    error.replaceChildren();
    input.removeAttribute('aria-invalid');
  });
  return {
    name,
    input,
    element: element(
      'div', { class: 'field' }, element('label', { for: id }, label), input, error,
      hint && element('p', { class: 'field-hint', id: `${id}-hint` }, hint),
    ),
    fail(line) {
      error.textContent = line;
      input.setAttribute('aria-invalid', 'true');
      input.focus();
    },
    warn(line) {
      error.textContent = line;
    },
  };
}

/**
 * A form that runs `attempt` when it is sent, one at a time. What `attempt` throws is said; it may throw `FieldError`.
 * @param {string} action the word on the button
 * @param {Field[]} fields
 * @param {() => Promise<unknown>} attempt
 * @returns {HTMLFormElement}
 */
export function form(action, fields, attempt) {
  const line = element('p', { class: 'field-error', role: 'alert' });
  const button = element('button', { type: 'submit', class: 'primary' }, action);
  const made = element(
    'form', { class: 'form', novalidate: true }, ...fields.map((field) => field.element), element('div', { class: 'form-end' }, button, line),
  );
  let running = false;
  made.addEventListener('submit', async (event) => {
    event.preventDefault();
    if (running) return;
    running = true;
    line.textContent = '';
    button.setAttribute('aria-disabled', 'true');
    try {
      await attempt();
    } catch (failure) {
      const unnamed = failure instanceof RpcFailure && failure.data.name === 'invalid_params' ? fields.at(-1) : undefined;
      const field = fields.find(({ name }) => name === fieldOfFailure(failure)) ?? unnamed;
      if (field !== undefined) field.fail(said(failure));
      else line.textContent = said(failure);
    }
    button.removeAttribute('aria-disabled');
    running = false;
  });
  return made;
}

/**
 * The field that a refusal is about: the daemon names it, or, an older one, begins its sentence with it.
 * @param {unknown} failure
 */
function fieldOfFailure(failure) {
  if (failure instanceof FieldError) return failure.field;
  if (!(failure instanceof RpcFailure)) return undefined;
  if (typeof failure.data.field === 'string') return failure.data.field;
  if (failure.data.name === 'login_failed') return 'old';
  return /^`([a-z_]+)`/i.exec(failure.message)?.[1]?.toLowerCase();
}

/** What a form itself finds wrong with a field. */
export class FieldError extends Error {
  /**
   * @param {string} field
   * @param {string} message
   */
  constructor(field, message) {
    super(message);
    this.field = field;
  }
}

/**
 * A button that runs `attempt`, with the place where a refusal is said. With `sure`, the first press only asks.
 * @param {string} label
 * @param {() => Promise<unknown>} attempt
 * @param {{ class?: string, sure?: string, key?: string, described?: string, name?: string }} [options]
 *   `key` finds it again after the row is drawn anew; `name` is its accessible name where the label alone is not enough
 * @returns {HTMLElement}
 */
export function act(label, attempt, { class: kind = '', sure, key, described, name } = {}) {
  const button = element('button', {
    type: 'button', class: kind, 'data-key': key, 'aria-describedby': described, 'aria-label': name,
  }, label);
  const line = element('span', { class: 'field-error', role: 'alert' });
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let armed;
  const disarm = () => {
    clearTimeout(armed);
    armed = undefined;
    button.textContent = label;
    if (name) button.setAttribute('aria-label', name);
    delete button.dataset.sure;
  };
  button.addEventListener('blur', disarm);
  button.addEventListener('click', async () => {
    if (button.getAttribute('aria-disabled') === 'true') return;
    line.textContent = '';
    if (sure !== undefined && armed === undefined) {
      button.textContent = sure;
      if (name) button.setAttribute('aria-label', `${sure} ${name}`);
      button.dataset.sure = 'yes';
      armed = setTimeout(disarm, ARMED_MS);
      return;
    }
    if (sure !== undefined) disarm();
    button.setAttribute('aria-disabled', 'true');
    try {
      await attempt();
    } catch (failure) {
      line.textContent = said(failure);
    }
    button.removeAttribute('aria-disabled');
  });
  return element('span', { class: 'act' }, button, line);
}

/**
 * A line for people.
 * @param {unknown} failure
 * @returns {string}
 */
export function said(failure) {
  return failure instanceof RpcFailure || failure instanceof FieldError ? failure.message : 'That did not work.';
}
