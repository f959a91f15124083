// Sessions of small messages: what they do, what that costs, and what it has saved.

import { Cards, Chart, Rate, Table, age, bytes, count, h, ms } from './parts.js';

const perSecond = (value) => `${value.toFixed(value < 10 ? 1 : 0)}/s`;
const rate = (value) => `${bytes(Math.round(value))}/s`;
const share = (part, whole) => (whole > 0 ? `${((100 * part) / whole).toFixed(part * 100 < whole * 10 ? 1 : 0)} %` : '–');
const STATES = { clean: 'good', lossy: 'warn', queued: 'warn', outage: 'bad' };

/** All sessions: [key, program, session]. */
function sessions(all) {
  return Object.entries(all.messages).flatMap(([pid, one]) => Object.entries(one.sessions).map(([n, line]) => [`${pid} ${n}`, `${one.program} (${pid})`, line]));
}

/** How fast counts of sessions go up, together: a session that has ended takes nothing away. */
class Rates {
  before = new Map();

  take(lines, read, at) {
    let total = 0;
    let known = false;
    const now = new Map(lines.map(([key, , line]) => {
      const one = this.before.get(key) ?? new Rate();
      const value = one.take(read(line), at);
      if (value !== undefined) [total, known] = [total + value, true];
      return [key, one];
    }));
    this.before = now;
    return known ? total : undefined;
  }
}

export class Messages {
  name = 'messages';
  title = 'Messages';
  cards = new Cards(['Sessions', 'Sent', 'Received', 'Copies sent', 'Bytes of copies', 'Share of bytes', 'Copy came first', 'Time saved']);
  pace = new Chart('Messages', [['sent', '--v4'], ['received', '--v6'], ['copies', '--warn']], perSecond);
  paid = new Chart('Bytes sent', [['messages', '--v4'], ['copies', '--warn']], rate);
  table = new Table('Sessions that are open', [['peer'], ['program', 'left'], ['technique', 'left'], ['path', 'left'], ['open for'], ['connections'], ['round trip'], ['shortest'], ['sent'], ['received'], ['on their way'], ['copies'], ['bytes of copies'], ['stalls'], ['copy came first'], ['time saved'], ['dropped for newer']], 'No session: “headstart realtime send” and “receive”, “relay serve” and “relay ports” have some while they run.');
  rates = [0, 1, 2, 3, 4].map(() => new Rates());

  element() {
    return (this.root ??= h('div', {}, this.cards.element, h('div', { class: 'pair' }, this.pace.element, this.paid.element), h('h2', {}, 'Sessions'), this.table.element,
      h('p', { class: 'quiet' }, 'Time saved: from the acknowledgement of a copy to that of the message as it was sent first, added up. A message whose connection is lost adds nothing.')));
  }
  enter() { if (!this.pace.plot) [this.pace, this.paid].forEach((chart) => chart.mount()); }
  leave() { [this.pace, this.paid].forEach((chart) => chart.unmount()); }
  repaint() { this.leave(); this.enter(); }

  learn(all) {
    const [at, lines] = [performance.now(), sessions(all)];
    const [sent, received, copies, whole, copied] = ['sent', 'received', 'copies', 'bytes', 'copied_bytes'].map((what, n) => this.rates[n].take(lines, (line) => line[what], at));
    this.pace.add([sent, received, copies]);
    this.paid.add([whole, copied]);
  }

  show(all) {
    const lines = sessions(all);
    const total = (what) => lines.reduce((n, [, , line]) => n + line[what], 0);
    const none = lines.length === 0;
    this.cards.show({
      Sessions: count(lines.length + Object.values(all.messages).reduce((n, one) => n + one.omitted, 0)),
      Sent: none ? '–' : count(total('sent')),
      Received: none ? '–' : count(total('received')),
      'Copies sent': none ? '–' : count(total('copies')),
      'Bytes of copies': none ? '–' : bytes(total('copied_bytes')),
      'Share of bytes': none ? '–' : share(total('copied_bytes'), total('bytes')),
      'Copy came first': none ? '–' : count(total('ahead')),
      'Time saved': none ? '–' : ms(total('saved_ms')),
    });
    this.table.show(lines.map(([key, program, line]) => [key, [
      line.peer ?? 'unknown', program, line.technique, h('span', { class: STATES[line.state] ?? '' }, line.state), age(line.age_ms), count(line.connections), ms(line.rtt_ms), ms(line.shortest_ms),
      count(line.sent), count(line.received), count(line.unconfirmed), count(line.copies), `${bytes(line.copied_bytes)}, ${share(line.copied_bytes, line.bytes)}`, count(line.stalls), count(line.ahead), ms(line.saved_ms), count(line.conflated),
    ]]));
  }
}
