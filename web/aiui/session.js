/**
 * Gets the operator in: the log-in form, and the set-up form of the first start.
 *
 * Owns which of them is shown and what it says when it fails. Keeps no password: it goes from the field to
 * the daemon, and the field is emptied. Used by the node page and by the chat on its own.
 */

/** @import { RpcClient } from './rpc.js' */
import { element } from './element.js';
import { RpcFailure } from './rpc.js';

/** The daemon decides what a good password is; this only spares a round trip. */
const MIN_PASSWORD_CHARS = 8;
const SVG = 'http://www.w3.org/2000/svg';

/**
 * Resolves once there is a session. Shows what is needed for that in `place`, and empties it again.
 * @param {RpcClient} client
 * @param {HTMLElement} place
 * @param {{ notice?: string }} [options] `notice` is said above the form, for instance that the session has ended
 * @returns {Promise<boolean>} true when the password was set just now: the first start
 */
export async function enter(client, place, options = {}) {
  const token = setupToken();
  let notice = options.notice ?? '';
  if (token !== null) {
    const done = await shown(place, setupForm(client, token));
    if (done) return true;
    notice = 'This node is set up already. Log in with its password.';
  }
  const known = await untilReached(client, place);
  if (known) return false;
  if (client.needsSetup) notice = 'This node has no password yet. Open the set-up link that the daemon printed at its start.';
  await shown(place, loginForm(client, notice));
  return false;
}

/**
 * Reads `#setup=` and takes it out of the address and the tab's history at once. A fragment is never sent to a
 * server, so the token is in no log; `?setup=` is understood for those who typed it so.
 * @returns {string | null}
 */
function setupToken() {
  // `#setup` alone is the node page's own view.
  const token = new URLSearchParams(location.hash.slice(1)).get('setup') || new URLSearchParams(location.search).get('setup') || null;
  if (token !== null) history.replaceState(null, '', location.pathname);
  return token;
}

/**
 * Asks who we are until the node answers at all.
 * @param {RpcClient} client
 * @param {HTMLElement} place
 * @returns {Promise<boolean>}
 */
