// Keeps the page true: as a stream of what changes, or by asking again where no stream comes through.

import { start as moveBars } from "./bars.js";
import { act, ask, key } from "./gateway.js";
import { morph } from "./morph.js";
import { compare, say } from "./said.js";
import { events } from "./stream.js";

const POLL_MS = 2_000;
// A stream that was blocked may come through later.
const STREAM_AGAIN_MS = 30_000;

const live = document.getElementById("live");
const link = document.getElementById("link");
const forget = document.getElementById("forget");
const confirmation = document.getElementById("confirm");

// Whoever watches now; another view is another watch.
let watching = new AbortController();
let watched = location.search;
let movesFocus = false;
// The call whose end is to be confirmed.
let toCancel = null;

class Refused extends Error {}

async function watch() {
  watching.abort();
  const mine = new AbortController();
  watching = mine;
  watched = location.search;
  let streamAt = 0;
  while (watching === mine) {
    try {
      const isTime = performance.now() >= streamAt;
      if (isTime && (await stream(mine)) === 0) streamAt = performance.now() + STREAM_AGAIN_MS;
      if (watching === mine) await poll(mine);
    } catch (error) {
      if (watching !== mine) return;
      if (error instanceof Refused) return lock();
      tell("lost", `no answer since ${lastSeen.toLocaleTimeString()}`);
    }
    if (watching === mine) await new Promise((done) => setTimeout(done, POLL_MS));
  }
}

// Shows what comes until it ends, and returns how often something came.
async function stream(mine) {
  const silence = new AbortController();
  let count = 0;
  try {
    const response = await piece("events", AbortSignal.any([mine.signal, silence.signal]));
    for await (const html of events(response, silence)) {
      if (watching !== mine) break;
      show(html);
      tell("live", "live");
      count += 1;
    }
  } catch (error) {
    if (error instanceof Refused) throw error;
  }
  return count;
}

async function poll(mine) {
  const response = await piece("now", mine.signal);
  const html = await response.text();
  if (watching !== mine) return;
  show(html);
  tell("polling", `asked every ${POLL_MS / 1_000} s`);
}

async function piece(name, signal) {
  const response = await ask(`/lifesign/page/${name}${location.search}`, { signal });
  if (response.status === 401 || response.status === 403) throw new Refused();
  if (!response.ok) throw new Error(`the gateway answered ${response.status}`);
  return response;
}

let lastSeen = new Date();

// Shows what the gateway has drawn. It has escaped whatever others chose.
function show(html) {
  lastSeen = new Date();
  const hadFocus = live.contains(document.activeElement);
  const drawn = new DOMParser().parseFromString(`<div id="live">${html}</div>`, "text/html");
  const next = drawn.getElementById("live");
  localise(next);
  morph(live, next);
  const title = document.getElementById("title");
  document.title = `${title.textContent} - lifesign`;
  moveBars();
  compare();
  const hasLost = hadFocus && !live.contains(document.activeElement);
  if (movesFocus || hasLost) title.focus();
  movesFocus = false;
}

// Times of day are the reader's own, and so is the address.
function localise(within) {
  for (const time of within.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    time.textContent = "full" in time.dataset ? at.toLocaleString() : at.toLocaleTimeString();
  }
  for (const code of within.querySelectorAll("[data-origin]")) {
    code.textContent = code.textContent.replace("http://127.0.0.1:4631", location.origin);
  }
}

// Tells how the page is kept true.
function tell(state, words) {
  if (link.dataset.state && link.dataset.state !== state) say(words);
  link.dataset.state = state;
  link.className = `badge is-${state}`;
  link.textContent = words;
  forget.hidden = key.get() === null;
}

// The key was refused, or one is asked for now that was not before: the page says so itself.
function lock() {
  key.forget();
  location.reload();
}

function go(address) {
  history.pushState(null, "", address);
  movesFocus = true;
  watch();
}

function isPlainClick(event) {
  return event.button === 0 && !(event.metaKey || event.ctrlKey || event.shiftKey || event.altKey);
}

function confirmCancel(call) {
  toCancel = call;
  confirmation.showModal();
}

// Word that it was closed may come when it is open again for another call; this comes at once.
confirmation.addEventListener("submit", (event) => {
  if (event.submitter.value !== "cancel") return;
  const path = `/lifesign/calls/${encodeURIComponent(toCancel)}/cancel`;
  tellOf(act(path), "the call is cancelled");
});

async function release(id) {
  await tellOf(act(`/lifesign/holds/${encodeURIComponent(id)}/release`), "the hold is released");
}

async function tellOf(acting, done) {
  try {
    say((await acting) ?? done);
  } catch {
    say("the gateway does not answer");
  }
}

document.addEventListener("click", (event) => {
  const { cancel: call, release: hold } = event.target.closest("button")?.dataset ?? {};
  if (call) return confirmCancel(call);
  if (hold) return void release(hold);
  const anchor = event.target.closest("a[href]");
  const isView = anchor && live.contains(anchor) && anchor.origin === location.origin;
  if (isView && isPlainClick(event)) {
    event.preventDefault();
    go(anchor.href);
  }
});

// A step to a place within a view is none to another view.
window.addEventListener("popstate", () => {
  if (location.search === watched) return;
  movesFocus = true;
  watch();
});

forget.addEventListener("click", lock);

live.addEventListener("submit", async (event) => {
  event.preventDefault();
  const field = document.getElementById("key");
  const problem = document.getElementById("refused");
  key.set(field.value.trim());
  try {
    await piece("now", AbortSignal.timeout(10_000));
  } catch (error) {
    key.forget();
    problem.textContent =
      error instanceof Refused ? "That is not the admin key." : "The gateway does not answer.";
    field.select();
    return;
  }
  movesFocus = true;
  watch();
});

document.documentElement.classList.add("has-script");
localise(live);
const isLocked = document.getElementById("unlock") || document.querySelector(".locked");
if (!isLocked || key.get() !== null) {
  watch();
} else {
  link.textContent = "locked";
}
