// The views. Each has an element that lives as long as the page, learns whenever something changes, and shows it while chosen.

import { ask } from './app.js';
import { Lab } from './lab.js';
import { Lanes } from './lanes.js';
import { Messages } from './messages.js';
import { Cards, Chart, Rate, Table, age, bytes, count, h, ms, quantile, say, sum } from './parts.js';
import { Spread } from './spread.js';
import { outcome, picture, story } from './story.js';
import { Strip } from './strip.js';
import { Trend } from './trend.js';

/** Connections of each list: as many as the server sends. */
const MOST = 1000;

const connections = (tally) => tally.handed_over + tally.handed_over_in_progress;
const perSecond = (value) => `${value.toFixed(value < 10 ? 1 : 0)}/s`;
const percent = (value) => `${(100 * value).toFixed(0)} %`;
const mbit = (value) => `${value.toFixed(value < 10 ? 2 : 0)} Mbit/s`;

function nothingYet() {
  return 'Nothing yet: start a program by “headstart run -- PROGRAM”.';
}

/** Who has measured: a forwarder that carries packets, or programs in the kernel that watch. */
const source = (via) => ({ tun: 'forwarder', ebpf: 'kernel (eBPF)' })[via] ?? '–';

/** How long something took that came to be, of one program or of all. */
function good(timings, what, program) {
  const programs = timings?.[what] ?? {};
  const families = program ? [programs[program]] : Object.values(programs);
  return sum(families.flatMap((one) => Object.values(one ?? {}).flatMap((outcomes) => [outcomes.ok, outcomes['under-way']])));
}

class Now {
  name = 'now';
  title = 'Now';
  cards = new Cards(['Programs running', 'Lookups', 'Connections', 'Ready at once', 'Failed', 'Measured, open']);
  pace = new Chart('Lookups and connections', [['lookups', '--dns'], ['connections', '--v4'], ['failed', '--bad']], perSecond);
  flow = new Chart('Data of measured programs', [['down', '--v6'], ['up', '--good']], mbit);
  races = new Lanes('Latest connections', [['host', 'minmax(11rem, 2fr)', 'left'], ['program', 'minmax(7rem, 1fr)', 'left'], ['lookups and attempts', 'minmax(12rem, 4fr)', 'left'], ['result', '8rem', 'left'], ['took', '6.5rem'], ['ago', '5rem']], nothingYet());
  open = new Lanes('Open connections of measured programs', [['peer', 'minmax(13rem, 3fr)', 'left'], ['program', 'minmax(7rem, 1fr)', 'left'], ['measured by', '9rem', 'left'], ['open for', '6.5rem'], ['connect', '6.5rem'], ['round trip', '7.5rem'], ['down', '6.5rem'], ['up', '6.5rem'], ['repeated', '7rem']], 'No measurement is running: “sudo headstart run --measure -- PROGRAM” starts one.');
  rates = [0, 1, 2, 3, 4].map(() => new Rate());

  element() {
    return (this.root ??= h('div', {}, this.cards.element, h('div', { class: 'pair' }, this.pace.element, this.flow.element), h('h2', {}, 'Connections'), this.races.element, h('h2', {}, 'Measured'), this.open.element));
  }
  enter() { if (!this.pace.plot) [this.pace, this.flow].forEach((chart) => chart.mount()); }
  leave() { [this.pace, this.flow].forEach((chart) => chart.unmount()); }
  repaint() { this.leave(); this.enter(); }

  learn(all) {
    const at = performance.now();
    const tally = all.supervisor?.tally;
    const [lookups, made, failed] = tally ? [tally.resolved + tally.unresolved, connections(tally), tally.failed] : [];
    this.pace.add(tally ? [lookups, made, failed].map((n, i) => this.rates[i].take(n, at)) : []);
    const sums = Object.values(all.measurements).flatMap((one) => Object.values(one.apps));
    const total = (side) => sums.reduce((n, app) => n + app[side], 0);
    const rate = (i, side) => { const r = this.rates[i].take(total(side), at); return r === undefined ? undefined : r * 8 / 1e6; };
    this.flow.add(sums.length > 0 ? [rate(3, 'down_bytes'), rate(4, 'up_bytes')] : []);
  }

