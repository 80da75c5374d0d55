/**
 * The grants of one caller: categories with a time limit, and a mode for each tool.
 *
 * Owns the editor. Each change is sent at once and comes back from the daemon; what is shown is what the daemon says.
 */

/** @import { Context } from './panel.js' */
/** @import { CallerGrants, Tool } from '../rpc.d.ts' */
import { element } from '../aiui/element.js';
import { visibleName, visibleText } from '../aiui/untrusted.js';
import { said, select } from './form.js';
import { whenOver } from './units.js';

/** The ten, in the contract's order, with what they open. @type {[string, string][]} */
export const CATEGORIES = [
  ['apps', 'programs and services of this machine'], ['system', 'state of this machine: disks, load, uptime'],
  ['network', 'what is on the network'], ['wallet', 'the wallet'], ['files', 'files in the allowed folders'],
  ['media', 'music and pictures'], ['search', 'searching documents and the web'], ['ai_local', 'other local models'],
  ['notes', 'notes'], ['bitcoin', 'the Bitcoin node'],
];
const HOUR = 3_600_000;
/** @type {[string, string, number][]} */
const LIMITS = [['', 'no time limit', 0], ['1h', 'for 1 hour', HOUR], ['1d', 'for 1 day', 24 * HOUR], ['7d', 'for 1 week', 168 * HOUR]];
/** @type {[string, string][]} */
const MODES = [['', 'as usual'], ['always', 'always'], ['ask', 'ask'], ['never', 'never']];

/** Where a caller's grants come from. */
export const SOURCES = new Map([
  ['default', 'the default'], ['configuration', 'from the configuration'], ['grants.json', 'set here; wins over the configuration'],
]);

/**
 * @param {Context} context
 * @param {CallerGrants} grants
 * @param {Tool[]} tools
 * @returns {HTMLElement}
 */
export function grantsEditor(context, grants, tools) {
  const now = context.client.now();
  const list = element('ul', { class: 'grants' });
  const given = new Map((grants.categories ?? []).map((grant) => [grant.category, grant]));
  const known = [...CATEGORIES.map(([name]) => name), ...[...given.keys()].filter((name) => !CATEGORIES.some(([known]) => known === name))];
  for (const category of known) list.append(categoryRow(context, grants, category, given.get(category), tools, now));
  const changes = (grants.history ?? []).slice(-5).reverse();
  return element(
    'div', { class: 'grants-block' },
    element('p', { class: 'fine' }, `These are ${SOURCES.get(grants.source) ?? visibleName(grants.source)}.${grants.in_force === false ? ' They do not count until the key is confirmed.' : ''}`),
    list,
    changes.length > 0 && element(
      'details', { 'data-key': `${idOf(grants.caller)}-changes` },
      element('summary', {}, 'Last changes'),
      element('ul', { class: 'plain-list fine' }, ...changes.map((change) => element('li', {}, changeLine(change)))),
    ),
  );
}

/**
 * @param {Context} context
 * @param {CallerGrants} grants
 * @param {string} category
 * @param {{ until?: number } | undefined} given
 * @param {Tool[]} tools
 * @param {number} now
 */
