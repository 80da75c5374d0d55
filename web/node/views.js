/**
 * The views of the page and the way between them: which is shown, and that one which is not open costs nothing.
 *
 * Owns the navigation, the address (`#log`) and the loading of a view's module at its first opening.
 */

/** @import { Context } from './panel.js' */
/** @import { Snapshot } from './parts.js' */
import { byId, element } from '../aiui/element.js';

/**
 * What a view's module gives: its element, and what to do when there is news. `opened` is called each time it is shown.
 * @typedef {{ element: HTMLElement, show: (snapshot: Snapshot) => void, opened?: () => void, closed?: () => void }} View
 */

/**
 * Names, words, and where the view comes from; `chat` and `status` are part of the page itself. One that changes nothing
 * but the chat is for viewers too.
 * @type {[string, string, (() => Promise<(context: Context) => View>) | null, ('operator')?][]}
 */
const VIEWS = [
  ['chat', 'Chat', null, 'operator'],
  ['status', 'Status', null],
  ['contacts', 'Contacts', async () => (await import('./people.js')).peopleView],
  ['log', 'Log', async () => (await import('./log.js')).logView],
  ['history', 'History', async () => (await import('./history.js')).historyView],
  ['settings', 'Node', async () => (await import('./settings.js')).settingsView],
];
const SETUP = async () => (await import('./setup.js')).setupView;

export class Views {
  /** @type {Context} */
  #context;
  /** @type {Map<string, View>} */
  #loaded = new Map();
  /** @type {Map<string, HTMLButtonElement>} */
  #buttons = new Map();
  #page = byId('node', HTMLElement);
  #pane = byId('view-pane', HTMLElement);
  #open = '';
  #ended = new AbortController();

  /** @param {Context} context */
  constructor(context) {
    this.#context = context;
    const nav = byId('views', HTMLElement);
    nav.replaceChildren();
    for (const [name, word, , forWhom] of VIEWS) {
      if (forWhom === 'operator' && !context.operator) continue;
      const button = element('button', { type: 'button', id: `view-${name}` }, word);
      button.addEventListener('click', () => void this.open(name));
      this.#buttons.set(name, button);
      nav.append(button);
    }
    window.addEventListener('hashchange', () => void this.open(this.#addressed()), { signal: this.#ended.signal });
    void this.open(this.#addressed());
  }

  get current() {
    return this.#open;
  }

  /** @param {string} name */
  async open(name) {
    if (name === this.#open || (!this.#buttons.has(name) && name !== 'setup')) return;
    this.#loaded.get(this.#open)?.closed?.();
    this.#open = name;
    this.#page.dataset.view = name;
    for (const [other, button] of this.#buttons) {
      if (other === name) button.setAttribute('aria-current', 'page');
      else button.removeAttribute('aria-current');
    }
    const address = name === this.#first() ? '' : `#${name}`;
    if (location.hash !== address) history.replaceState(null, '', `${location.pathname}${location.search}${address}`);
    const load = name === 'setup' ? SETUP : VIEWS.find(([known]) => known === name)?.[2];
    for (const [other, view] of this.#loaded) view.element.hidden = other !== name;
    if (!load) return;
    const view = this.#loaded.get(name) ?? (await this.#load(name, load));
    if (view === null || this.#open !== name) return;
    view.opened?.();
    view.show(this.#context.feed.snapshot);
  }

  /**
   * @param {string} name
   * @param {() => Promise<(context: Context) => View>} load
   * @returns {Promise<View | null>}
   */
  async #load(name, load) {
    this.#pane.setAttribute('aria-busy', 'true');
    const fault = element('p', { class: 'view-fault', role: 'alert' }, 'This view could not be loaded. Reload the page.');
    this.#pane.querySelector('.view-fault')?.remove();
    try {
      styled();
      const make = await load();
      // Two openings while it was on its way are one.
      const view = this.#loaded.get(name) ?? make(this.#context);
      if (this.#ended.signal.aborted) return null;
      this.#loaded.set(name, view);
      view.element.hidden = this.#open !== name;
      this.#pane.append(view.element);
      return view;
    } catch {
      this.#pane.append(fault);
      return null;
    } finally {
      this.#pane.removeAttribute('aria-busy');
    }
  }

  /** @param {Snapshot} snapshot */
  show(snapshot) {
    this.#loaded.get(this.#open)?.show(snapshot);
  }

  end() {
    this.#loaded.get(this.#open)?.closed?.();
    this.#ended.abort();
    this.#pane.replaceChildren();
    byId('views', HTMLElement).replaceChildren();
  }

  #first() {
    return this.#context.operator ? 'chat' : 'status';
  }

  #addressed() {
    const name = location.hash.slice(1);
    return this.#buttons.has(name) || (name === 'setup' && this.#context.operator) ? name : this.#first();
  }
}

/** The style of the views comes with the first of them. */
function styled() {
  if (document.getElementById('views-style') !== null) return;
  document.head.append(element('link', { id: 'views-style', rel: 'stylesheet', href: '/views.css' }));
}
