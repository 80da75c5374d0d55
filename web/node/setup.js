/**
 * The set-up of the first start: radio, model, first contact, a question, and what is allowed then.
 *
 * Owns the steps and how each is judged. It can be left at any point and gone on with later; nothing waits for it.
 */

/** @import { Context } from './panel.js' */
/** @import { Snapshot } from './parts.js' */
/** @import { View } from './views.js' */
import { byId, element } from '../aiui/element.js';
import { visibleName, visibleText } from '../aiui/untrusted.js';
import { legName } from '../aiui/legs.js';
import { Pairing } from './adding.js';
import { form, textField } from './form.js';
import { radioCard } from './keys.js';
import { badge, facts } from './panel.js';
import { keepProgress, progress } from './progress.js';
import { nodeName } from './radio.js';
import { modelChoice } from './settings.js';
import { allowedNow } from './summary.js';
import { airSeconds, duration } from './units.js';

/** Older firmware accepts direct messages that lost their encryption. */
const LEAST_FIRMWARE = [2, 7, 15];
const QUESTION = 'How much disk space is left?';
const CHAT_MS = 185_000;

/** @typedef {{ title: string, lead: string, element: HTMLElement, show: (snapshot: Snapshot) => void, done: (snapshot: Snapshot) => boolean }} Step */

/**
 * @param {Context} context
 * @returns {View}
 */
export function setupView(context) {
  const steps = [radioStep(context), modelStep(context), contactStep(context), questionStep(context, () => draw()), summaryStep()];
  let at = Math.min(progress().step, steps.length - 1);
  const list = element('ol', { class: 'steps' });
  const heading = element('h3', { tabindex: -1 });
  const lead = element('p', { class: 'quiet' });
  const place = element('div', { class: 'step-body' });
  const back = element('button', { type: 'button' }, 'Back');
  const next = element('button', { type: 'button', class: 'primary' });
  /** @type {Snapshot} */
  let latest = context.feed.snapshot;

  const go = (/** @type {number} */ to) => {
    at = to;
    keepProgress({ open: true, step: at });
    draw();
    heading.focus();
  };
  const draw = () => {
    const step = steps[at];
    if (step === undefined) return;
    heading.textContent = step.title;
    lead.textContent = step.lead;
    if (place.firstElementChild !== step.element) place.replaceChildren(step.element);
    step.show(latest);
    back.hidden = at === 0;
    const last = at === steps.length - 1;
    next.textContent = last ? 'To the node' : step.done(latest) ? 'Continue' : 'Skip for now';
    next.classList.toggle('primary', last || step.done(latest));
    list.replaceChildren(...steps.map((step, n) => {
      const done = step.done(latest);
      return element(
        'li', { class: n === at ? 'here' : '', 'aria-current': n === at ? 'step' : null },
        element('span', { class: `step-mark ${done ? 'good' : ''}`, 'aria-hidden': 'true' }, done ? '✓' : String(n + 1)),
        step.title, done && element('span', { class: 'visually-hidden' }, ' (done)'),
      );
    }));
  };
  back.addEventListener('click', () => go(at - 1));
  next.addEventListener('click', () => {
    if (at < steps.length - 1) return go(at + 1);
    keepProgress({ open: false, step: 0 });
    context.open('chat');
    byId('view-chat', HTMLButtonElement).focus();
  });

  /** @type {() => void} */
  let unwatch = () => {};
  return {
    element: element(
      'div', { class: 'view setup-view' },
      element('div', { class: 'view-head' }, element('h2', {}, 'Set up this node')),
      list, element('section', { class: 'step' }, heading, lead, place, element('div', { class: 'step-end' }, back, next)),
    ),
    opened() {
      at = Math.min(progress().step, steps.length - 1);
      unwatch = context.feed.watch('grants');
    },
    closed: () => unwatch(),
    show(snapshot) {
      latest = snapshot;
      draw();
    },
  };
}

/**
 * @param {Context} context
 * @returns {Step}
 */
function radioStep(context) {
  const place = element('div', { class: 'step-parts' });
  let written = '';
  return {
    title: 'Radio',
    lead: 'A Meshtastic radio on USB or on the network. Without one the assistant answers at this page alone.',
    element: place,
    done: ({ status }) => status?.connected === true && regionSet(status.region),
    show({ status }) {
      const now = JSON.stringify(status && [status.connected, status.link, status.owner, status.my_node, status.region, status.firmware, status.modem, status.refused_radio, status.airtime.limit_ms]);
      if (now === written) return;
      written = now;
      if (status === null) return place.replaceChildren(element('p', { class: 'quiet' }, 'Asking…'));
      place.replaceChildren(
        judged(status.connected ? 'good' : 'bad', status.connected ? 'A radio is connected' : 'No radio is connected', visibleText(status.link, 200)),
        status.refused_radio ? radioCard(context, status.refused_radio) : '',
        ...(status.connected ? [
          facts([['Node', status.my_node && nodeName(status.owner, status.my_node)], ['Modem', visibleName(status.modem)]]),
          regionSet(status.region)
            ? judged('good', `Region ${visibleName(status.region)}`, status.airtime.limit_ms === null ? '' : `The law allows ${airSeconds(status.airtime.limit_ms)} s of sending in an hour; it is kept.`)
            : judged('bad', 'The region is not set', 'Nothing is sent until it is: set it in the Meshtastic app, or as radio.settings.region in the configuration and with “tombolo radio apply”.'),
          firmwareJudged(status.firmware),
        ] : [element('p', { class: 'small' }, 'Plug one in; it is found by itself. On Linux the udev rules give it its name and rights: “tombolo udev” prints them, “tombolo check” says what is missing.')]),
      );
    },
  };
}