function categoryRow(context, grants, category, given, tools, now) {
  const explained = CATEGORIES.find(([name]) => name === category)?.[1] ?? '';
  const id = `${idOf(grants.caller)}-${idOf(category)}`;
  const line = element('p', { class: 'field-error', role: 'alert' });
  const change = setter(context, grants.caller, line);
  const box = element('input', {
    type: 'checkbox', id, checked: given !== undefined, disabled: !context.operator, 'data-key': id, 'aria-describedby': `${id}-what`,
  });
  box.addEventListener('change', async () => {
    if (!(await change({ category, granted: box.checked }))) box.checked = !box.checked;
  });
  const left = given?.until ? given.until - now : 0;
  const limit = select(LIMITS.map(([value, word]) => [value, word]), '', { 'aria-label': `Time limit of ${category}`, 'data-key': `${id}-until` });
  if (left > 0) {
    limit.prepend(element('option', { value: 'kept', selected: true }, whenOver(given?.until ?? 0, now)));
    limit.value = 'kept';
  }
  limit.disabled = given === undefined || !context.operator;
  limit.addEventListener('change', async () => {
    const ms = LIMITS.find(([value]) => value === limit.value)?.[2] ?? 0;
    const before = left > 0 ? 'kept' : '';
    if (!(await change({ category, granted: true, ...(ms > 0 ? { until: context.client.now() + ms } : {}) }))) limit.value = before;
  });
  const own = tools.filter((tool) => tool.category === category);
  return element(
    'li', { class: given === undefined ? 'grant' : 'grant given' },
    element('div', { class: 'grant-head' }, box, element('label', { for: id }, visibleName(category)), element('span', { class: 'fine', id: `${id}-what` }, explained), limit),
    line,
    own.length > 0 && element(
      'details', { class: 'grant-tools', 'data-key': `${id}-tools` },
      element('summary', {}, `${own.length} ${own.length === 1 ? 'tool' : 'tools'}${modesLine(grants, own)}`),
      element('ul', {}, ...own.map((tool) => toolRow(context, grants, tool))),
    ),
  );
}

/**
 * @param {Context} context
 * @param {CallerGrants} grants
 * @param {Tool} tool
 */
function toolRow(context, grants, tool) {
  const line = element('p', { class: 'field-error', role: 'alert' });
  const change = setter(context, grants.caller, line);
  const mode = (grants.tools ?? []).find((set) => set.tool === tool.name)?.mode ?? '';
  const id = `${idOf(grants.caller)}-${idOf(tool.name)}`;
  const usual = tool.destructive ? 'as usual: ask' : 'as usual: always';
  const choice = select(MODES.map(([value, word]) => [value, value === '' ? usual : word]), mode, { id, 'data-key': id });
  choice.disabled = !context.operator;
  choice.addEventListener('change', async () => {
    if (!(await change({ tool: tool.name, mode: choice.value || null }))) choice.value = mode;
  });
  return element(
    'li', {},
    element('div', { class: 'tool-head' }, element('label', { for: id, class: 'mono' }, visibleName(tool.name, 80)), choice),
    element('p', { class: 'fine' }, visibleText(tool.description, 160)),
    line,
  );
}

/**
 * What sets something for that caller; it says a refusal in `line` and gives false.
 * @param {Context} context
 * @param {string} caller
 * @param {HTMLElement} line
 */
function setter(context, caller, line) {
  return async (/** @type {Record<string, unknown>} */ wish) => {
    line.textContent = '';
    try {
      const result = await context.client.call('assistant.grants-set', { caller, ...wish });
      if (Array.isArray(result?.callers)) context.feed.put('grants', result.callers);
      context.feed.refresh('grants', 'assistant', 'tools', 'pending');
      return true;
    } catch (failure) {
      line.textContent = said(failure);
      return false;
    }
  };
}

/**
 * @param {CallerGrants} grants
 * @param {Tool[]} tools
 */
function modesLine(grants, tools) {
  const set = (grants.tools ?? []).filter(({ tool }) => tools.some(({ name }) => name === tool));
  return set.length === 0 ? '' : `: ${set.map(({ tool, mode }) => `${visibleName(tool, 40)} ${visibleName(mode)}`).join(', ')}`;
}

/** @param {import('../rpc.d.ts').GrantChange} change */
function changeLine({ at, category, granted, tool, mode, until }) {
  const what = category !== undefined
    ? `${visibleName(category)} ${granted ? 'given' : 'taken'}`
    : `${visibleName(tool, 60)}: ${mode === null || mode === undefined ? 'as usual' : visibleName(mode)}`;
  return `${new Date(at).toLocaleString()}: ${what}${until ? `, until ${new Date(until).toLocaleString()}` : ''}`;
}

/** @param {string} text */
export function idOf(text) {
  let made = 'g';
  for (const character of text) made += /[A-Za-z0-9_-]/.test(character) ? character : `.${(character.codePointAt(0) ?? 0).toString(16)}`;
  return made;
}
