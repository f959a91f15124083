// The page: holds the state that the server sends, and shows the view that was chosen.

import { h, say } from './parts.js';
import { VIEWS } from './views.js';

const main = document.getElementById('main');
const live = document.getElementById('live');
const state = { now: undefined };
let view;

/** The token that is behind # in the address that headstart printed, 144 bits; from then on it is this tab's alone. No view is named like one. */
function token() {
  const given = location.hash.slice(1);
  if (/^[\w-]{24}$/.test(given)) {
    sessionStorage.setItem('token', given);
    history.replaceState(undefined, '', '#now');
  }
  return sessionStorage.getItem('token') ?? '';
}

const TOKEN = token();

/** Asks the server; the answer, or an error in words. */
export async function ask(path, method = 'GET') {
  const answer = await fetch(path, { method, headers: { authorization: `Bearer ${TOKEN}` } });
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer.json();
}

/** JSON Merge Patch (RFC 7396). */
function merge(target, patch) {
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete target[key];
    else if (typeof value === 'object' && !Array.isArray(value)) {
      if (typeof target[key] !== 'object' || Array.isArray(target[key])) target[key] = {};
      merge(target[key], value);
    } else target[key] = value;
  }
}

function take(kind, value) {
  if (kind === 'snapshot') state.now = value;
  else if (state.now) merge(state.now, value);
  say(document.getElementById('version'), `headstart ${state.now.version}`);
  for (const one of VIEWS) one.learn?.(state.now);
  view?.show(state.now);
}

/** Reads events until there are no more. */
async function listen() {
  const answer = await fetch('/api/events', { headers: { authorization: `Bearer ${TOKEN}` } });
  if (answer.status === 401) throw new Error('wrong token');
  if (!answer.ok) throw new Error('not reachable');
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    for (let end; (end = text.indexOf('\n\n')) >= 0; text = text.slice(end + 2)) {
      const [, kind, data] = /^event: (\w+)\ndata: (.*)$/.exec(text.slice(0, end)) ?? [];
      if (kind) {
        status('on', 'live');
        take(kind, JSON.parse(data));
      }
    }
  }
}

function status(kind, words) {
  live.className = kind;
  say(live, words);
}

async function stay() {
  for (;;) {
    try {
      await listen();
      status('off', 'reconnecting');
    } catch (why) {
      if (why.message === 'wrong token') {
        status('off', 'no access');
        main.replaceChildren(h('p', { class: 'empty' }, 'Open the whole address that headstart printed, including the part after #.'));
        return;
      }
      status('off', 'stopped');
    }
    await new Promise((done) => setTimeout(done, 1000));
  }
}

/** A part of the address; as it is written where it is not well formed. */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function choose() {
  const [name, ...rest] = location.hash.slice(1).split('/');
  const next = VIEWS.find((one) => one.name === name) ?? VIEWS[0];
  for (const link of document.querySelectorAll('#views a')) {
    if (link.dataset.name === next.name) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  if (view !== next) {
    view?.leave?.();
    view = next;
    main.replaceChildren(view.element());
    document.title = `${view.title} – headstart`;
  }
  view.enter?.(decoded(rest.join('/')));
  if (state.now) view.show(state.now);
}

document.getElementById('views').append(...VIEWS.map((one, at) => {
  const link = h('a', { href: `#${one.name}`, 'data-name': one.name, 'aria-keyshortcuts': String(at + 1) }, one.title);
  return h('li', {}, link);
}));
addEventListener('hashchange', () => {
  // The link to the content is none to a view.
  if (location.hash !== '#main') choose();
});
addEventListener('keydown', (event) => {
  const typing = ['INPUT', 'TEXTAREA'].includes(document.activeElement?.tagName);
  const chosen = VIEWS[Number(event.key) - 1];
  if (chosen && !typing && !event.ctrlKey && !event.altKey && !event.metaKey) location.hash = `#${chosen.name}`;
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => view?.repaint?.());
choose();
stay();
