// One state of headstart, at one moment, in place of what the server tells: what the pictures beside this file show. Run before the page's own
// programs; EMPTY is set by the test.

const at_s = 1_795_860_000;
const LOOKS = 120;
let looks = 0;
Date.now = () => at_s * 1000 - (LOOKS - looks) * 500;
performance.now = () => looks * 500;
const RealDate = Date;
Date = class extends RealDate { constructor(...given) { super(...(given.length > 0 ? given : [RealDate.now()])); } };

const bounds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const spread = (...buckets) => ({ buckets: [...buckets, ...Array(15 - buckets.length).fill(0)], sum_s: 1 });
const race = (name, app, ...events) => ({ name, app, race: 'adaptive', omitted: 0, events: events.map(([at_ms, event, rest]) => ({ at_ms, event, ...rest })) });
const [v4, v6] = ['198.51.100.7', '2001:db8:7::7'];
const asked = [[0, 'asked'], [0.1, 'query', { record: 'AAAA', before: 0 }], [0.1, 'query', { record: 'A', before: 0 }]];
const answers = [[11, 'answer', { record: 'AAAA', addresses: ['2001:db8:7::7'], says: 'ok' }], [12, 'answer', { record: 'A', addresses: ['198.51.100.7'], says: 'ok' }], [12, 'told', { addresses: ['2001:db8:7::7', '198.51.100.7'] }], [12.2, 'wanted', { to: v6 }]];
const RACES = [
  race('www.lab.example', 'curl', ...asked, ...answers, [12.3, 'attempt', { to: v6 }], [54, 'attempt', { to: v4 }], [78, 'connected', { to: v4, rtt_ms: 24 }], [78.1, 'handed-over', { to: v4, connected: true }], [79, 'closed', { to: v6, connected: false }]),
  race('mirror.lab.example', 'apt', ...asked, ...answers, [12.3, 'attempt', { to: v6 }], [33, 'connected', { to: v6, rtt_ms: 20.7 }], [33.1, 'handed-over', { to: v6, connected: true }]),
  race('hole.lab.example', 'wget', ...asked, ...answers, [12.3, 'attempt', { to: v6 }], [54, 'attempt', { to: v4 }], [4012, 'failed', { to: v6, errno: 110 }], [4050, 'failed', { to: v4, errno: 110 }], [4050, 'given-up', { errno: 110 }]),
  race('git.lab.example', 'git', [0, 'asked'], [0, 'from-cache', { record: 'AAAA', addresses: ['2001:db8:7::7'] }], [0, 'from-cache', { record: 'A', addresses: ['198.51.100.7'] }], [0.1, 'told', { addresses: ['2001:db8:7::7'] }], [0.2, 'wanted', { to: v6 }], [0.3, 'handed-over', { to: v6, connected: true }]),
];
const timings = {
  lookup: { curl: { none: { ok: spread(8, 2, 1, 3, 22, 9, 2) } }, git: { none: { ok: spread(14, 1, 0, 2, 6) } }, wget: { none: { ok: spread(2, 0, 0, 1, 5, 3), unanswered: spread(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3) } } },
  connect: { curl: { IPv4: { ok: spread(6, 2, 0, 1, 14, 8, 3, 1) }, IPv6: { ok: spread(9, 1, 0, 0, 6, 2) } }, git: { IPv6: { ok: spread(18, 1, 0, 1, 3) } }, wget: { IPv4: { ok: spread(1, 0, 0, 0, 4), failed: spread(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2) } } },
  handshake: { curl: { IPv4: { ok: spread(0, 0, 0, 2, 18, 11, 3, 1) }, IPv6: { ok: spread(0, 0, 0, 0, 12, 5, 1) } }, git: { IPv6: { ok: spread(0, 0, 0, 3, 16, 4) } }, wget: { IPv4: { ok: spread(0, 0, 0, 0, 4, 1) } } },
};
const family = (name, rtt_ms, lookup_ms, more) => ({ family: name, has_route: true, rtt_ms, lookup_ms, unanswered: false, ...more });
const supervisor = {
  pid: 4711, up_ms: 5_400_000, runs_omitted: 0, wakeups: { network: 812, client: 640, timer: 77 }, resolvers: ['192.0.2.53:53', '[2001:db8::53]:53'],
  runs: { 5001: { command: 'curl', via: 'library' }, 5002: { command: 'git', via: 'library' } },
  tally: { resolved: 80, unresolved: 3, handed_over: 74, handed_over_in_progress: 4, at_once: 31, failed: 2, unused: 5, cache_hits: 96, cache_misses: 64, spares: 22, spares_taken: 19, lookup_wait: { secs: 1, nanos: 210_000_000 }, connect_wait: { secs: 1, nanos: 650_000_000 }, handshakes: { secs: 2, nanos: 900_000_000 } },
  timings, families: { IPv4: family('IPv4', 24.1, 12.2), IPv6: family('IPv6', 20.7, 11.4, { suspended_until_ms: 5_460_000 }) },
  races: Object.fromEntries(RACES.map((one, n) => [String(n + 1), { ...one, began_ms: 5_390_000 - n * 7000 }])),
  networks: { '00c0ffee00c0ffee': { here: true, v4: '192.0.2.0', v6: '2001:db8::', peers_omitted: 0, peers: { '198.51.100.7': { rtt_us: 24_100, has_answered: true, failing: false }, '2001:db8:7::7': { rtt_us: 20_700, has_answered: true, failing: true } } }, '00decade00decade': { here: false, peers: {}, peers_omitted: 0 } },
  programs: { curl: { launches: 12, names: ['www.lab.example'] }, git: { launches: 5, names: ['git.lab.example'] } },
};
const meters = { connect_ms: 24.4, rtt_ms: 31.2, least_rtt_ms: 23.9, retransmissions: 4, longest_down_gap_ms: 48 };
const measurements = { 6001: {
  at_ms: 90_000, packets: 41_230, left_out: 0, lost: 0, via: 'tun', omitted: 0,
  apps: { rsync: { open: 1, connections: 3, failed: 0, lookups: 2, lookup_ms: 12.1, up_bytes: 48_000_000, down_bytes: 1_200_000, meters }, chromium: { open: 2, connections: 19, failed: 1, lookups: 14, lookup_ms: 10.4, up_bytes: 900_000, down_bytes: 21_000_000, meters: { ...meters, retransmissions: 0 } } },
  connections: { 'tcp 192.0.2.9:40001 198.51.100.9:22': { app: 'rsync', transport: 'tcp', local: '192.0.2.9:40001', peer: '198.51.100.9:22', began_ms: 30_000, up_bytes: 48_000_000, down_bytes: 1_200_000, meters }, 'tcp 192.0.2.9:40002 198.51.100.7:443': { app: 'chromium', transport: 'tcp', local: '192.0.2.9:40002', peer: '198.51.100.7:443', began_ms: 81_000, up_bytes: 9000, down_bytes: 4_100_000, meters: { ...meters, retransmissions: 0 } } },
} };
const session = (peer, technique, state, more) => ({ peer, technique, state, age_ms: 42_000, connections: 4, unconfirmed: 1, rtt_ms: 25.2, shortest_ms: 22.8, sent: 1380, received: 12, copies: 166, copied_bytes: 9130, bytes: 85_000, stalls: 2, ahead: 21, saved_ms: 3150, conflated: 0, ...more });
const messages = { 7001: { program: 'realtime send', omitted: 0, sessions: { 1: session('198.51.100.20:7602', 'hedge', 'lossy') } }, 7002: { program: 'relay serve', omitted: 0, sessions: { 1: session('192.0.2.77:50001', 'auto', 'clean', { sent: 12, received: 1380, copies: 0, copied_bytes: 0, bytes: 900, ahead: 0, saved_ms: 0 }) } } };
const channel = (name, more) => ({ channel: name, uses: 'primary', alive: true, loss: 0.4, peer: '203.0.113.1:51820', rtt_ms: 48, packets: 51_200, bytes: 61_000_000, share: 88, ...more });
const daemon = {
  pid: 800, up_ms: 9_000_000, initial_windows: 14, omitted: 0, problems: [],
  changes: ['ip route add 198.51.100.7 via 192.0.2.1 dev eth0 initcwnd 32', 'ip route add 203.0.113.9 via 192.0.2.1 dev eth0 initcwnd 24', 'tun steer0'],
  steering: { interface: 'steer0', policy: 'pkt-state', replaced: 210, held: [120, 2], bundled: 88, queued: 3, failovers: 1, moved: 41, twice: 9, again: 6, dropped: 0,
    channels: [channel('fat'), channel('fast', { rtt_ms: 6.1, loss: 0.1, packets: 9800, bytes: 8_300_000, share: 12 })],
    reasons: [{ why: 'sooner over fast', channel: 'fast', packets: 9100, gained_ms: 38.2 }, { why: 'bulk', channel: 'fat', packets: 50_900, gained_ms: 0 }, { why: 'tail of a flow', channel: 'fast', packets: 700, gained_ms: 41 }] },
};
const NOW = { version: '0.1.0', bounds, problems: [], measurements, messages, measured: {}, supervisor, daemon };
const NOTHING = { version: '0.1.0', bounds, problems: [], measurements: {}, messages: {}, measured: {} };

