// A time line with one row: which network the host was on, when.

import { h, s } from './parts.js';

const [WIDTH, HEIGHT] = [1200, 46];
const COLOURS = ['v4', 'v6', 'dns'];

/** Spans of names from one moment to another. */
export class Strip {
  constructor(title, nothing) {
    [this.title, this.nothing] = [title, nothing];
    this.holder = h('div', { class: 'strip' });
    this.said = h('p', { class: 'key' });
    this.element = h('section', { class: 'box' }, h('h2', {}, title), this.holder, this.said);
  }

  /** Shows `begun`, [second, name] each in their order, of which each lasts until the next, between two seconds of the Unix epoch; what is in `seen` alone was seen. */
  show(begun, [from, to], seen, width) {
    const names = [...new Set(begun.map(([, name]) => name))];
    const x = (at) => ((Math.min(Math.max(at, from), to) - from) / Math.max(1, to - from)) * WIDTH;
    const spans = begun.flatMap(([at, name], n) => {
      const end = begun[n + 1]?.[0] ?? to;
      const there = seen.filter((moment) => moment >= at && moment < end);
      // Moments without a gap between them are one span.
      return there.reduce((all, moment) => {
        const last = all.at(-1);
        if (last && moment - last.to <= width) last.to = moment + width;
        else all.push({ from: moment, to: moment + width, name });
        return all;
      }, []);
    });
    const colour = (name) => COLOURS[names.indexOf(name) % COLOURS.length];
    const bars = spans.map((one) => s('rect', { class: `bar ${colour(one.name)}`, x: x(one.from), y: 4, width: Math.max(2, x(one.to) - x(one.from)), height: HEIGHT - 20 },
      s('title', {}, `${one.name}, ${new Date(one.from * 1000).toLocaleString()} to ${new Date(one.to * 1000).toLocaleString()}`)));
    const axis = s('line', { class: 'axis', x1: 0, x2: WIDTH, y1: HEIGHT - 12, y2: HEIGHT - 12 });
    const label = names.length > 0 ? `${this.title}: ${names.join(', then ')}` : this.nothing;
    this.holder.replaceChildren(s('svg', { role: 'img', 'aria-label': label, viewBox: `0 0 ${WIDTH} ${HEIGHT}`, height: HEIGHT, preserveAspectRatio: 'none' }, axis, bars));
    this.said.replaceChildren(...(names.length > 0 ? names.map((name) => h('span', { class: colour(name) }, name)) : [h('span', { class: 'quiet plain' }, this.nothing)]));
  }
}
