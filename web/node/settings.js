/**
 * The node view: what is allowed now, the switches of the assistant, who is logged in, what runs.
 *
 * Owns the switches and the sessions. A viewer sees the same without anything to press.
 */

/** @import { Context } from './panel.js' */
/** @import { Snapshot } from './parts.js' */
/** @import { AssistantStatus, Session } from '../rpc.d.ts' */
/** @import { View } from './views.js' */
import { element } from '../aiui/element.js';
import { visibleName, visibleText } from '../aiui/untrusted.js';
import { act, FieldError, form, said, selectField, textField } from './form.js';
import { grantsEditor } from './grants.js';
import { carryOver, focusedKey, focusKey, keyed } from './keyed.js';
import { notice } from './notice.js';
import { ageOf, badge, callout, facts, fingerprint } from './panel.js';
import { configure } from './people.js';
import { keepProgress } from './progress.js';
import { allowedNow } from './summary.js';
import { duration } from './units.js';

const MIN_PASSWORD_CHARS = 8;

/**
 * @param {Context} context
 * @returns {View}
 */
export function settingsView(context) {
  const allowed = drawnPart((snapshot) => [snapshot.assistant, snapshot.status?.airtime.share_ms, snapshot.grants], allowedNow);
  const switches = drawnPart(
    ({ assistant }) => assistant && [assistant.enabled, assistant.trusted_only, assistant.model, assistant.models, assistant.ollama_detected],
    ({ assistant }) => element('div', {}, ...(assistant === null ? [] : controls(context, assistant))),
  );
  const sessions = element('ul', { class: 'plain-list rows' });
  const about = drawnPart(
    ({ info, status }) => [info && [info.version, Math.floor(info.uptime_s / 60), info.data_dir], status && [status.firmware, status.fingerprint]],
    ({ info, status }) => facts([
      ['Version', info && visibleName(info.version)],
      ['Up for', info && duration(info.uptime_s * 1000)],
      ['Data', info && element('span', { class: 'mono' }, visibleName(info.data_dir, 200))],
      ['Radio', status && visibleName(status.firmware) && `firmware ${visibleName(status.firmware)}`],
      ['Radio key', fingerprint(status?.fingerprint)],
    ]),
  );
  const own = drawnPart(({ grants, grantsNote, tools }) => [grants?.find(({ caller }) => caller === 'operator'), tools, grantsNote, context.feed.lacks('grants')], ({ grants, grantsNote, tools }) => {
    const mine = grants?.find(({ caller }) => caller === 'operator');
    return mine === undefined
      ? element('p', { class: 'quiet' }, context.feed.lacks('grants') ? 'The grants can’t be seen or changed here.' : 'Asking…')
      : element('div', {}, grantsNote && callout('wait', visibleText(grantsNote, 400)), grantsEditor(context, mine, tools ?? []));
  });
  const again = element('button', { type: 'button' }, 'Go through the set-up again');
  again.addEventListener('click', () => {
    keepProgress({ open: true, step: 0 });
    context.open('setup');
  });
  const sessionsPart = element('section', {}, element('h3', {}, 'Logged in'), sessions, context.operator && passwordForms(context));

  /** @type {() => void} */
  let unwatch = () => {};
  return {
    element: element(
      'div', { class: 'view settings-view' },
      element('div', { class: 'view-head' }, element('h2', {}, 'This node')),
      element('section', {}, element('h3', {}, 'What is allowed now'), allowed.element),
      element('section', {}, element('h3', {}, 'Assistant'), switches.element, context.operator && element('p', {}, again)),
      context.operator && element('section', {}, element('h3', {}, 'What you may use at this page'), own.element),
      context.operator && sessionsPart,
      element('section', {}, element('h3', {}, 'What runs'), about.element),
    ),
    opened: () => void (unwatch = context.feed.watch('grants', 'tools', 'sessions', 'info')),
    closed: () => unwatch(),
    show(snapshot) {
      for (const part of [allowed, switches, own, about]) part.show(snapshot);
      sessionsPart.hidden = context.feed.lacks('sessions');
      keyed(sessions, snapshot.sessions ?? [], ({ id }) => id, (session) => sessionRow(context, session));
    },
  };
}

/**
 * A part that is drawn anew when what it shows has changed.
 * @param {(snapshot: Snapshot) => unknown} pick
 * @param {(snapshot: Snapshot) => HTMLElement} draw
 */
function drawnPart(pick, draw) {
  const place = element('div', {});
  let written = '';
  return {
    element: place,
    /** @param {Snapshot} snapshot */
    show(snapshot) {
      const now = JSON.stringify(pick(snapshot));
      if (now === written) return;
      written = now;
      const made = draw(snapshot);
      const refocus = focusedKey(place);
      carryOver(place, made);
      place.replaceChildren(made);
      if (refocus !== undefined) focusKey(place, refocus);
    },
  };
}

/**
 * @param {Context} context
 * @param {AssistantStatus} assistant
 */
