// What views are made of: elements, tables that change in place, charts, and numbers as people read them.

/** An element with properties, classes (`class`), attributes (`aria-…`, `role`) and children. Text is never markup. */
export function h(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

/** The same for SVG. */
export function s(tag, props = {}, ...children) {
  return fill(document.createElementNS('http://www.w3.org/2000/svg', tag), props, children);
}

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false) element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat().filter((child) => child !== undefined && child !== null));
  return element;
}

/** Sets the text of an element, if it is another. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Milliseconds. */
export function ms(value) {
  if (value === undefined || Number.isNaN(value)) return '–';
  if (value >= 10_000) return `${(value / 1000).toFixed(1)} s`;
  return value < 9.95 ? `${value.toFixed(1)} ms` : `${value.toFixed(0)} ms`;
}

/** How long something lasts, from milliseconds. */
export function age(value) {
  const seconds = Math.max(0, value / 1000);
  if (seconds < 120) return `${seconds.toFixed(0)} s`;
  return seconds < 7200 ? `${(seconds / 60).toFixed(0)} min` : `${(seconds / 3600).toFixed(0)} h`;
}

/** Bytes. */
export function bytes(value = 0) {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let at = 0;
  while (value >= 1000 && at < units.length - 1) [value, at] = [value / 1000, at + 1];
  return `${at === 0 ? value : value.toFixed(1)} ${units[at]}`;
}

export function count(value = 0) {
  return value.toLocaleString('en');
}

/** Adds up the histograms below `tree`, at any depth. */
export function sum(tree, into = { buckets: [], n: 0, sum_s: 0 }) {
  if (!tree) return into;
  if (Array.isArray(tree.buckets)) {
    tree.buckets.forEach((n, at) => { into.buckets[at] = (into.buckets[at] ?? 0) + n; into.n += n; });
    into.sum_s += tree.sum_s;
    return into;
  }
  Object.values(tree).forEach((below) => sum(below, into));
  return into;
}

/** A quantile of a histogram in milliseconds, by interpolation within its bucket. */
export function quantile(histogram, bounds, share) {
  if (histogram.n === 0) return undefined;
  let left = share * histogram.n;
  for (const [at, n] of histogram.buckets.entries()) {
    if (n > 0 && left <= n) {
      const low = at === 0 ? 0 : bounds[at - 1];
      const high = bounds[at] ?? low;
      return 1000 * (low + (high - low) * (left / n));
    }
    left -= n;
  }
  return undefined;
}

/** A table whose rows change in place. `columns`: [heading, class]; `row` values are texts or elements. */
export class Table {
  constructor(caption, columns, nothing) {
    this.columns = columns;
    this.rows = new Map();
    this.body = h('tbody');
    const head = columns.map(([title, kind]) => h('th', { scope: 'col', class: kind ?? '' }, title));
    const table = h('table', {}, h('caption', {}, caption), h('thead', {}, h('tr', {}, head)), this.body);
    this.scroll = h('div', { class: 'scroll', role: 'region', 'aria-label': caption, tabindex: '0' }, table);
    this.nothing = h('p', { class: 'empty' }, nothing);
    this.element = h('div', {}, this.nothing, this.scroll);
  }

  /** Shows `entries`: [key, cells], in their order. */
  show(entries) {
    this.nothing.hidden = entries.length > 0;
    this.scroll.hidden = entries.length === 0;
    const gone = new Set(this.rows.keys());
    let before = this.body.firstChild;
    for (const [key, cells] of entries) {
      gone.delete(key);
      let row = this.rows.get(key);
      if (!row) {
        row = h('tr', {}, this.columns.map(([, kind]) => h('td', { class: kind ?? '' })));
        this.rows.set(key, row);
      }
      cells.forEach((cell, at) => {
        const td = row.children[at];
        if (cell instanceof Node) {
          if (td.firstChild !== cell) td.replaceChildren(cell);
        } else say(td, String(cell));
      });
      if (row !== before) this.body.insertBefore(row, before);
      else before = before.nextSibling;
    }
    for (const key of gone) {
      this.rows.get(key).remove();
      this.rows.delete(key);
    }
  }
}