async function untilReached(client, place) {
  for (let wait = 1000; ; wait = Math.min(wait * 2, 8000)) {
    try {
      const known = await client.whoami();
      place.replaceChildren();
      return known;
    } catch (failure) {
      place.replaceChildren(
        card('The node does not answer', element('p', { role: 'status' }, `${said(failure)} Trying again.`)),
      );
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }
}

/**
 * @param {HTMLElement} place
 * @param {{ card: HTMLElement, focus: HTMLElement, done: Promise<boolean> }} form
 * @returns {Promise<boolean>} true when there is a session
 */
async function shown(place, form) {
  place.replaceChildren(form.card);
  form.focus.focus();
  const done = await form.done;
  place.replaceChildren();
  return done;
}

/**
 * @param {RpcClient} client
 * @param {string} notice
 */
function loginForm(client, notice) {
  const password = passwordField('password', 'Password', 'current-password');
  const form = formOf('Log in', [password]);
  form.say(notice, false);
  const done = submitted(form, async () => {
    if (password.input.value === '') {
      password.fail('Enter the operator’s password, or the viewer’s.');
      return false;
    }
    try {
      await client.login(password.input.value);
      return true;
    } catch (failure) {
      if (failure instanceof RpcFailure && failure.kind === 'refused') {
        password.fail(said(failure));
      } else {
        form.say(said(failure), true);
      }
      password.input.select();
      return false;
    } finally {
      if (client.loggedIn) password.input.value = '';
    }
  });
  return { card: card('Log in to this node', form.element), focus: password.input, done };
}

/**
 * @param {RpcClient} client
 * @param {string} token
 */
function setupForm(client, token) {
  const first = passwordField('new-password', 'New password', 'new-password');
  const second = passwordField('repeat-password', 'Once more', 'new-password');
  const form = formOf('Set password', [first, second]);
  const done = submitted(form, async () => {
    if (first.input.value.length < MIN_PASSWORD_CHARS) {
      first.fail(`Use at least ${MIN_PASSWORD_CHARS} characters.`);
      return false;
    }
    if (first.input.value !== second.input.value) {
      second.fail('The two differ.');
      return false;
    }
    try {
      await client.setup(token, first.input.value);
      first.input.value = '';
      second.input.value = '';
      return true;
    } catch (failure) {
      const name = failure instanceof RpcFailure ? failure.data.name : null;
      if (name === 'set_up_already') return 'elsewhere';
      if (name === 'invalid_params') first.fail(said(failure));
      else form.say(said(failure), true);
      return false;
    }
  });
  const intro = element(
    'p',
    { class: 'quiet' },
    'Choose the operator’s password. The link that brought you here works once; the daemon keeps only a slow hash of the password.',
  );
  return { card: card('Set up this node', intro, form.element), focus: first.input, done };
}

/**
 * @param {string} title
 * @param {...HTMLElement} content
 */
function card(title, ...content) {
  return element(
    'div',
    { class: 'entry-card' },
    element('div', { class: 'entry-mark' }, mark(), element('span', {}, 'Tombolo')),
    element('h1', {}, title),
    ...content,
  );
}

/** Two islands and the strip of sand between them. */
export function mark() {
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('viewBox', '0 0 32 20');
  svg.setAttribute('class', 'mark');
  svg.setAttribute('aria-hidden', 'true');
  for (const [kind, d] of [
    ['mark-sand', 'M10 5.5C14 9.4 18.5 9.8 24 7.4v7.4C18.5 12.4 14 12.8 10 16.5z'],
    ['mark-land', 'M1 11.2C1 6.4 4.4 3 8.2 3S14 6.2 13.4 10.6 9.6 18 6.4 17.4 1 14.8 1 11.2z'],
    ['mark-land', 'M20.6 11.2c0-2.9 1.9-5 4.9-5S31 8.3 31 11.2s-2.3 4.9-5.3 4.9-5.1-2-5.1-4.9z'],
  ]) {
    const path = document.createElementNS(SVG, 'path');
    path.setAttribute('class', String(kind));
    path.setAttribute('d', String(d));
    svg.append(path);
  }
  return svg;
}

/**
 * @param {string} id
 * @param {string} label
 * @param {AutoFill} autocomplete
 */
function passwordField(id, label, autocomplete) {
  const input = element('input', {
    id,
    type: 'password',
    name: id,
    autocomplete,
    required: true,
    maxlength: 1024,
    'aria-describedby': `${id}-error`,
  });
  // Always there, so that the line is announced when it fills.
  const error = element('p', { id: `${id}-error`, class: 'field-error', role: 'alert' });
  const field = element('div', { class: 'field' }, element('label', { for: id }, label), input, error);
  input.addEventListener('input', () => {
    error.textContent = '';
    input.removeAttribute('aria-invalid');
  });
  return {
    element: field,
    input,
    /** @param {string} line */
    fail(line) {
      error.textContent = line;
      input.setAttribute('aria-invalid', 'true');
      input.focus();
    },
  };
}

/**
 * @param {string} action
 * @param {{ element: HTMLElement }[]} fields
 */
function formOf(action, fields) {
  const line = element('p', { class: 'form-line', role: 'status' });
  const button = element('button', { type: 'submit', class: 'primary' }, action);
  const made = element(
    'form',
    { method: 'post', novalidate: true },
    line,
    // Password managers file a password under a name.
    element('input', {
      type: 'text', name: 'username', value: 'operator', autocomplete: 'username', readonly: true, hidden: true,
    }),
    ...fields.map((field) => field.element),
    button,
  );
  return {
    element: made,
    button,
    /**
     * @param {string} text
     * @param {boolean} failed
     */
    say(text, failed) {
      line.textContent = text;
      line.classList.toggle('failed', failed);
    },
  };
}

/**
 * Resolves once `attempt` has succeeded (true), or has found that another form is the right one (false).
 * @param {ReturnType<typeof formOf>} form
 * @param {() => Promise<boolean | 'elsewhere'>} attempt
 * @returns {Promise<boolean>}
 */
function submitted(form, attempt) {
  return new Promise((resolve) => {
    let running = false;
    form.element.addEventListener('submit', async (event) => {
      event.preventDefault();
      if (running) return;
      running = true;
      form.say('', false);
      // Not `disabled`: that would take the keyboard's place away.
      form.button.setAttribute('aria-disabled', 'true');
      const outcome = await attempt();
      form.button.removeAttribute('aria-disabled');
      running = false;
      if (outcome !== false) resolve(outcome === true);
    });
  });
}

/**
 * @param {unknown} failure
 * @returns {string}
 */
function said(failure) {
  return failure instanceof RpcFailure ? failure.message : 'That did not work.';
}