function controls(context, assistant) {
  return [
    toggle(context, 'Peers are answered', 'Off: questions from the mesh are neither taken nor answered. The chat here goes on.', assistant.enabled, (on) => ({ enabled: on })),
    toggle(context, 'Only contacts are answered', 'Off: strangers get answers too, without tools and memory, from one small budget.', assistant.trusted_only, (on) => ({ trusted_only: on })),
    modelChoice(context, assistant),
  ];
}

/**
 * @param {Context} context
 * @param {string} label
 * @param {string} what
 * @param {boolean} on
 * @param {(on: boolean) => Record<string, unknown>} change
 */
function toggle(context, label, what, on, change) {
  const id = `switch-${label.replaceAll(/\W/g, '-').toLowerCase()}`;
  const line = element('p', { class: 'field-error', role: 'alert' });
  const box = element('input', { type: 'checkbox', role: 'switch', id, checked: on, disabled: !context.operator, 'data-key': id, 'aria-describedby': `${id}-what` });
  box.addEventListener('change', async () => {
    line.textContent = '';
    try {
      await configure(context, change(box.checked), '');
    } catch (failure) {
      box.checked = on;
      line.textContent = said(failure);
    }
  });
  return element('div', { class: 'switch' }, box, element('label', { for: id }, label), element('p', { class: 'fine', id: `${id}-what` }, what), line);
}

/**
 * The local model, of those that the model server has.
 * @param {Context} context
 * @param {AssistantStatus} assistant
 */
export function modelChoice(context, { models, model: asked, ollama_detected: there }) {
  const names = models ?? [];
  const model = asked?.name;
  if (names.length === 0) {
    return there
      ? element('p', { class: 'small quiet' }, 'Ollama has no model yet: fetch one with ', element('code', {}, 'ollama pull qwen2.5-coder:7b'))
      : element('p', { class: 'small quiet' }, 'Ollama does not answer.');
  }
  const choices = names.map((name) => /** @type {[string, string]} */ ([name, visibleName(name, 80)]));
  if (model && !names.includes(model)) choices.unshift([model, `${visibleName(model, 80)} (not there)`]);
  if (!model) choices.unshift(['', 'as configured']);
  const field = selectField('model', 'Local model', choices, { value: model ?? '' });
  field.input.disabled = !context.operator;
  field.input.addEventListener('change', async () => {
    if (field.input.value === '') return;
    try {
      await configure(context, { model: field.input.value }, `${field.input.value} is asked from now on.`);
    } catch (failure) {
      field.input.value = model ?? '';
      field.fail(said(failure));
    }
  });
  return field.element;
}

/**
 * @param {Context} context
 * @param {Session} session
 */
function sessionRow(context, session) {
  const where = visibleName(session.address ?? '', 60) || 'unknown address';
  return element(
    'li', {},
    element(
      'div', { class: 'row-head' },
      element('span', {}, visibleName(session.role), ' · ', element('span', { class: 'mono' }, where)),
      session.current ? badge('good', 'this one') : act('End', async () => {
        await context.client.call('auth.revoke', { id: session.id });
        context.feed.refresh('sessions');
        notice('That session is over.');
      }, { class: 'small-button', sure: 'End it now?', key: `end-${session.id}`, name: `End the session from ${where}` }),
    ),
    element('p', { class: 'row-details' }, element('span', {}, 'last seen ', ageOf(session.last_seen)), element('span', {}, 'logged in ', ageOf(session.since))),
  );
}

/** @param {Context} context */
function passwordForms(context) {
  const old = textField('old', 'Your password now', { type: 'password', autocomplete: 'current-password' });
  const own = textField('new', 'New password', { type: 'password', autocomplete: 'new-password' });
  const viewer = textField('new', 'Password for viewers', { type: 'password', autocomplete: 'new-password', hint: 'Whoever logs in with it sees this page and changes nothing. It must differ from yours.' });
  const long = (/** @type {string} */ value) => {
    if (value.length < MIN_PASSWORD_CHARS) throw new FieldError('new', `Use at least ${MIN_PASSWORD_CHARS} characters.`);
  };
  return element(
    'div', { class: 'passwords' },
    element('details', { 'data-key': 'own-password' }, element('summary', {}, 'Change your password'), form('Change it', [old, own], async () => {
      if (old.input.value === '') throw new FieldError('old', 'Enter the password that you have now.');
      long(own.input.value);
      await context.client.call('auth.set-password', { role: 'operator', old: old.input.value, new: own.input.value });
      old.input.value = '';
      own.input.value = '';
      context.feed.refresh('sessions');
      notice('Your password is changed.');
    })),
    element('details', { 'data-key': 'viewer-password' }, element('summary', {}, 'Let others look'), form('Set it', [viewer], async () => {
      long(viewer.input.value);
      await context.client.call('auth.set-password', { role: 'viewer', new: viewer.input.value });
      viewer.input.value = '';
      context.feed.refresh('sessions');
      notice('Viewers can log in with it.');
    }), act('Let nobody look', async () => {
      await context.client.call('auth.set-password', { role: 'viewer', new: null });
      context.feed.refresh('sessions');
      notice('There are no viewers any more.');
    }, { class: 'bare', sure: 'Take their password away?', key: 'no-viewers' })),
  );
}