/** @param {string} region */
function regionSet(region) {
  return region !== '' && !/^unset$/i.test(region);
}

/** @param {string} firmware */
function firmwareJudged(firmware) {
  const numbers = (/^\D*(\d+)\.(\d+)\.(\d+)/.exec(firmware) ?? []).slice(1).map(Number);
  const name = visibleName(firmware) || 'unknown';
  if (numbers.length < 3) return judged('wait', `Firmware ${name}`, 'Its version could not be read; 2.7.15 or newer is needed.');
  const older = LEAST_FIRMWARE.reduce((order, least, n) => order || (numbers[n] ?? 0) - least, 0) < 0;
  return older
    ? judged('bad', `Firmware ${name} is too old`, 'It accepts direct messages that lost their encryption. Install 2.7.15 or newer.')
    : judged('good', `Firmware ${name}`, '');
}

/**
 * @param {Context} context
 * @returns {Step}
 */
function modelStep(context) {
  const place = element('div', { class: 'step-parts' });
  let written = '';
  return {
    title: 'Model',
    lead: 'Questions go to a model on your own machine first.',
    element: place,
    done: ({ assistant }) => assistant !== null && assistant.ollama_detected && (assistant.models ?? []).length > 0 && (!assistant.model || assistant.models.includes(assistant.model.name)),
    show({ assistant }) {
      const now = JSON.stringify(assistant && [assistant.models, assistant.model, assistant.ollama_detected, assistant.legs]);
      if (now === written) return;
      written = now;
      if (assistant === null) return place.replaceChildren(element('p', { class: 'quiet' }, 'Asking…'));
      const leg = (assistant.legs ?? []).find(({ name }) => name === 'ollama');
      place.replaceChildren(
        judged(
          assistant.ollama_detected ? 'good' : 'bad', assistant.ollama_detected ? 'Ollama answers' : 'Ollama does not answer',
          assistant.ollama_detected ? (leg?.reason ? visibleText(leg.reason, 200) : '') : 'Install and start it, or set assistant.ollama.url in the configuration. This page notices by itself.',
        ),
        modelChoice(context, assistant),
      );
    },
  };
}

/**
 * @param {Context} context
 * @returns {Step}
 */
function contactStep(context) {
  const have = element('div', {});
  const pairing = new Pairing(context, () => {});
  let written = '';
  return {
    title: 'First contact',
    lead: 'Who may ask over the mesh? A code that only you two know ties the name to the key of the device.',
    element: element('div', { class: 'step-parts' }, have, pairing.element),
    done: ({ assistant }) => (assistant?.allowed_contacts ?? []).some(({ pin }) => pin === 'configured' || pin === 'confirmed'),
    show({ assistant, status }) {
      const contacts = assistant?.allowed_contacts ?? [];
      pairing.show({ contacts, trigger: assistant?.trigger ?? '!ai', owner: status?.owner ?? '', node: status?.my_node ?? null });
      const now = JSON.stringify(contacts.map(({ id, name, pin, fingerprint }) => [id, name, pin, fingerprint]));
      if (now === written) return;
      written = now;
      have.replaceChildren(...contacts.map(({ id, name, pin, fingerprint }) => judged(
        pin === 'configured' || pin === 'confirmed' ? 'good' : 'wait', `${visibleName(name)} ${visibleName(id)}`,
        fingerprint ? `${pin === 'unconfirmed' ? 'Compare the fingerprint: ' : ''}${visibleName(fingerprint, 120)}` : 'No key yet.',
      )));
    },
  };
}

/**
 * @param {Context} context
 * @param {() => void} changed
 * @returns {Step}
 */
function questionStep(context, changed) {
  const field = textField('text', 'A first question', { value: QUESTION, maxlength: 400 });
  const answer = element('div', { class: 'first-answer', role: 'status' });
  let answered = false;
  const made = form('Ask', [field], async () => {
    answer.replaceChildren(element('p', { class: 'quiet' }, 'Thinking. The first answer takes longest: the model is being loaded.'));
    const began = Date.now();
    try {
      const result = await context.client.call('assistant.chat', { text: field.input.value.trim() || QUESTION }, { timeoutMs: CHAT_MS });
      answered = result.status === undefined || result.status === 'answered';
      context.chatChanged();
      changed();
      answer.replaceChildren(
        element('p', { class: 'first-text', dir: 'auto' }, visibleText(result.text, 4000)),
        element('p', { class: 'fine' }, answered ? badge('good', `${legName(String(result.backend))} answered in ${duration(Date.now() - began)}`) : badge('bad', 'no model answered')),
      );
    } catch (failure) {
      answer.replaceChildren();
      throw failure;
    }
  });
  return {
    title: 'Test question',
    lead: 'The same assistant that will answer the mesh. It stays in your conversation.',
    element: element('div', { class: 'step-parts' }, made, answer),
    done: () => answered,
    show() {},
  };
}

/** @returns {Step} */
function summaryStep() {
  const place = element('div', { class: 'step-parts' });
  let written = '';
  return {
    title: 'What is allowed',
    lead: 'This is what holds from now on. All of it can be changed under Contacts and Node.',
    element: place,
    done: () => false,
    show(snapshot) {
      const now = JSON.stringify([snapshot.assistant, snapshot.grants, snapshot.status?.airtime.share_ms]);
      if (now === written) return;
      written = now;
      place.replaceChildren(allowedNow(snapshot));
    },
  };
}

/**
 * @param {'good' | 'wait' | 'bad'} tone
 * @param {string} what
 * @param {string} why
 */
function judged(tone, what, why) {
  return element('div', { class: 'judged' }, badge(tone, what), why !== '' && element('p', { class: 'small quiet' }, why));
}

