// One race as a picture: a lane for the program, one for each record type that was asked for, one for each address.

import { age, h, ms, s } from './parts.js';

const LEFT = 8;
const LANE = 48;

const family = (address) => (address.includes(':') ? 'v6' : 'v4');

/** The lanes of a race: [name, spans, points], times in milliseconds. */
export function lanes(race) {
  const all = new Map();
  const lane = (name, kind) => {
    if (!all.has(name)) all.set(name, { name, kind, spans: [], points: [] });
    return all.get(name);
  };
  const end = Math.max(1, ...race.events.map((event) => event.at_ms));
  const program = lane('program', 'wait');
  const open = (to, at, kind) => to.spans.push({ from: at, to: undefined, kind });
  const close = (to, at, kind) => {
    const span = to.spans.findLast((one) => one.to === undefined);
    if (span) [span.to, span.kind] = [at, kind ?? span.kind];
  };
  for (const { at_ms: at, event, ...rest } of race.events) {
    switch (event) {
      case 'asked': case 'wanted': open(program, at, 'wait'); break;
      case 'told': close(program, at); program.points.push([at, 'wait', 'addresses']); break;
      case 'handed-over': close(program, at); program.points.push([at, 'won', 'has its connection']); break;
      case 'given-up': close(program, at, 'failed'); program.points.push([at, 'lost', 'failed']); break;
      case 'query': case 'query-under-way': open(lane(rest.record, 'dns'), at, 'dns'); break;
      case 'answer': {
        const to = lane(rest.record, 'dns');
        const good = rest.addresses.length > 0;
        to.spans.filter((one) => one.to === undefined).forEach((one) => { one.to = at; if (!good && rest.says === 'no answer') one.kind = 'failed'; });
        to.points.push([at, good ? 'dns' : 'lost', good ? `${rest.addresses.length} found` : rest.says]);
        break;
      }
      case 'from-cache': lane(rest.record, 'dns').points.push([at, 'dns', 'cached']); break;
      case 'attempt': open(lane(rest.to, family(rest.to)), at, family(rest.to)); break;
      case 'connected': close(lane(rest.to, family(rest.to)), at); lane(rest.to, family(rest.to)).points.push([at, 'won', ms(rest.rtt_ms)]); break;
      case 'failed': close(lane(rest.to, family(rest.to)), at, 'failed'); lane(rest.to, family(rest.to)).points.push([at, 'lost', 'failed']); break;
      case 'closed': close(lane(rest.to, family(rest.to)), at); break;
      default: break;
    }
  }
  return { end, lanes: [...all.values()] };
}

/** A picture as wide as `width`, with names and an axis, or small without either. */
export function picture(race, width, small = false) {
  const { end, lanes: all } = lanes(race);
  const step = small ? Math.min(5, 20 / all.length) : LANE;
  const height = small ? 26 : all.length * LANE + 34;
  const x = (at) => LEFT + (Math.min(at, end) / end) * (width - 2 * LEFT);
  const parts = [];
  if (!small) {
    for (let n = 0; n <= 4; n += 1) {
      const at = (end * n) / 4;
      const anchor = n === 0 ? 'start' : n === 4 ? 'end' : 'middle';
      parts.push(s('line', { class: 'axis', x1: x(at), x2: x(at), y1: 0, y2: height - 20 }));
      parts.push(s('text', { class: 'quiet', x: x(at), y: height - 4, 'text-anchor': anchor }, ms(at)));
    }
  }
  all.forEach((lane, n) => {
    const y = small ? 6 + n * step : n * LANE + 26;
    if (!small) {
      parts.push(s('text', { x: LEFT, y: y - 11 }, lane.name));
      parts.push(s('line', { class: 'lane', x1: LEFT, x2: width - LEFT, y1: y, y2: y }));
    }
    for (const span of lane.spans) {
      const [from, to] = [x(span.from), Math.max(x(span.to ?? end), x(span.from) + 1)];
      parts.push(s('line', { class: `span ${small ? 'small' : ''} ${span.kind}`, x1: from, x2: to, y1: y, y2: y }));
    }
    // Words from the last to the first, those only that have room: the picture's end matters most.
    let free = Infinity;
    const named = new Set();
    for (const point of small ? [] : lane.points.toReversed()) {
      const [length, at] = [6.5 * point[2].length, x(point[0])];
      const [from, to] = at > width * 0.7 ? [at + 6 - length, at + 6] : [at - 6, at - 6 + length];
      if (to < free) {
        named.add(point);
        free = from - 6;
      }
    }
    for (const point of lane.points) {
      const [at, kind, words] = point;
      if (small) {
        // A bar, as a dot would be stretched with the picture.
        parts.push(s('line', { class: `tick ${kind}`, x1: x(at), x2: x(at), y1: y - 2.5, y2: y + 2.5 }));
        continue;
      }
      const anchor = x(at) > width * 0.7 ? 'end' : 'start';
      parts.push(s('circle', { class: `dot ${kind}`, cx: x(at), cy: y, r: 6 }, s('title', {}, `${lane.name}: ${words}, ${ms(at)}`)));
      if (named.has(point)) parts.push(s('text', { class: 'quiet', x: x(at) + (anchor === 'end' ? 6 : -6), y: y + 18, 'text-anchor': anchor }, words));
    }
  });
  const label = `${race.app} to ${race.name ?? ''}: ${outcome(race)[0]} after ${ms(end)}`;
  return s('svg', { role: 'img', 'aria-label': label, viewBox: `0 0 ${width} ${height}`, height, preserveAspectRatio: small ? 'none' : 'xMinYMin meet' }, parts);
}

