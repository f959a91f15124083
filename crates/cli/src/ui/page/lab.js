// Results of the lab: all of them, one of them, and two side by side.

import { ask } from './app.js';
import { Table, age, count, h, s } from './parts.js';

/** A number with three digits that count, and its unit. */
function value(number, unit = '') {
  if (number === undefined || number === null) return '–';
  const digits = Math.abs(number) >= 100 ? number.toFixed(0) : String(Number(number.toPrecision(3)));
  return unit ? `${digits} ${unit}` : digits;
}

const ratio = (number) => (number === undefined || number === null ? '–' : number.toFixed(2));
const between = (interval) => (interval ? `${ratio(interval[0])} to ${ratio(interval[1])}` : '–');

/** Whether a verdict is good news for the claim. */
const TONES = { reproduced: 'good', stronger: 'good', exceeded: 'good', weaker: 'warn', 'not reproduced': 'bad' };
const verdict = (words) => (words ? h('span', { class: TONES[words] ?? 'quiet' }, words) : '–');

function extent(one) {
  if (!one) return '–';
  const how = { sim: 'virtual time', netns: 'real packets', both: 'both speeds' }[one.speeds] ?? one.speeds;
  return `${one.quick ? 'quick, ' : ''}${how}${one.conditions ? `, ${one.conditions.join(', ')}` : ''}`;
}

/** The ratios of rows as dots with their intervals on one logarithmic axis; the line is 1, where arm and baseline are equal. */
function drawn(rows) {
  const all = rows.flatMap((row) => [row?.ratio, ...(row?.interval ?? [])]).filter((v) => v > 0).map(Math.log);
  const reach = Math.max(0.1, ...all.map(Math.abs));
  const x = (v) => 150 + (Math.log(v) / reach) * 140;
  return (row, kind = 'v4') => {
    if (!(row?.ratio > 0)) return undefined;
    const [low, high] = (row.interval ?? [row.ratio, row.ratio]).map((v) => (v > 0 ? x(v) : 10));
    return s('svg', { role: 'img', 'aria-label': `ratio ${ratio(row.ratio)}, interval ${between(row.interval)}`, viewBox: '0 0 300 22', height: 22, preserveAspectRatio: 'xMidYMid meet' },
      s('line', { class: 'axis', x1: 150, x2: 150, y1: 0, y2: 22 }), s('line', { class: `span small ${kind}`, x1: low, x2: Math.max(high, low + 1), y1: 11, y2: 11 }),
      s('circle', { class: `dot ${kind}`, cx: x(row.ratio), cy: 11, r: 5 }));
  };
}

/** Encoded twice: the page decodes what is behind # once, and the parts may hold what is between them. */
const place = (...ids) => `#lab/${ids.map((id) => encodeURIComponent(encodeURIComponent(id))).join('|')}`;
const key = (row) => [row.condition, row.metric, row.arm, row.baseline_arm ?? '', row.unit].join('\n');

/** Whether two results may be compared: as `headstart lab compare` has it. */
function alike(a, b) {
  const kind = (one) => JSON.stringify([one.experiment, one.extent?.quick, one.extent?.speeds, one.extent?.pages]);
  return kind(a) === kind(b);
}

/** What the ratios of a row in two runs say: their 95 % intervals are apart, or not. */
function change(a, b) {
  if (!a.interval || !b.interval) return h('span', { class: 'quiet' }, 'no interval');
  if (b.interval[0] > a.interval[1]) return h('span', { class: 'warn' }, 'higher');
  if (b.interval[1] < a.interval[0]) return h('span', { class: 'warn' }, 'lower');
  return 'no difference seen';
}

function listed(title, lines) {
  return lines.length > 0 ? [h('h2', {}, title), h('ul', { class: 'plain' }, lines.map((line) => h('li', {}, line)))] : [];
}