  show(all) {
    const sup = all.supervisor;
    const tally = sup?.tally;
    const measured = Object.entries(all.measurements);
    // Lines are those with the most data; programs count all.
    const open = measured.reduce((n, [, one]) => n + Object.values(one.apps).reduce((m, app) => m + app.open, 0), 0);
    this.cards.show({
      'Programs running': sup ? count(Object.keys(sup.runs).length + sup.runs_omitted) : '–',
      Lookups: tally ? count(tally.resolved + tally.unresolved) : '–',
      Connections: tally ? count(connections(tally)) : '–',
      'Ready at once': tally ? count(tally.at_once) : '–',
      Failed: tally ? count(tally.failed) : '–',
      'Measured, open': measured.length > 0 ? count(open) : '–',
    });
    this.showRaces(sup);
    const lines = measured.flatMap(([pid, one]) => Object.entries(one.connections).map(([key, line]) => [`${pid} ${key}`, { line, at: one.at_ms, via: one.via }]));
    const shown = lines.slice(0, MOST);
    this.open.show(shown, ({ line, at, via }) => [
      line.peer, line.app, source(via), age(at - line.began_ms), ms(line.meters.connect_ms), ms(line.meters.rtt_ms),
      bytes(line.down_bytes), bytes(line.up_bytes), count((line.meters.retransmissions ?? 0) + (line.meters.local_retransmissions ?? 0)),
    ], open > shown.length ? `${count(shown.length)} of ${count(open)} open connections: those with the most data. The others are not shown.` : `${count(shown.length)} open`);
  }

  /** A line for each connection, the latest first; their numbers go up. */
  showRaces(sup) {
    const races = Object.entries(sup?.races ?? {}).sort(([a], [b]) => b - a).slice(0, MOST);
    const more = races.length < MOST ? `${count(races.length)} shown` : `The latest ${count(MOST)}. Earlier ones are not shown.`;
    this.races.show(races.map(([number, race]) => [number, { ...race, up_ms: sup.up_ms }]), (race, kept) => {
      if (kept.events !== race.events) [kept.events, kept.picture] = [race.events, picture(race, 300, true)];
      kept.link ??= h('a', { href: `#connection/${encodeURIComponent(race.name)}` }, race.name);
      return [kept.link, race.app, kept.picture, outcome(race)[0], ms(race.events.at(-1)?.at_ms ?? 0), age(race.up_ms - race.began_ms)];
    }, more);
  }
}

class Programs {
  name = 'programs';
  title = 'Programs';
  ours = new Table('Programs under headstart run', [['program'], ['lookups'], ['median'], ['90 %'], ['connections'], ['median'], ['90 %'], ['handshake, median'], ['failed'], ['launches']], nothingYet());
  theirs = new Table('Measured programs', [['program'], ['measured by', 'left'], ['open'], ['connections'], ['failed'], ['lookups'], ['lookup'], ['connect'], ['round trip'], ['down'], ['up'], ['longest gap'], ['repeated']], 'No measurement is running: “sudo headstart run --measure -- PROGRAM” starts one.');
  saved = new Cards(['Waited for lookups', 'Waited to connect', 'Handshakes took', 'Cache hits', 'Opened ahead, used', 'Opened, not used']);

  chosen = h('select', { id: 'of', onchange: () => this.choose() }, h('option', { value: '' }, 'all programs'));
  toConnect = new Spread('Connections: how long programs waited, and how long handshakes took', [['waited', 'v4'], ['handshake', 'v6']]);
  toLookUp = new Spread('Lookups: how long programs waited', [['waited', 'dns']]);
  trend = new Trend([
    ['Time to connect', [['median', '--v4', 'connect_median'], ['90 %', '--v6', 'connect_p90'], ['handshake', '--good', 'handshake_median']], ms], ['Time to look up', [['median', '--v4', 'lookup_median'], ['90 %', '--v6', 'lookup_p90']], ms],
    ['Measured: time to connect', [['median', '--v4', 'measured_connect_median'], ['90 %', '--v6', 'measured_connect_p90']], ms], ['Measured: data', [['down', '--v6', 'down_bytes'], ['up', '--good', 'up_bytes']], (value) => `${bytes(Math.round(value))}/s`],
    ['Measured: segments retransmitted', [['segments', '--bad', 'retransmissions']], perSecond],
  ], (told) => this.offer(told.programs));

