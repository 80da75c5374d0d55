/**
 * A chart of bars over hours, as SVG with a table beside it.
 *
 * Owns scale and drawing. The figures are said as well in a title, a description and a table: nobody needs to see it.
 */

import { element } from '../aiui/element.js';

const SVG = 'http://www.w3.org/2000/svg';
const WIDTH = 720;
const HEIGHT = 170;
const LEFT = 44;
const BOTTOM = 22;
const TOP = 10;
let lastId = 0;

/**
 * One row of bars; several are stacked. `null` is: not known.
 * @typedef {{ name: string, tone: 'sea' | 'sand' | 'bad', values: (number | null)[] }} Series
 */

/**
 * @param {{ title: string, said: string, unit: string, labels: string[], series: Series[], limits?: { at: number, word: string }[], format?: (value: number) => string }} chart
 *   `said` is what the chart shows, in a sentence
 * @returns {HTMLElement}
 */
export function barChart({ title, said, unit, labels, series, limits = [], format = (value) => String(Math.round(value * 10) / 10) }) {
  const id = `chart-${++lastId}`;
  const sums = labels.map((_, n) => series.reduce((sum, { values }) => sum + (values[n] ?? 0), 0));
  const highest = Math.max(...sums, 0);
  // A limit far above all bars would press them flat; it is said instead.
  const near = limits.filter(({ at }) => at <= highest * 4);
  const top = niceTop(Math.max(highest, ...near.map(({ at }) => at)));
  const y = (/** @type {number} */ value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top);
  const step = (WIDTH - LEFT) / Math.max(labels.length, 1);
  const svg = node('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: 'chart', role: 'img', 'aria-labelledby': `${id}-title ${id}-said` });
  svg.append(node('title', { id: `${id}-title` }, title), node('desc', { id: `${id}-said` }, said));
  for (const part of [0, 0.5, 1]) {
    svg.append(
      node('line', { class: 'chart-grid', x1: LEFT, x2: WIDTH, y1: y(top * part), y2: y(top * part) }),
      node('text', { class: 'chart-scale', x: LEFT - 8, y: y(top * part) + 4, 'text-anchor': 'end' }, format(top * part)),
    );
  }
  labels.forEach((label, n) => {
    const x = LEFT + n * step;
    let below = 0;
    for (const { tone, values } of series) {
      const value = values[n] ?? 0;
      if (value <= 0) continue;
      const height = Math.max(y(below) - y(below + value), 1);
      svg.append(node('rect', { class: `chart-bar ${tone}`, x: x + step * 0.14, y: y(below) - height, width: step * 0.72, height, rx: 1.5 }));
      below += value;
    }
    if (series.every(({ values }) => values[n] === null || values[n] === undefined)) {
      svg.append(node('line', { class: 'chart-unknown', x1: x + step * 0.3, x2: x + step * 0.7, y1: y(0) - 3, y2: y(0) - 3 }));
    }
    // The first begins where its bar does: in the middle of it, it would run into the scale.
    if (n % 4 === 0) svg.append(node('text', { class: 'chart-scale', x: n === 0 ? x : x + step / 2, y: HEIGHT - 6, 'text-anchor': n === 0 ? 'start' : 'middle' }, label));
  });
  for (const { at, word } of near) {
    svg.append(
      node('line', { class: 'chart-limit', x1: LEFT, x2: WIDTH, y1: y(at), y2: y(at) }),
      node('text', { class: 'chart-scale', x: WIDTH, y: y(at) - 4, 'text-anchor': 'end' }, word),
    );
  }
  const far = limits.filter((limit) => !near.includes(limit)).map(({ at, word }) => `${word} ${format(at)} ${unit}`);
  return element(
    'figure',
    { class: 'chart-block' },
    element(
      'figcaption', {},
      element('h3', {}, title),
      element('p', { class: 'fine' }, `${said}${far.length > 0 ? ` Far above it: ${far.join(', ')}.` : ''}`),
      series.length > 1 && element('ul', { class: 'legend' }, ...series.map(({ name, tone }) => element('li', {}, element('span', { class: `swatch ${tone}`, 'aria-hidden': 'true' }), name))),
    ),
    svg,
    element('details', {}, element('summary', {}, 'As a table'), table(title, unit, labels, series, format)),
  );
}

/**
 * @param {string} title
 * @param {string} unit
 * @param {string[]} labels
 * @param {Series[]} series
 * @param {(value: number) => string} format
 */
function table(title, unit, labels, series, format) {
  return element(
    'div', { class: 'table-box', tabindex: 0, role: 'region', 'aria-label': `${title}, table` },
    element(
      'table', {},
      element('thead', {}, element('tr', {}, element('th', { scope: 'col' }, 'From'), ...series.map(({ name }) => element('th', { scope: 'col' }, `${name}, ${unit}`)))),
      element(
        'tbody', {},
        ...labels.map((label, n) =>
          element('tr', {}, element('th', { scope: 'row' }, label), ...series.map(({ values }) => element('td', {}, typeof values[n] === 'number' ? format(values[n]) : 'not known')))),
      ),
    ),
  );
}

/**
 * The next round figure above.
 * @param {number} value
 */
function niceTop(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 4, 5, 10].find((step) => step * power >= value) ?? 10) * power;
}

/**
 * @param {string} name
 * @param {Record<string, string | number>} attributes
 * @param {...(Node | string)} children
 */
function node(name, attributes, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, typeof value === 'number' ? String(Math.round(value * 100) / 100) : value);
  made.append(...children);
  return made;
}