function titled(told) {
  const { result } = told;
  const words = `${told.name}, seed ${result.seed}, ${extent(result.extent)}${result.extent ? `, took ${age(result.extent.seconds * 1000)}` : ''}`;
  const doubt = result.valid ? [] : [h('p', { class: 'bad' }, `Not valid: ${result.why_invalid.join('; ')}`)];
  return [h('h2', {}, result.experiment), h('p', {}, words), ...doubt];
}

/** One result: every row, what the arms cost, the conditions and what a reader must know. */
function single(told, others) {
  const { result } = told;
  const picture = drawn(result.rows);
  const rows = new Table(`Rows of ${result.experiment}`, [['condition'], ['metric', 'left wrap'], ['arm', 'left'], ['value'], ['against', 'left'], ['value'], ['ratio'], ['95 % interval'], ['1 is equal', 'wide left'], ['paper'], ['verdict', 'left']], 'It has no rows.');
  rows.show(result.rows.map((row, n) => [n, [
    row.condition, row.metric, row.arm, value(row.ours, row.unit), row.baseline_arm ?? '–', value(row.baseline, row.unit), ratio(row.ratio), between(row.interval), picture(row) ?? '–', ratio(row.paper), verdict(row.verdict),
  ]]));
  const prices = new Table('What it cost', [['condition'], ['arm', 'left'], ['what', 'left wrap'], ['amount']], '');
  prices.show(result.prices.map((one, n) => [n, [one.condition, one.arm, one.what, value(one.amount, one.unit)]]));
  const choose = h('select', { id: 'other', onchange: (event) => { if (event.target.value) location.hash = place(told.id, event.target.value); } },
    h('option', { value: '' }, 'choose a run'), others.map((one) => h('option', { value: one.id }, `${one.name}, seed ${one.said.seed}`)));
  return [
    h('p', {}, h('a', { href: '#lab' }, 'All results')), ...titled(told),
    others.length > 0 ? h('form', {}, h('label', { for: 'other' }, 'Compare with a later run'), choose) : h('p', { class: 'quiet' }, 'No other run of the same experiment and extent.'),
    rows.element, told.rows_left_out > 0 ? h('p', { class: 'quiet' }, `${count(told.rows_left_out)} more rows are in the file.`) : undefined,
    ...(result.prices.length > 0 ? [h('h2', {}, 'Price'), prices.element] : []),
    ...listed('Conditions', result.conditions.map((one) => `${one.name}: ${one.about}`)), ...listed('Notes', result.notes),
  ];
}

/** Two runs: each row of both, its value and its ratio to the baseline. */
function pair(first, second) {
  const head = [h('p', {}, h('a', { href: '#lab' }, 'All results')), h('div', { class: 'pair' }, h('section', { class: 'box' }, titled(first)), h('section', { class: 'box' }, titled(second)))];
  if (!alike(first.result, second.result)) return [...head, h('p', { class: 'empty' }, 'These runs are of different experiments, extents or pages: their rows cannot be compared.')];
  const later = new Map(second.result.rows.map((row) => [key(row), row]));
  const both = first.result.rows.filter((row) => later.has(key(row)));
  const picture = drawn([...both, ...both.map((row) => later.get(key(row)))]);
  const rows = new Table('Rows of both runs', [['condition'], ['metric', 'left wrap'], ['arm', 'left wrap'], ['before, then after', 'wide left'], ['ratio to baseline', 'left'], ['before'], ['after'], ['after / before'], ['ratio before'], ['ratio after'], ['verdicts', 'left']], 'They have no row in common.');
  rows.show(both.map((a) => {
    const b = later.get(key(a));
    const two = [picture(a, 'v4'), picture(b, 'v6')].filter(Boolean);
    return [key(a), [
      a.condition, a.metric, a.arm, two.length > 0 ? h('div', {}, two) : '–', a.ratio === null || b.ratio === null ? '–' : change(a, b), value(a.ours, a.unit), value(b.ours, b.unit),
      a.ours === 0 ? '–' : ratio(b.ours / a.ours), `${ratio(a.ratio)} (${between(a.interval)})`, `${ratio(b.ratio)} (${between(b.interval)})`, a.verdict === b.verdict ? verdict(a.verdict) : `${a.verdict ?? '–'}, then ${b.verdict ?? '–'}`,
    ]];
  }));
  const alone = (one, keys) => one.result.rows.filter((row) => !keys.has(key(row))).map((row) => `${row.condition}, ${row.metric}, ${row.arm}`);
  return [...head, rows.element,
    h('p', { class: 'quiet' }, 'Higher or lower: the 95 % intervals of the two ratios are apart. “headstart lab compare” compares the samples themselves and sees smaller differences.'),
    ...listed('Only before', alone(first, later)), ...listed('Only after', alone(second, new Set(first.result.rows.map(key))))];
}