  element() {
    const choose = h('form', { onsubmit: (event) => event.preventDefault() }, h('label', { for: 'of' }, 'Of'), this.chosen);
    return (this.root ??= h('div', {}, this.saved.element, h('h2', {}, 'Waiting times'), this.ours.element, h('h2', {}, 'Measured'), this.theirs.element, h('h2', {}, 'Distribution and trend'), choose,
      h('div', { class: 'pair' }, this.toConnect.element, this.toLookUp.element), this.trend.element));
  }
  enter() { this.trend.mount(); }
  leave() { this.trend.unmount(); }
  repaint() { this.leave(); this.enter(); }

  choose() {
    this.trend.of(this.chosen.value);
    if (this.last) this.spread(this.last);
  }

  /** Since the supervisor was started. Between what was waited and what handshakes took is what was saved. */
  spread(all) {
    this.last = all;
    const of = (what) => good(all.supervisor?.timings, what, this.chosen.value);
    this.toConnect.show([of('connect'), of('handshake')], all.bounds);
    this.toLookUp.show([of('lookup')], all.bounds);
  }

  /** Programs that were seen can be chosen; one that was chosen stays. */
  offer(programs) {
    const there = new Set([...this.chosen.options].map((option) => option.value));
    this.chosen.append(...programs.filter((name) => !there.has(name)).map((name) => h('option', { value: name }, name)));
  }

  show(all) {
    this.trend.show();
    this.spread(all);
    const sup = all.supervisor;
    const span = (d) => ms((d?.secs ?? 0) * 1000 + (d?.nanos ?? 0) / 1e6);
    const share = (a, b) => (a + b > 0 ? `${((100 * a) / (a + b)).toFixed(0)} %` : '–');
    if (sup) {
      const t = sup.tally;
      this.saved.show({
        'Waited for lookups': span(t.lookup_wait), 'Waited to connect': span(t.connect_wait), 'Handshakes took': span(t.handshakes),
        'Cache hits': share(t.cache_hits, t.cache_misses), 'Opened ahead, used': `${t.spares_taken} of ${t.spares}`, 'Opened, not used': count(t.unused),
      });
    }
    const timings = sup?.timings ?? {};
    const names = new Set(['lookup', 'connect', 'handshake'].flatMap((what) => Object.keys(timings[what] ?? {})));
    const rows = [...names].map((name) => {
      const [lookup, connect, handshake] = ['lookup', 'connect', 'handshake'].map((what) => sum(timings[what]?.[name]));
      const failed = Object.values(timings.connect?.[name] ?? {}).reduce((n, family) => n + sum(family.failed).n, 0);
      const q = (histogram, at) => ms(quantile(histogram, all.bounds, at));
      return [name, [name, count(lookup.n), q(lookup, 0.5), q(lookup, 0.9), count(connect.n), q(connect, 0.5), q(connect, 0.9), q(handshake, 0.5), count(failed), sup.programs?.[name]?.launches ?? '–'], connect.n + lookup.n];
    });
    this.ours.show(rows.sort((a, b) => b[2] - a[2]));
    const apps = Object.entries(all.measurements).flatMap(([pid, one]) => Object.entries(one.apps).map(([name, app]) => [`${pid} ${name}`, name, app, one.via]));
    this.theirs.show(apps.map(([key, name, app, via]) => [key, [
      name, source(via), count(app.open), count(app.connections), count(app.failed), count(app.lookups), ms(app.lookup_ms), ms(app.meters.connect_ms), ms(app.meters.rtt_ms),
      bytes(app.down_bytes), bytes(app.up_bytes), ms(app.meters.longest_down_gap_ms), count((app.meters.retransmissions ?? 0) + (app.meters.local_retransmissions ?? 0)),
    ]]));
  }
}