/** The result of a race, and whether that is good. */
export function outcome(race) {
  const last = race.events.findLast((one) => ['handed-over', 'given-up', 'left-alone', 'connected', 'told', 'asked', 'ahead'].includes(one.event));
  switch (last?.event) {
    case 'handed-over': return ['connected', 'good'];
    case 'given-up': return ['failed', 'bad'];
    case 'left-alone': return ['not handled', 'warn'];
    case 'connected': return ['ready', 'good'];
    case 'told': return [last.addresses.length > 0 ? 'addresses found' : 'no addresses', last.addresses.length > 0 ? '' : 'warn'];
    default: return ['in progress', 'quiet'];
  }
}

/** An event in words. */
export function words(event) {
  const list = (all = []) => (all.length > 0 ? all.slice(0, 3).join(', ') + (all.length > 3 ? ` and ${all.length - 3} more` : '') : 'no addresses');
  switch (event.event) {
    case 'asked': return 'the program asks for addresses';
    case 'ahead': return `opened ahead of time, port ${event.port}`;
    case 'from-cache': return `${event.record} from the cache: ${list(event.addresses)}`;
    case 'query': return `${event.record} query sent${event.before > 0 ? `, try ${event.before + 1}` : ''}`;
    case 'query-under-way': return `${event.record} query, already in progress`;
    case 'answer': return `${event.record} answer: ${event.addresses.length > 0 ? list(event.addresses) : event.says}`;
    case 'told': return `the program gets ${list(event.addresses)}`;
    case 'attempt': return `attempt to ${event.to}${event.exploring ? ', to learn' : ''}`;
    case 'connected': return `${event.to} connected, round trip ${ms(event.rtt_ms)}`;
    case 'failed': return `${event.to} failed, error ${event.errno}`;
    case 'wanted': return `the program connects to ${event.to}`;
    case 'handed-over': return `handed over: ${event.to}, ${event.connected ? 'connected' : 'connecting'}`;
    case 'given-up': return `the program gets error ${event.errno}`;
    case 'left-alone': return `not handled: ${event.reason}`;
    case 'closed': return `${event.to} closed${event.connected ? ', not needed' : ' before it was connected'}`;
    default: return event.event;
  }
}

/** The whole story of a host, from what `headstart explain` knows. */
export function story(told, width) {
  const race = told.race;
  const parts = [h('h2', {}, told.host)];
  if (!race) parts.push(h('p', { class: 'empty' }, 'No recent race for this host.'));
  else {
    parts.push(h('p', {}, `${race.app}, race ${race.race}, ${age(race.began_ago_ms)} ago`));
    parts.push(h('div', { class: 'box' }, picture(race, Math.max(280, width - 26))));
    const rows = race.events.map((event) => h('tr', {}, h('td', {}, ms(event.at_ms)), h('td', { class: 'wrap' }, words(event))));
    const head = h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'after'), h('th', { scope: 'col', class: 'left' }, 'event')));
    const table = h('table', {}, h('caption', {}, 'The same in words'), head, h('tbody', {}, rows));
    parts.push(h('h2', {}, 'Events'), h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Events' }, table));
  }
  const list = (title, lines) => [h('h2', {}, title), lines.length > 0 ? h('ul', { class: 'plain' }, lines.map((line) => h('li', {}, line))) : h('p', { class: 'quiet' }, 'none')];
  parts.push(...list('Cached', told.cached.map((one) => `${one.name}, ${one.record} for ${one.app}: ${one.no_such_name ? 'no such name' : one.addresses.join(', ') || 'no addresses'}, ${one.left_ms > 0 ? `${age(one.left_ms)} left` : 'expired'}`)));
  parts.push(...list('Addresses', told.addresses.map((one) => `${one.address}: ${one.rtt_ms ? `round trip ${one.has_answered ? '' : 'at least '}${ms(one.rtt_ms)}, ` : ''}${one.failing ? 'failed last time, ' : ''}tried ${age(one.tried_ago_ms)} ago`)));
  return h('article', {}, parts);
}
