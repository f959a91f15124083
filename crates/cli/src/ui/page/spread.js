// How long something took, as a distribution: a bar for each bucket of one or two histograms, on one scale.

import { count, h, quantile, s } from './parts.js';

const [WIDTH, HEIGHT, FOOT] = [620, 190, 22];

/** A bound in seconds as people read it. */
const bound = (seconds) => (seconds < 1 ? `${seconds * 1000} ms` : `${seconds} s`);

/** Bars of histograms beside each other. `lines`: [label, colour class]. */
export class Spread {
  constructor(title, lines) {
    this.lines = lines;
    this.title = title;
    this.holder = h('div', { class: 'spread' });
    this.keys = lines.map(([label, colour]) => h('span', { class: colour }, label));
    this.element = h('section', { class: 'box' }, h('h2', {}, title), this.holder, h('p', { class: 'key' }, this.keys));
  }

  /** Shows histograms, one a line, with their common bounds. */
  show(histograms, bounds) {
    const shown = histograms.map((one) => one.buckets.join()).join(';');
    if (shown === this.shown) return;
    this.shown = shown;
    histograms.forEach((one, at) => { this.keys[at].textContent = `${this.lines[at][0]}: ${one.n === 0 ? 'none' : `${count(one.n)}, median ${Math.round(quantile(one, bounds, 0.5))} ms`}`; });
    this.holder.replaceChildren(this.picture(histograms, bounds));
  }

  picture(histograms, bounds) {
    const slots = bounds.length + 1;
    const share = (one, at) => (one.n > 0 ? (one.buckets[at] ?? 0) / one.n : 0);
    const most = Math.max(0.01, ...histograms.flatMap((one) => Array.from({ length: slots }, (_, at) => share(one, at))));
    const [slot, bar] = [WIDTH / slots, (WIDTH / slots - 4) / histograms.length];
    const parts = [s('line', { class: 'axis', x1: 0, x2: WIDTH, y1: HEIGHT - FOOT, y2: HEIGHT - FOOT })];
    for (let at = 0; at < slots; at += 1) {
      histograms.forEach((one, n) => {
        const high = (share(one, at) / most) * (HEIGHT - FOOT - 16);
        if (high === 0) return;
        const range = at === 0 ? `up to ${bound(bounds[0])}` : at < bounds.length ? `${bound(bounds[at - 1])} to ${bound(bounds[at])}` : `more than ${bound(bounds.at(-1))}`;
        const words = `${this.lines[n][0]}, ${range}: ${count(one.buckets[at])}, ${(100 * share(one, at)).toFixed(1)} %`;
        parts.push(s('rect', { class: `bar ${this.lines[n][1]}`, x: at * slot + 2 + n * bar, y: HEIGHT - FOOT - Math.max(high, 2), width: bar, height: Math.max(high, 2) }, s('title', {}, words)));
      });
      // Each second bound, at the border of its bucket: all of them have no room.
      if (at % 2 === 1) parts.push(s('text', { class: 'quiet', x: at * slot, y: HEIGHT - 5, 'text-anchor': 'middle' }, bound(bounds[at - 1])));
    }
    const label = `${this.title}. ${this.keys.map((key) => key.textContent).join('. ')}`;
    return s('svg', { role: 'img', 'aria-label': label, viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'xMidYMid meet' }, parts);
  }
}