export class Lab {
  name = 'lab';
  title = 'Lab';
  results = new Table('Results, the latest first', [['result'], ['experiment', 'left'], ['extent', 'left'], ['seed'], ['rows'], ['verdicts', 'left wrap'], ['state', 'left wrap'], ['written']], 'No result in these folders: “headstart lab run NAME” makes one, “headstart ui --results DIR” shows others.');
  campaigns = new Table('Campaigns', [['campaign'], ['tasks'], ['counted'], ['missing'], ['invalid']], '');
  folders = h('p', { class: 'quiet' });
  told = h('div');

  element() {
    return (this.root ??= h('div', {}, this.all = h('div', {}, this.folders, this.results.element, h('div', {}, this.campaigns.element)), this.told));
  }

  enter(rest) {
    const ids = rest ? rest.split('|') : [];
    this.asked = rest;
    this.told.replaceChildren();
    this.all.hidden = ids.length > 0;
    const failed = (why) => { if (this.asked === rest) this.told.replaceChildren(h('p', { class: 'empty' }, why.message)); };
    ask('/api/results').then(async (list) => {
      const chosen = await Promise.all(ids.slice(0, 2).map((id) => ask(`/api/result?id=${id}`)));
      if (this.asked !== rest) return;
      if (chosen.length === 0) this.list(list);
      else if (chosen.length === 2) this.told.replaceChildren(...pair(...chosen));
      else {
        const others = list.results.filter((one) => one.id !== chosen[0].id && !one.said.problem && alike(one.said, chosen[0].result));
        this.told.replaceChildren(...single(chosen[0], others).filter(Boolean));
      }
    }).catch(failed);
  }

  list(list) {
    const more = list.left_out > 0 || list.more ? `. ${count(list.left_out)} older results${list.more ? ' and more folders' : ''} are not listed` : '';
    this.folders.textContent = list.folders.length > 0 ? `From ${list.folders.join(', ')}${more}.` : 'No folder: “headstart ui --results DIR” names one.';
    this.results.show(list.results.map((one) => {
      const { said } = one;
      const written = one.written_s === null ? '–' : new Date(one.written_s * 1000).toLocaleString();
      if (said.problem) return [one.id, [one.name, '–', '–', '–', '–', '–', h('span', { class: 'bad' }, said.problem), written]];
      const verdicts = Object.entries(said.verdicts).map(([words, n]) => `${n} ${words}`).join(', ');
      return [one.id, [h('a', { href: place(one.id) }, one.name), said.experiment, extent(said.extent), said.seed, count(said.rows), verdicts || '–', h('span', { class: said.valid ? 'good' : 'bad' }, said.valid ? 'valid' : 'not valid'), written]];
    }));
    this.campaigns.element.hidden = list.campaigns.length === 0;
    this.campaigns.show(list.campaigns.map((one) => [one.name, [one.name, count(one.planned), count(one.counted), count(one.missing), count(one.invalid)]]));
  }

  show() {}
}