/** What has changed by the n-th look, two a second. */
function change(n) {
  const wave = 1 + Math.sin(n / 9);
  // Counts only go up.
  const grown = n + 6 * Math.sin(n / 9);
  const up = (value, step) => Math.round(value + grown * step);
  return {
    supervisor: { up_ms: 5_400_000 + n * 500, tally: { resolved: up(80, 3), handed_over: up(74, 2.2), failed: 2 + (n > 80 ? 1 : 0) }, families: { IPv4: { rtt_ms: 24 + 2 * wave, lookup_ms: 12 + wave }, IPv6: { rtt_ms: 20 + 3 * wave, lookup_ms: 11 + wave } } },
    measurements: { 6001: { at_ms: 90_000 + n * 500, apps: { rsync: { up_bytes: up(48_000_000, 400_000) }, chromium: { down_bytes: up(21_000_000, 150_000) } } } },
    messages: { 7001: { sessions: { 1: { sent: 1380 + 16 * n, copies: up(166, 2), bytes: 85_000 + 900 * n, copied_bytes: up(9130, 90) } } }, 7002: { sessions: { 1: { received: 1380 + 16 * n } } } },
    daemon: { steering: { ...daemon.steering, channels: [channel('fat', { rtt_ms: 46 + 4 * wave, bytes: up(61_000_000, 700_000) }), channel('fast', { rtt_ms: 6 + wave, loss: 0.1, packets: 9800, bytes: up(8_300_000, 90_000), share: 12 })] } },
  };
}