/** Numbers with a name each. */
export class Cards {
  constructor(names) {
    this.values = new Map();
    this.element = h('dl', { class: 'cards' }, names.map((name) => {
      const value = h('dd', {}, '–');
      this.values.set(name, value);
      return h('div', { class: 'card' }, h('dt', {}, name), value);
    }));
  }

  show(values) {
    for (const [name, value] of Object.entries(values)) say(this.values.get(name), value);
  }
}

/** Points of one chart for so long: at two a second, five minutes. */
const POINTS = 600;

/** A line chart; drag to look closer, double click to see all. `closer` and `all`, if given, are called with the selection. */
export class Chart {
  constructor(title, lines, format, closer, all) {
    [this.closer, this.all] = [closer, all];
    this.data = [[], ...lines.map(() => [])];
    this.holder = h('div', { class: 'chart', role: 'img', 'aria-label': title });
    this.latest = lines.map(([label, colour]) => {
      const key = h('span', {}, `${label}: –`);
      key.style.setProperty('color', `var(${colour})`);
      return key;
    });
    this.element = h('section', { class: 'box' }, h('h2', {}, title), this.holder, h('p', { class: 'key' }, this.latest));
    [this.lines, this.format] = [lines, format];
    if (all) this.holder.addEventListener('dblclick', all);
  }

  mount() {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const axis = { stroke: colour('--quiet'), grid: { stroke: colour('--line'), width: 1 }, ticks: { show: false } };
    const series = this.lines.map(([label, name]) => ({ label, stroke: colour(name), width: 2, spanGaps: false, points: { show: false } }));
    this.plot = new globalThis.uPlot({
      width: Math.max(200, this.holder.clientWidth), height: 200, padding: [8, 30, 0, 0], legend: { show: false },
      scales: { y: { range: (_, low, high) => [0, Math.max(high ?? 0, 1) * 1.1] } },
      axes: [{ ...axis, space: 90 }, { ...axis, size: (_, all) => 16 + 7 * Math.max(4, ...(all ?? []).map((one) => one.length)), values: (_, all) => all.map((v) => this.format(v)) }],
      series: [{}, ...series],
      hooks: this.closer ? { setSelect: [(plot) => { if (plot.select.width > 4) this.closer(plot.posToVal(plot.select.left, 'x'), plot.posToVal(plot.select.left + plot.select.width, 'x')); }] } : {},
    }, this.data, this.holder);
    this.sizes = new ResizeObserver(() => {
      const width = this.holder.clientWidth;
      if (width > 0 && width !== this.plot.width) this.plot.setSize({ width, height: 200 });
    });
    this.sizes.observe(this.holder);
  }

  /** Adds what is there now: a number, or nothing, for each line. */
  add(values) {
    this.data[0].push(Date.now() / 1000);
    values.forEach((value, at) => this.data[at + 1].push(value ?? null));
    if (this.data[0].length > POINTS) this.data.forEach((line) => line.shift());
    if (this.plot) this.plot.setData(this.data, !this.zoomed());
    this.lines.forEach(([label], at) => say(this.latest[at], `${label}: ${values[at] === undefined ? '–' : this.format(values[at])}`));
  }

  /** Shows other data, from one second of the Unix epoch to another. */
  set(data, [min, max]) {
    this.data = data;
    this.plot?.batch(() => { this.plot.setData(data, false); this.plot.setScale('x', { min, max }); });
    const last = (line) => line.findLast((value) => value !== null);
    this.lines.forEach(([label], at) => { const value = last(data[at + 1]); say(this.latest[at], `${label}: ${value === undefined ? '–' : this.format(value)}`); });
  }

  zoomed() {
    const { min, max } = this.plot.scales.x;
    const all = this.data[0];
    return min !== undefined && min !== null && all.length > 3 && (min > all[0] + 1 || max < all[all.length - 2] - 1);
  }

  unmount() {
    this.sizes?.disconnect();
    this.plot?.destroy();
    this.plot = undefined;
  }
}

/** How fast a count goes up, a second. */
export class Rate {
  take(value, at_ms) {
    const before = this.last;
    this.last = [value, at_ms];
    if (!before || at_ms <= before[1] || value < before[0]) return undefined;
    return (value - before[0]) * 1000 / (at_ms - before[1]);
  }
}
