// What was seen over hours and days: charts whose data the server keeps. Drag to look closer, double click to see all again.

import { ask } from './app.js';
import { Chart, h, say } from './parts.js';

const RANGES = [['hour', 3600], ['day', 86_400], ['week', 604_800], ['30 days', 2_592_000]];
/** Between two questions while nothing else is chosen. */
const FRESH_MS = 10_000;

/** Charts of one answer. `charts`: [title, [[label, colour, line]], format]; `learn` is called with each answer and the seconds that it is of. */
export class Trend {
  constructor(charts, learn) {
    this.learn = learn;
    this.charts = charts.map(([title, lines, format]) => {
      const chart = new Chart(title, lines, format, (from, to) => this.zoom(from, to), () => this.choose(this.range));
      return [chart, lines.map(([, , line]) => line)];
    });
    this.buttons = RANGES.map(([name, seconds]) => h('button', { type: 'button', 'aria-pressed': 'false', onclick: () => this.choose(seconds) }, name));
    this.said = h('span', { class: 'quiet', role: 'status' });
    this.element = h('div', {}, h('form', { 'aria-label': 'Time range', onsubmit: (event) => event.preventDefault() }, this.extra = h('span'), this.buttons, this.said), h('div', { class: 'pair' }, this.charts.map(([chart]) => chart.element)));
    this.range = 3600;
  }

  /** The program of which it tells; all if there is none. */
  of(program) {
    this.program = program;
    this.load();
  }

  choose(seconds) {
    this.range = seconds;
    this.window = undefined;
    this.load();
  }

  zoom(from, to) {
    this.window = [Math.floor(from), Math.ceil(to)];
    this.load();
  }

  load() {
    this.loaded = performance.now();
    RANGES.forEach(([, seconds], at) => this.buttons[at].setAttribute('aria-pressed', String(!this.window && seconds === this.range)));
    const now = Math.floor(Date.now() / 1000);
    const [from, to] = this.window ?? [now - this.range, now];
    const program = this.program ? `&program=${encodeURIComponent(this.program)}` : '';
    const asked = (this.asked = {});
    ask(`/api/history?from=${from}&to=${to}${program}`).then((told) => {
      if (asked !== this.asked) return;
      const width = told.width_s < 60 ? `${told.width_s} s` : `${told.width_s / 60} min`;
      say(this.said, told.notes.length > 0 ? told.notes.join('; ') : told.at.length > 0 ? `a point each ${width}` : 'nothing was seen in this time: it is recorded while this page is open');
      for (const [chart, lines] of this.charts) {
        const full = (line) => Array.from(told.at, (_, n) => told.lines[line]?.[n] ?? null);
        chart.set([told.at, ...lines.map(full)], [from, to]);
      }
      this.learn?.(told, [from, to]);
    }, (why) => say(this.said, why.message));
  }

  /** While it is shown: asks again now and then, unless a part was chosen. */
  show() {
    if (!this.window && performance.now() - (this.loaded ?? -Infinity) > FRESH_MS) this.load();
  }

  mount() {
    this.charts.forEach(([chart]) => { if (!chart.plot) chart.mount(); });
    this.load();
  }

  unmount() { this.charts.forEach(([chart]) => chart.unmount()); }
}