const points = 240;
const moments = Array.from({ length: points }, (_, n) => at_s - (points - n) * 10);
const line = (of) => moments.map((_, n) => (n > 100 && n < 115 ? null : of(n)));
const history = {
  width_s: 10, at: moments, notes: [], programs: ['curl', 'git', 'wget'], networks: [[moments[0], '00decade00decade'], [moments[130], '00c0ffee00c0ffee']],
  lines: {
    connect_median: line((n) => 9 + 4 * Math.sin(n / 20)), connect_p90: line((n) => 31 + 8 * Math.sin(n / 14)), handshake_median: line((n) => 24 + 3 * Math.sin(n / 25)),
    lookup_median: line((n) => 8 + Math.sin(n / 9)), lookup_p90: line((n) => 19 + 5 * Math.sin(n / 17)), measured_connect_median: line(() => 25), measured_connect_p90: line((n) => 40 + 10 * Math.sin(n / 11)),
    down_bytes: line((n) => 900_000 * (1 + Math.sin(n / 30))), up_bytes: line((n) => 400_000 * (1.2 + Math.cos(n / 22))), retransmissions: line((n) => (n % 40 < 6 ? 2.5 : 0.1)),
    'rtt IPv4': line((n) => 24 + 2 * Math.sin(n / 15)), 'rtt IPv6': line((n) => 21 + 2 * Math.cos(n / 15)), 'lookup IPv4': line(() => 12), 'lookup IPv6': line((n) => 11 + Math.sin(n / 9)),
    lookups: line((n) => 2 + Math.sin(n / 12)), connections: line((n) => 1.6 + Math.sin(n / 12)), failed: line((n) => (n > 200 ? 0.2 : 0)), 'avoided IPv4': line(() => 0), 'avoided IPv6': line((n) => (n > 190 ? 1 : 0)),
  },
};
const row = (condition, arm, ours, more) => ({ claim: 'p1-connect', condition, metric: 'connect time, median', unit: 'ms', arm, baseline_arm: 'sequential', ours, baseline: 260, ratio: ours / 260, interval: [0.93 * ours / 260, 1.07 * ours / 260], paper: 0.4, verdict: 'reproduced', ...more });
const outcome = (seed, shift) => ({ version: 1, experiment: 'connect-model', valid: true, why_invalid: [], seed, extent: { quick: true, speeds: 'sim', seconds: 34 }, notes: ['A note that a reader must know.'],
  rows: [row('healthy', 'adaptive', 252 + shift, { verdict: 'weaker' }), row('IPv6 answers lost', 'adaptive', 96 + shift / 20), row('IPv6 black hole', 'adaptive', 118 + 2 * shift), row('both slow', 'happy-eyeballs-v2', 301, { verdict: 'not reproduced' })],
  prices: [{ condition: 'healthy', arm: 'adaptive', what: 'connection attempts a visit', unit: '', amount: 1.12 }], conditions: [{ name: 'healthy', about: 'a home network, 20 ms' }] });
