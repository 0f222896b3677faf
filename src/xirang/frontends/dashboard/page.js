// The dashboard: follows the server's stream while somebody looks, and shows what it says.
import { History, sum } from "./history.js";
import { PLOTS, draw } from "./plots.js";
import { lanes, models, slowest, switches, tiles } from "./tables.js";

const RETRY_MS = 3000;
const NOW_S = 10;          // tiles and captions speak of the last seconds
const byId = (name) => document.getElementById(name);
const history = new History();
const systemDark = matchMedia("(prefers-color-scheme: dark)");
const visible = new Set();
let about = null, isPaused = false, isDue = false, connection = null, key = recall("xirang-key", sessionStorage);

function show() {
  if (!about || !history.last || document.hidden) return;
  const scope = byId("scope").value, rangeS = Number(byId("range").value);
  const points = history.recent(rangeS);
  const offset = Date.now() - history.last.now_ms;
  const view = {
    history, about, scope, rangeS, points, frame: history.last, bounds: about.bounds,
    ticks: points.map((point) => new Date(point.at + offset)),
    total: sum(history.recent(NOW_S), scope),
  };
  tiles(view); switches(view); lanes(view); slowest(view); models({ ...view, points: history.recent(NOW_S) });
  for (const name in PLOTS) {
    // These two are of the whole range, not of the last seconds.
    const isOfAll = name === "batches" || name === "stages";
    draw(name, isOfAll ? { ...view, total: sum(points, scope) } : view, visible.has(name));
  }
}

function take(kind, content) {
  if (kind === "about") {
    about = content;
    byId("version").textContent = content.version;
    choices(content.models.map((model) => model.name));
  } else {
    history.add(content);
    const end = content.is_draining ? "the server is going down" : content.is_off ? "switched off under overload" : "";
    say(end || (isPaused ? "paused" : "live"), end !== "");
    if (!isPaused) showSoon();
  }
}

/** Draws once, however many frames have come together. */
function showSoon() {
  if (!isDue) requestAnimationFrame(() => { isDue = false; if (!isPaused) show(); });
  isDue = true;
}

function choices(names) {
  const select = byId("scope"), chosen = select.value;
  select.replaceChildren(new Option("all models", ""), ...names.map((name) => new Option(name, name)));
  select.value = names.includes(chosen) ? chosen : "";
}

/** Reads the stream until it ends; a key rides in a header, which an EventSource could not send. */
async function follow(signal) {
  const headers = key ? { authorization: `Bearer ${key}` } : {};
  const response = await fetch("dashboard/events", { headers, signal, cache: "no-store" });
  byId("key-form").hidden = response.status !== 401;
  if (response.status === 401) throw new Error("an API key is needed");
  if (!response.ok) throw new Error(`the server says ${response.status}`);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const [, kind, data] = /^event: (\w+)\ndata: (.*)$/s.exec(event);
      take(kind, JSON.parse(data));
    }
  }
}

async function connect() {
  connection?.abort();
  const mine = connection = new AbortController();
  while (!mine.signal.aborted) {
    try {
      await follow(mine.signal);
      if (!byId("state").classList.contains("lost")) say("the server ended the stream", true);
    } catch (error) {
      if (mine.signal.aborted) return;
      say(`${error.message}; trying again`, true);
    }
    await new Promise((wake) => setTimeout(wake, RETRY_MS));
  }
}

function say(text, isLost = false) {
  const state = byId("state");
  if (state.textContent !== text) state.textContent = text;
  state.classList.toggle("lost", isLost);
}

function recall(name, place) {
  try { return place.getItem(name); } catch { return null; }
}

function keep(name, value, place) {
  try { place.setItem(name, value); } catch { /* not allowed here: it is forgotten with the page */ }
}

function setTheme(name) {
  if (name) document.documentElement.dataset.theme = name;
  show();
}

byId("scope").addEventListener("change", show);
byId("range").addEventListener("change", show);
byId("controls").addEventListener("submit", (event) => event.preventDefault());
byId("pause").addEventListener("click", () => {
  isPaused = !isPaused;
  byId("pause").setAttribute("aria-pressed", isPaused);
  say(isPaused ? "paused" : "live");
  if (!isPaused) show();
});
byId("theme").addEventListener("click", () => {
  const chosen = document.documentElement.dataset.theme || (systemDark.matches ? "dark" : "light");
  const other = chosen === "dark" ? "light" : "dark";
  keep("xirang-theme", other, localStorage);
  setTheme(other);
});
byId("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  key = byId("key").value;
  keep("xirang-key", key, sessionStorage);
  connect();
});
systemDark.addEventListener("change", show);
document.addEventListener("visibilitychange", () => {
  // Nobody looks: the server need not make anything for us.
  if (document.hidden) { connection?.abort(); say("not looking"); } else connect();
});
const watcher = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (isIntersecting) visible.add(target.id); else visible.delete(target.id);
  }
  if (!isPaused) show();
}, { rootMargin: "200px" });
for (const name in PLOTS) watcher.observe(byId(name));
byId("plotless").hidden = Boolean(window.Plotly);
document.body.classList.toggle("plotless", !window.Plotly);
setTheme(recall("xirang-theme", localStorage));
connect();
