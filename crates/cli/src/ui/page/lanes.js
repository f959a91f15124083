// A list with a line for each of a thousand things, of which only those in sight are drawn.

import { h, say } from './parts.js';

/** Pixels of a line and of the heading, as style.css has them. */
const LINE = 36;
/** Lines that are drawn above and below those in sight. */
const BEYOND = 4;

/**
 * `columns`: [heading, width, class]. A line is an element as long as it is in sight and stays where it is in the order of lines.
 * It is moved by a transform, which is no shift of the layout; and the box is as high without lines as with a thousand.
 */
export class Lanes {
  rows = new Map();
  entries = [];

  constructor(caption, columns, nothing) {
    this.columns = columns;
    const headings = columns.map(([title, , kind]) => h('div', { role: 'columnheader', class: kind ?? '' }, title));
    this.body = h('div', { role: 'rowgroup', class: 'lines' });
    this.table = h('div', { class: 'lanes', role: 'table', 'aria-label': caption, tabindex: '0', onscroll: () => this.draw() },
      h('div', { role: 'rowgroup', class: 'head' }, h('div', { role: 'row' }, headings)), this.body);
    this.table.hidden = true;
    this.table.style.setProperty('--columns', columns.map(([, width]) => width).join(' '));
    this.nothing = h('p', { class: 'empty' }, nothing);
    this.more = h('p', { class: 'quiet more' });
    this.element = h('div', { class: 'box list' }, this.more, this.nothing, this.table);
  }

  /** Shows `entries`, [key, value] each, in their order. `cells` makes texts or elements of a value; it is handed an object that is kept with the line. */
  show(entries, cells, more) {
    this.nothing.hidden = entries.length > 0;
    this.table.hidden = entries.length === 0;
    say(this.more, more);
    const first = this.entries[Math.floor(this.table.scrollTop / LINE)];
    [this.entries, this.cells] = [entries, cells];
    this.table.setAttribute('aria-rowcount', entries.length + 1);
    this.body.style.setProperty('height', `${entries.length * LINE}px`);
    if (first && this.table.scrollTop > 0) {
      // A reader who has scrolled down stays at the same line while others are added above.
      const now = entries.findIndex(([key]) => key === first[0]);
      if (now >= 0) this.table.scrollTop = now * LINE + (this.table.scrollTop % LINE);
    }
    this.draw();
  }

  draw() {
    const top = Math.floor(this.table.scrollTop / LINE);
    const from = Math.max(0, top - BEYOND);
    const to = Math.min(this.entries.length, top + Math.ceil(this.table.clientHeight / LINE) + BEYOND);
    const gone = new Set(this.rows.keys());
    let before = this.body.firstChild;
    for (let at = from; at < to; at += 1) {
      const [key, value] = this.entries[at];
      gone.delete(key);
      const row = this.rows.get(key) ?? this.add(key);
      this.fill(row, at, value);
      if (row.element !== before) this.body.insertBefore(row.element, before);
      else before = before.nextSibling;
    }
    for (const key of gone) {
      this.rows.get(key).element.remove();
      this.rows.delete(key);
    }
  }

  add(key) {
    const element = h('div', { role: 'row' }, this.columns.map(([, , kind]) => h('div', { role: 'cell', class: kind ?? '' })));
    const row = { element, kept: {} };
    this.rows.set(key, row);
    return row;
  }

  fill(row, at, value) {
    if (row.at !== at) {
      row.at = at;
      row.element.setAttribute('aria-rowindex', at + 2);
      row.element.style.setProperty('transform', `translateY(${at * LINE}px)`);
    }
    if (row.value === value && row.cells === this.cells) return;
    [row.value, row.cells] = [value, this.cells];
    this.cells(value, row.kept).forEach((cell, n) => {
      const holder = row.element.children[n];
      if (cell instanceof Node) {
        if (holder.firstChild !== cell) holder.replaceChildren(cell);
      } else say(holder, String(cell));
    });
  }
}