const said = (seed) => ({ experiment: 'connect-model', valid: true, seed, extent: { quick: true, speeds: 'sim', seconds: 34 }, rows: 4, verdicts: { reproduced: 2, weaker: 1, 'not reproduced': 1 } });
const told = (name, seed, shift) => ({ id: `0/${name}`, name, rows_left_out: 0, result: outcome(seed, shift) });
const ANSWERS = {
  '/api/history': history,
  '/api/explain': { host: 'www.lab.example', race: { ...RACES[0], began_ago_ms: 10_000 }, cached: [{ name: 'www.lab.example', record: 'AAAA', app: 'curl', addresses: ['2001:db8:7::7'], left_ms: 240_000 }, { name: 'www.lab.example', record: 'A', app: 'curl', addresses: ['198.51.100.7'], left_ms: 240_000 }], addresses: [{ address: '198.51.100.7', rtt_ms: 24.1, has_answered: true, failing: false, tried_ago_ms: 10_000 }, { address: '2001:db8:7::7', rtt_ms: 66, has_answered: false, failing: true, tried_ago_ms: 10_000 }] },
  '/api/results': { folders: ['headstart-results'], left_out: 0, more: false, campaigns: [{ name: 'night', planned: 40, counted: 38, missing: 1, invalid: 1 }],
    results: [{ id: '0/tuesday', name: 'tuesday', written_s: at_s - 4000, said: said('2') }, { id: '0/monday', name: 'monday', written_s: at_s - 90_000, said: said('1') }, { id: '0/cut', name: 'cut', written_s: at_s - 95_000, said: { problem: 'damaged: EOF while parsing an object' } }] },
  '/api/result?id=0%2Fmonday': told('monday', '1', 0),
  '/api/result?id=0%2Ftuesday': told('tuesday', '2', 30),
};

const event = (kind, value) => new TextEncoder().encode(`event: ${kind}\ndata: ${JSON.stringify(value)}\n\n`);
window.fetch = async (path) => {
  if (path === '/api/events') {
    const pull = (to) => {
      looks += 1;
      to.enqueue(looks === 1 ? event('snapshot', EMPTY ? NOTHING : NOW) : event('patch', EMPTY ? {} : change(looks)));
      // Then it stays as it is.
      return looks < LOOKS ? undefined : new Promise(() => {});
    };
    return new Response(new ReadableStream({ pull }, { highWaterMark: 0 }));
  }
  const [name, value] = Object.entries(ANSWERS).find(([start]) => path.startsWith(start)) ?? [];
  return new Response(JSON.stringify(value), { status: name ? 200 : 404 });
};
window.recorded = () => looks >= LOOKS;
