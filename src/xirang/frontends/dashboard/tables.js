// Fills the tiles and tables; rows stay the same elements, so that focus and open details stay.
import { percent, quantile, shown, sum, time } from "./history.js";

const SLOWEST_SHOWN = 8;

export function tiles({ total, frame, scope, bounds }) {
  const now = frame.models.filter((model) => !scope || model.name === scope);
  const add = (key) => now.reduce((sum, model) => sum + model[key], 0);
  const figures = [
    ["requests/s", shown(total.rate)],
    ["in time", percent(total.onTime), total.onTime !== null && total.onTime < 0.99],
    ["p50", time(quantile(0.5, bounds.spans_ms, total.spans.total))],
    ["p99", time(quantile(0.99, bounds.spans_ms, total.spans.total))],
    ["rows a run", shown(total.rowsMean)],
    ["padding", percent(total.padding)],
    ["instances", `${shown(total.busy)} busy`],
    ["waiting", shown(add("waiting"))],
    ...frame.devices.map(({ name, level, shed }) => [
      `overload, ${name}${shed ? `; ${percent(shed)} turned away` : ""}`, `${level} of 3`, level > 0]),
  ];
  keyed(document.getElementById("figures"), figures, (_, i) => i, "div", (tile, [label, value, isBad]) => {
    if (!tile.firstChild) tile.append(element("dt"), element("dd"));
    put(tile.firstChild, label);
    put(tile.lastChild, value);
    tile.lastChild.className = isBad ? "bad" : "";
  });
}

const FUNCTIONS = {
  tracing: "traces", timing: "stage times and explanations", recorder: "the recorder",
  dashboard: "this dashboard", "cache writes": "new entries of the cache",
  "optional outputs": "optional outputs", "request logs": "lines about requests in the log",
  "full model": "full models, where there is something cheaper",
};

/** What overload has switched off; nothing is shown while all is on. */
export function switches({ frame }) {
  const place = document.getElementById("off");
  const off = frame.devices.filter((device) => device.off.length)
    .map((device) => `Overload on ${device.name} has switched off ${device.off.map((name) => FUNCTIONS[name] || name).join(", ")}.`);
  place.hidden = !off.length;
  put(place, off.join(" "));
}

export function lanes({ frame, scope }) {
  const all = frame.models.filter((model) => !scope || model.name === scope)
    .flatMap((model) => model.lanes.map((lane) => ({ model: model.name, ...lane })))
    .sort((a, b) => a.model.localeCompare(b.model) || a.priority - b.priority || a.cost_class - b.cost_class);
  const key = (lane) => `${lane.model}/${lane.priority}/${lane.cost_class}`;
  keyed(document.getElementById("lanes"), all, key, "tr", (row, lane) => cells(row, [
    lane.model, lane.priority, `< ${time(2 ** lane.cost_class / 1e6)}`, shown(lane.depth), shown(lane.rows), time(lane.oldest_ms), time(lane.wait_ms),
  ]));
  put(document.getElementById("lanes-note"), all.length ? "" : "Nobody waits.");
}

export function models({ frame, about, points, bounds }) {
  const told = new Map(about.models.map((model) => [model.name, model]));
  const all = frame.models.map((model) => ({ ...(told.get(model.name) || {}), ...model }));
  keyed(document.getElementById("models"), all, (model) => model.name, "tr", (row, model) => {
    const total = sum(points, model.name);
    cells(row, [
      model.name, [model.verdict, ...(model.overrides || [])].filter(Boolean).join("; ") || "–",
      shown(total.rate), time(quantile(0.99, bounds.spans_ms, total.spans.total)), shown(total.rowsMean),
      shown(model.instances), shown(model.running), shown(model.waiting), percent(total.busy), time(model.budget_ms),
    ]);
  });
}

export function slowest({ history, scope, rangeS }) {
  const begin = history.last.now_ms - rangeS * 1000;
  const all = history.slowest.filter((each) => each.seen_ms > begin && (!scope || each.model === scope));
  const top = all.sort((a, b) => b.total_ms - a.total_ms).slice(0, SLOWEST_SHOWN);
  keyed(document.getElementById("slowest"), top, (each) => `${each.model}/${each.request}`, "li", (item, each) => {
    if (item.firstChild) return;
    const summary = element("summary");
    summary.append(element("b", time(each.total_ms)), ` ${each.model}, waited ${time(each.queue_ms)}, ran ${time(each.ran_ms)} ${company(each)}, by ${each.trigger}`);
    const details = element("details");
    details.append(summary, element("p", sentence(each)));
    item.append(details);
  });
  put(document.getElementById("slowest-note"), top.length ? "" : "No request was answered.");
}

/** An explanation as people would say it. */
export function sentence(each) {
  const budget = each.budget_ms === null ? "It had no budget"
    : `Of its budget of ${time(each.budget_ms)}, ${time(Math.max(0, each.slack_ms))} were left to spare when the run was cut`;
  const padding = each.padding_share ? `; ${percent(each.padding_share)} of its part was padding, from ${each.length} to ${each.target_length}` : "";
  const device = each.level ? ` The device was at level ${each.level} of overload.` : "";
  const memory = each.memory_mib ? ` and ${shown(each.memory_mib, "MiB")} of memory` : "";
  return `Request ${each.request}, priority ${each.priority}, of a cost below ${time(2 ** each.cost_class / 1e6)}, ran in run ${each.run} on instance ${each.instance}. `
    + `The run went by ${each.trigger}, at a window of ${time(each.window_ms)} and a threshold of ${time(each.threshold_ms)} of work; ${each.left_behind} stayed behind. ${budget}. `
    + `It ran ${company(each)}: ${each.batch_rows} rows${padding}. The run was expected to take ${time(each.predicted_ms)} and took ${time(each.ran_ms)}; `
    + `its share of that is ${percent(each.device_share)}, ${time(each.device_ms)}${memory}.${device}`;
}

function company({ mates }) {
  return mates ? `with ${mates} other${mates > 1 ? "s" : ""}` : "alone";
}

function cells(row, values) {
  values.forEach((value, i) => {
    if (!row.cells[i]) {
      const cell = element(i ? "td" : "th");
      if (!i) cell.scope = "row";
      row.append(cell);
    }
    put(row.cells[i], String(value));
  });
}

/** Makes the children of a place match the items, keeping the element of each key. */
function keyed(place, items, key, tag, fill) {
  const known = new Map([...place.children].map((child) => [child.dataset.key, child]));
  items.forEach((item, i) => {
    const name = String(key(item, i));
    const child = known.get(name) || element(tag);
    child.dataset.key = name;
    known.delete(name);
    fill(child, item);
    if (place.children[i] !== child) place.insertBefore(child, place.children[i] || null);
  });
  for (const child of known.values()) child.remove();
}

function element(tag, text = "") {
  const made = document.createElement(tag);
  made.textContent = text;
  return made;
}

function put(place, text) {
  if (place.textContent !== text) place.textContent = text;
}