class Network {
  name = 'network';
  title = 'Network';
  trips = new Chart('Round trip of handshakes', [['IPv4', '--v4'], ['IPv6', '--v6']], ms);
  asks = new Chart('Time from query to answer', [['A', '--v4'], ['AAAA', '--v6']], ms);
  families = new Table('Address families', [['family'], ['route', 'left'], ['state', 'left'], ['round trip'], ['lookup']], nothingYet());
  peers = new Table('Addresses on this network', [['address'], ['round trip'], ['state', 'left']], 'No address has been tried on this network.');
  changes = new Table('Changes since this page was opened', [['when'], ['change', 'left']], 'None since this page was opened.');
  trend = new Trend([
    ['Round trip of handshakes', [['IPv4', '--v4', 'rtt IPv4'], ['IPv6', '--v6', 'rtt IPv6']], ms], ['Time from query to answer', [['A', '--v4', 'lookup IPv4'], ['AAAA', '--v6', 'lookup IPv6']], ms],
    ['Lookups and connections', [['lookups', '--dns', 'lookups'], ['connections', '--v4', 'connections'], ['failed', '--bad', 'failed']], perSecond],
    ['Families avoided, share of time', [['IPv4', '--v4', 'avoided IPv4'], ['IPv6', '--v6', 'avoided IPv6']], percent],
  ], (told, range) => {
    this.line.show(told.networks, range, told.at, told.width_s);
    this.visited.show(told.networks.map(([at, id]) => [at, [new Date(at * 1000).toLocaleString(), id]]));
  });
  line = new Strip('Networks in this time', 'None was seen.');
  visited = new Table('Networks, from when on', [['from'], ['network', 'left']], 'None was seen.');
  resolvers = h('p', {}, '–');
  others = h('p', { class: 'quiet' });
  log = [];

  element() {
    return (this.root ??= h('div', {}, h('div', { class: 'pair' }, this.trips.element, this.asks.element), h('h2', {}, 'Families'), this.families.element,
      h('h2', {}, 'DNS servers'), this.resolvers, h('h2', {}, 'Changes'), this.changes.element, h('h2', {}, 'Addresses'), this.peers.element, this.others, h('h2', {}, 'Trend'), this.trend.element, this.line.element, h('div', { class: 'below' }, this.visited.element)));
  }
  enter() { if (!this.trips.plot) [this.trips, this.asks].forEach((chart) => chart.mount()); this.trend.mount(); }
  leave() { [this.trips, this.asks, this.trend].forEach((chart) => chart.unmount()); }
  repaint() { this.leave(); this.enter(); }

  learn(all) {
    const families = all.supervisor?.families;
    const both = (what) => ['IPv4', 'IPv6'].map((name) => families?.[name]?.[what]);
    this.trips.add(both('rtt_ms'));
    this.asks.add(both('lookup_ms'));
    const here = Object.entries(all.supervisor?.networks ?? {}).find(([, one]) => one.here)?.[0];
    const note = (key, value, said) => {
      if (this[key] !== undefined && this[key] !== value) this.log.unshift([new Date().toLocaleTimeString(), said(value)]);
      this[key] = value;
    };
    if (here) note('here', here, (id) => `another network: ${id}`);
    for (const [name, family] of Object.entries(families ?? {})) {
      note(`${name} state`, this.state(family)[0], (words) => `${name}: ${words}`);
    }
    this.log.length = Math.min(this.log.length, 100);
  }

  state(family) {
    if (family.suspended_until_ms) return ['avoided after failures', 'bad'];
    if (family.unanswered) return ['queries get no answer', 'bad'];
    return family.has_route ? ['in use', 'good'] : ['no route', 'quiet'];
  }

  show(all) {
    this.trend.show();
    const sup = all.supervisor;
    this.families.show(Object.entries(sup?.families ?? {}).map(([name, family]) => {
      const [words, kind] = this.state(family);
      return [name, [name, family.has_route ? 'yes' : 'no', h('span', { class: kind }, words), ms(family.rtt_ms), ms(family.lookup_ms)]];
    }));
    say(this.resolvers, sup?.resolvers.join(', ') || 'none known');
    this.changes.show(this.log.map(([when, words], n) => [`${this.log.length - n}`, [when, words]]));
    const networks = Object.entries(sup?.networks ?? {});
    const here = networks.find(([, one]) => one.here)?.[1];
    this.peers.show(Object.entries(here?.peers ?? {}).map(([address, peer]) => {
      const state = peer.failing ? ['failed last time', 'bad'] : peer.has_answered ? ['answers', 'good'] : ['has not answered', 'warn'];
      return [address, [address, ms(peer.rtt_us === undefined ? undefined : peer.rtt_us / 1000), h('span', { class: state[1] }, state[0])]];
    }));
    const more = here?.peers_omitted ? `${here.peers_omitted} more addresses. ` : '';
    say(this.others, `${more}Known networks: ${networks.length}.`);
  }
}

