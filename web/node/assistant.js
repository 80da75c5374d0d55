/**
 * The assistant panel: who is answered, by which legs, and what waits.
 *
 * Owns how the legs and the queue are said. Chooses no leg.
 */

/** @import { Panel } from './panel.js' */
/** @import { AssistantStatus, CloudUse, Leg } from '../rpc.d.ts' */
import { element } from '../aiui/element.js';
import { visibleName, visibleText } from '../aiui/untrusted.js';
import { legName } from '../aiui/legs.js';
import { ageOf, badge, facts, panel } from './panel.js';
import { bytes, duration } from './units.js';

/** @type {Map<string, 'good' | 'wait' | 'bad'>} */
const TONES = new Map([
  ['ready', 'good'], ['resting', 'wait'], ['failing', 'bad'],
]);


/** @returns {Panel} */
export function assistantPanel() {
  return panel(
    'assistant',
    'Assistant',
    ({ status, assistant }) =>
      assistant && {
        assistant: { ...assistant, allowed_contacts: [] },
        queue: status && [status.turns_running, status.turns_waiting, status.parts_waiting, status.kept_answers],
      },
    ({ assistant, queue }, body, extra) => {
      extra.append(assistant.enabled ? badge('good', 'answers peers') : badge('plain', 'peers are not answered'));
      body.append(legList(assistant));
      if (assistant.cloud) body.append(leftForCloud(assistant.cloud));
      if (queue !== null) body.append(queueStrip(queue));
      body.append(
        facts([
          ['Trigger', element('code', {}, visibleName(assistant.trigger))],
          ['Answers', assistant.trusted_only ? 'contacts only' : 'everyone; strangers without tools'],
          ['Channels', (assistant.channels ?? []).map((name) => visibleName(name)).join(', ') || 'none, direct messages only'],
          ['Refused', (assistant.denied_askers ?? []).map((name) => visibleName(name)).join(', ')],
        ]),
      );
    },
  );
}

/** @param {AssistantStatus} assistant */
function legList(assistant) {
  const list = element('ul', { class: 'legs', 'aria-label': 'Models, in the order in which they are asked' });
  for (const leg of assistant.legs ?? legsOfOld(assistant)) {
    const word = visibleName(leg.state, 24).replaceAll('_', ' ');
    list.append(
      element(
        'li',
        {},
        element('span', { class: 'leg-name' }, capital(legName(leg.name))),
        badge(TONES.get(leg.state) ?? 'plain', leg.rests_for_s ? `${word}, ${duration(leg.rests_for_s * 1000)}` : word),
        leg.name === 'ollama' && (assistant.models ?? []).length > 0 && models(assistant),
        typeof leg.median_ms === 'number' && element('span', { class: 'leg-detail' }, leg.median_ms < 1000 ? 'answers within a second' : `answers in about ${duration(leg.median_ms)}`),
        leg.reason && element('span', { class: 'leg-detail' }, visibleText(leg.reason, 200)),
      ),
    );
  }
  return list;
}

/**
 * The one that is asked first; the others are only there.
 * @param {AssistantStatus} assistant
 */
function models({ models, model }) {
  const name = model?.name;
  const others = models.filter((other) => other !== name).length;
  return element(
    'span', { class: 'leg-detail mono' },
    name ? `${visibleName(name, 60)}${others > 0 ? `, ${others} more` : ''}` : models.map((other) => visibleName(other, 60)).join(', '),
  );
}

/**
 * What left for a cloud must be seen, and that nothing did.
 * @param {CloudUse} use
 */
function leftForCloud({ requests_24h: requests, bytes_24h: sent, last }) {
  if (requests === 0) return element('p', { class: 'fine' }, 'Nothing left for a cloud in the last 24 hours.');
  return element(
    'p', { class: 'callout wait' },
    `Left for a cloud in 24 hours: ${requests} ${requests === 1 ? 'request' : 'requests'}, ${bytes(sent)}.`,
    last && element(
      'span', {}, ` Last `, ageOf(last.at), ` to ${legName(String(last.leg))}: ${(last.content ?? []).map((part) => visibleName(part)).join(', ')}.`,
    ),
  );
}

/**
 * Without a list of legs, the two flags say as much as they can.
 * @param {AssistantStatus} assistant
 * @returns {Leg[]}
 */
function legsOfOld(assistant) {
  return [
    { name: 'ollama', state: assistant.ollama_detected ? 'ready' : 'failing' },
    { name: 'claude', state: assistant.claude_available ? 'ready' : 'unavailable' },
  ];
}

/** @param {number[]} queue */
function queueStrip([running = 0, waiting = 0, parts = 0, kept = 0]) {
  const strip = element('dl', { class: 'strip' });
  for (const [term, count] of /** @type {[string, number][]} */ ([
    ['answering', running], ['waiting', waiting], ['parts to send', parts], ['kept answers', kept],
  ])) {
    strip.append(element('div', { class: count > 0 ? 'some' : '' }, element('dt', {}, term), element('dd', {}, String(count))));
  }
  return strip;
}

/** @param {string} text */
function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