class Connection {
  name = 'connection';
  title = 'Connection';
  input = h('input', { type: 'text', id: 'host', name: 'host', autocomplete: 'off', spellcheck: 'false', list: 'hosts', placeholder: 'www.example.org' });
  list = h('datalist', { id: 'hosts' });
  told = h('div', { 'aria-live': 'polite' }, h('p', { class: 'empty' }, 'Choose a host: why was it fast or slow?'));

  element() {
    const go = (event) => {
      event.preventDefault();
      location.hash = `#connection/${encodeURIComponent(this.input.value.trim())}`;
    };
    return (this.root ??= h('div', {}, h('form', { onsubmit: go, role: 'search' }, h('label', { for: 'host' }, 'Host'), this.input, this.list, h('button', {}, 'Explain')), this.told));
  }

  enter(host) {
    if (!host) return;
    this.input.value = host;
    this.host = host;
    ask(`/api/explain?host=${encodeURIComponent(host)}`).then(
      (told) => { if (host === this.host) { this.last = told; this.paint(); } },
      (why) => { if (host === this.host) this.told.replaceChildren(h('p', { class: 'empty' }, why.message)); },
    );
    this.sizes ??= new ResizeObserver(() => this.paint());
    this.sizes.observe(this.told);
  }
  leave() { this.sizes?.disconnect(); this.sizes = undefined; }
  paint() {
    const width = this.told.clientWidth;
    if (!this.last || (this.painted === this.last && this.width === width)) return;
    [this.painted, this.width] = [this.last, width];
    this.told.replaceChildren(story(this.last, width));
  }

  show(all) {
    const names = [...new Set(Object.values(all.supervisor?.races ?? {}).map((race) => race.name))].sort();
    if (names.join() === this.names) return;
    this.names = names.join();
    this.list.replaceChildren(...names.map((name) => h('option', { value: name })));
    if (!this.host && names.length > 0) {
      this.told.replaceChildren(h('p', {}, 'Choose a host: why was it fast or slow?'), h('ul', { class: 'plain' }, names.map((name) => h('li', {}, h('a', { href: `#connection/${encodeURIComponent(name)}` }, name)))));
    }
  }
}

class Host {
  name = 'host';
  title = 'Host';
  cards = new Cards(['Daemon', 'Changes', 'Known peers', 'Supervisor', 'Supervisor wake-ups']);
  changes = h('pre', { tabindex: '0', role: 'region', 'aria-label': 'Changes' });
  problems = h('ul', { class: 'plain' });
  none = h('p', { class: 'empty' }, 'No daemon is running: this host is unchanged. “sudo headstart up” starts one.');
  said = h('p', { role: 'status' });
  undo = h('button', { class: 'danger', type: 'button', onclick: () => this.dialog.showModal() }, 'Undo all and stop the daemon');
  dialog = h('dialog', { 'aria-labelledby': 'sure' }, h('h2', { id: 'sure' }, 'Undo all changes and stop the daemon?'),
    h('p', {}, 'As “headstart down” does. Only the owner of the daemon and root may.'),
    h('form', { method: 'dialog' }, h('button', { value: 'keep' }, 'Keep'), h('button', { value: 'undo', class: 'danger' }, 'Undo')));

  element() {
    this.dialog.onclose = () => {
      if (this.dialog.returnValue === 'undo') {
        ask('/api/down', 'POST').then((undone) => say(this.said, `${undone.removed} changes undone, the daemon has stopped`), (why) => say(this.said, why.message));
      }
      this.dialog.returnValue = '';
    };
    return (this.root ??= h('div', {}, this.cards.element, this.none, this.problems, this.up = h('div', {}, h('h2', {}, 'What it has changed'), h('div', { class: 'box' }, this.changes), h('p', {}, this.undo)), this.said, this.dialog));
  }

  show(all) {
    const [daemon, sup] = [all.daemon, all.supervisor];
    this.none.hidden = Boolean(daemon);
    this.up.hidden = !daemon;
    const wakeups = Object.values(sup?.wakeups ?? {}).reduce((a, b) => a + b, 0);
    this.cards.show({
      Daemon: daemon ? `up ${age(daemon.up_ms)}` : 'not running',
      Changes: daemon ? count(daemon.changes.length + daemon.omitted) : '0',
      'Known peers': daemon?.initial_windows ?? '–',
      Supervisor: sup ? `up ${age(sup.up_ms)}` : 'not running',
      'Supervisor wake-ups': sup ? count(wakeups) : '–',
    });
    const omitted = daemon?.omitted ? `\n… and ${daemon.omitted} more` : '';
    say(this.changes, daemon ? daemon.changes.join('\n') + omitted || 'nothing' : '');
    const problems = [...(daemon?.problems ?? []), ...all.problems];
    if (problems.join() !== this.shown) {
      this.shown = problems.join();
      this.problems.replaceChildren(...problems.map((words) => h('li', { class: 'bad' }, words)));
    }
  }
}

class Steering {
  name = 'steering';
  title = 'Steering';
  share = new Chart('Data over each channel', [['fat', '--v4'], ['fast', '--v6']], mbit);
  trips = new Chart('Round trip of each channel', [['fat', '--v4'], ['fast', '--v6']], ms);
  channels = new Table('Channels', [['channel'], ['state', 'left'], ['used as', 'left'], ['round trip'], ['loss'], ['packets'], ['data'], ['share']], 'No tunnel over two channels: “sudo headstart up --steer FILE” opens one.');
  cards = new Cards(['Failovers', 'Queued for fast', 'Resent', 'Sent over both', 'Moved to fat', 'Dropped']);
  reasons = new Table('Why packets took which channel', [['reason'], ['channel', 'left'], ['packets'], ['gained, mean']], 'No packet yet.');
  changes = new Table('Failovers', [['when'], ['change', 'left']], 'None since this page was opened.');
  log = [];
  alive = new Map();
  rates = [new Rate(), new Rate()];
  tunnel = h('p', {}, '–');

  element() {
    return (this.root ??= h('div', {}, this.tunnel, this.cards.element, h('div', { class: 'pair' }, this.share.element, this.trips.element), h('h2', {}, 'Channels'), this.channels.element, h('h2', {}, 'Decisions'), this.reasons.element, h('h2', {}, 'Failovers'), this.changes.element));
  }
  enter() { if (!this.share.plot) [this.share, this.trips].forEach((chart) => chart.mount()); }
  leave() { [this.share, this.trips].forEach((chart) => chart.unmount()); }
  repaint() { this.leave(); this.enter(); }

  learn(all) {
    const of = (name) => all.daemon?.steering?.channels.find((one) => one.channel === name);
    const both = ['fat', 'fast'].map(of);
    this.trips.add(both.map((one) => one?.rtt_ms));
    const rate = (one, n) => { const r = one && this.rates[n].take(one.bytes, performance.now()); return r === undefined ? undefined : r * 8 / 1e6; };
    this.share.add(both.map(rate));
    for (const one of all.daemon?.steering?.channels ?? []) {
      const before = this.alive.get(one.channel);
      const words = one.alive ? `${one.channel} answers again` : `${one.channel} does not answer: all packets take the other channel`;
      if (before !== undefined && before !== one.alive) this.log.unshift([new Date().toLocaleTimeString(), words]);
      this.alive.set(one.channel, one.alive);
    }
    this.log.length = Math.min(this.log.length, 100);
  }

  show(all) {
    const tunnel = all.daemon?.steering;
    say(this.tunnel, tunnel ? `${tunnel.interface}, policy ${tunnel.policy}` : 'No tunnel.');
    const n = (what) => (tunnel ? count(tunnel[what]) : '–');
    this.cards.show({ Failovers: n('failovers'), 'Queued for fast': n('queued'), Resent: n('again'), 'Sent over both': n('twice'), 'Moved to fat': n('moved'), Dropped: n('dropped') });
    this.channels.show((tunnel?.channels ?? []).map((one) => [one.channel, [
      one.channel, h('span', { class: one.alive ? 'good' : 'bad' }, one.alive ? 'up' : 'down'), one.uses, ms(one.rtt_ms), `${one.loss.toFixed(1)} %`, count(one.packets), bytes(one.bytes), `${one.share.toFixed(0)} %`,
    ]]));
    this.changes.show(this.log.map(([when, words], n) => [`${this.log.length - n}`, [when, words]]));
    this.reasons.show((tunnel?.reasons ?? []).map((one) => [`${one.why} ${one.channel}`, [one.why, one.channel, count(one.packets), ms(one.gained_ms)]]));
  }
}

export const VIEWS = [new Now(), new Programs(), new Network(), new Connection(), new Host(), new Steering(), new Messages(), new Lab()];
