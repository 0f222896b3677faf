// Draws the plots in the colours of the page; each has a caption that says the same in words.
import { STAGES, percent, quantile, shown, sum, time } from "./history.js";

const SMOOTH = 5;          // frames that a percentile of one instant is taken from
const MODELS_MAX = 6;      // lines that can be told apart
const STRIP_MS = 5000;
const TIME_AXIS = { type: "date", tickformat: "%H:%M:%S", tickangle: 0, hoverformat: "%H:%M:%S" };
const TRIGGERS = ["threshold", "window", "deadline", "alone", "fast", "drain"];

/** Name of a plot to a function of the view that gives its traces, layout and caption. */
export const PLOTS = { requests, latency, windows, stages, batches, padding, memory, instances };

/** Says it in words always, for whoever does not see; draws it only where it is seen. */
export function draw(name, view, isSeen) {
  const figure = document.getElementById(name);
  figure.hidden = name === "memory" && !view.frame.memory?.shares.length;
  if (figure.hidden) return;
  const { traces, layout, caption } = PLOTS[name](view);
  const place = figure.querySelector(".plot");
  const words = figure.querySelector("figcaption");
  if (words.textContent !== caption) words.textContent = caption;
  if (!window.Plotly || !isSeen) return;
  place.setAttribute("role", "img");
  place.setAttribute("aria-label", `${figure.querySelector("h2").textContent}: ${caption}`);
  if (layout.height) place.style.height = `${layout.height}px`;
  window.Plotly.react(place, traces, themed(layout), { responsive: true, displayModeBar: false });
}

function requests({ points, scope, total, ticks }) {
  const each = points.map((point) => sum([point], scope));
  const lost = each.map((one) => one.lostRate);
  const traces = [
    line("answered", ticks, each.map((one) => one.rate)),
    line("in time", ticks, each.map((one) => one.goodput), { dash: "dot" }),
  ];
  if (lost.some((rate) => rate > 0)) traces.push(line("not answered", ticks, lost));
  const caption = `${shown(total.rate)} answered a second, ${shown(total.goodput)} of them in time; ${shown(total.lostRate)} not answered`;
  return { traces, layout: { yaxis: { rangemode: "tozero" } }, caption };
}

function latency({ points, scope, total, ticks, bounds }) {
  const shares = [[0.5, "p50"], [0.95, "p95"], [0.99, "p99"]];
  const spans = points.map((_, i) => sum(points.slice(Math.max(0, i + 1 - SMOOTH), i + 1), scope).spans.total);
  const traces = shares.map(([share, name]) => line(name, ticks, spans.map((counts) => quantile(share, bounds.spans_ms, counts))));
  const caption = shares.map(([share, name]) => `${name} ${time(quantile(share, bounds.spans_ms, total.spans.total))}`).join(", ") + ", arrival to the end of the run";
  return { traces, layout: { yaxis: { rangemode: "tozero", ticksuffix: " ms" } }, caption };
}

function windows({ points, scope, ticks }) {
  const names = busiest(points, scope);
  const traces = [];
  for (const name of names) {
    const of = (key) => points.map(({ models }) => (models.get(name) || {})[key] ?? null);
    const label = (what) => (names.length > 1 ? `${name}: ${what}` : what);
    traces.push(line(label("window"), ticks, of("window")));
    if (names.length === 1) traces.push(line("threshold", ticks, of("threshold"), { dash: "dot" }));
    traces.push(line(label("demand"), ticks, of("demand"), { dash: "dash" }, { yaxis: "y2", opacity: 0.75 }));
  }
  const last = points.length ? points[points.length - 1].models : new Map();
  const caption = names.map((name) => {
    const now = last.get(name) || {};
    return `${name}: window ${time(now.window)}, threshold ${time(now.threshold)} of work, demand ${percent(now.demand)}`;
  }).join("; ");
  const layout = {
    yaxis: { rangemode: "tozero", ticksuffix: " ms" },
    yaxis2: { overlaying: "y", side: "right", rangemode: "tozero", tickformat: ".2~%", showgrid: false },
  };
  return { traces, layout, caption };
}

function stages({ total, bounds }) {
  const of = (share) => STAGES.map((stage) => quantile(share, bounds.spans_ms, total.spans[stage]));
  const bar = (name, values) => ({ type: "bar", orientation: "h", name, y: STAGES, x: values, hovertemplate: "%{y} " + name + " %{x:.3g} ms<extra></extra>" });
  const [middle, high] = [of(0.5), of(0.99)];
  const caption = STAGES.map((stage, i) => `${stage} ${time(middle[i])} (p99 ${time(high[i])})`).join(", ");
  const layout = {
    barmode: "group", bargap: 0.3,
    yaxis: { autorange: "reversed", type: "category" },
    xaxis: { ticksuffix: " ms", rangemode: "tozero", type: "linear" },
  };
  return { traces: [bar("p50", middle), bar("p99", high)], layout, caption };
}

function batches({ total, bounds }) {
  const all = total.batches.reduce((sum, count) => sum + count, 0);
  const labels = bounds.batch_rows.map((bound, i) => {
    const from = i ? bounds.batch_rows[i - 1] + 1 : 1;
    return from >= bound ? `${bound}` : `${from}–${bound}`;
  }).concat("more");
  const last = Math.max(4, total.batches.findLastIndex((count) => count > 0) + 1);
  const shares = total.batches.map((count) => count / (all || 1));
  const traces = [{
    type: "bar", name: "runs", x: labels.slice(0, last), y: shares.slice(0, last),
    hovertemplate: "%{x} rows: %{y:.1%}<extra></extra>",
  }];
  const why = TRIGGERS.filter((name) => total.triggers[name])
    .map((name) => `${name} ${percent(total.triggers[name] / total.grown.runs)}`).join(", ");
  const caption = `${shown(total.rowsMean)} rows a run` + (why ? `; runs by trigger: ${why}` : "");
  const layout = {
    yaxis: { tickformat: ".0%", rangemode: "tozero" },
    xaxis: { type: "category", title: { text: "rows of a run" } }, showlegend: false,
  };
  return { traces, layout, caption };
}

function padding({ points, scope, total, ticks }) {
  const shares = points.map((point) => sum([point], scope).padding);
  const traces = [line("padding", ticks, shares)];
  const caption = `${percent(total.padding)} of all elements were padding`;
  const top = Math.max(0.1, ...shares) * 1.1;
  return { traces, layout: { yaxis: { tickformat: ".0%", range: [0, top] }, showlegend: false }, caption };
}

/** What each model has of the pool, one upon the other: its weights and what runs use, then the surplus. */
function memory({ points, scope, frame, ticks }) {
  const shares = frame.memory.shares.filter((share) => !scope || share.name === scope);
  const colors = palette();
  const traces = shares.flatMap(({ name }, i) => {
    const of = (key) => points.map(({ memory }) => {
      const share = memory && memory.shares.find((each) => each.name === name);
      return share ? key(share) : 0;
    });
    const area = (what, key, opacity) => line(`${name}: ${what}`, ticks, of(key), { width: 0 }, {
      stackgroup: "all", fillcolor: faded(colors[i % colors.length], opacity), hovertemplate: "%{y:.4g} MiB",
    });
    return [area("in use", (s) => s.fixed_mib + s.leased_mib, 0.85), area("surplus", (s) => s.surplus_mib, 0.35)];
  });
  if (!scope) {
    const capacity = points.map(({ memory }) => (memory ? memory.capacity_mib : null));
    traces.push(line("capacity", ticks, capacity, { dash: "dot", color: colors[colors.length - 1] }));
  }
  const words = shares.map((s) => `${s.name}: ${shown(s.fixed_mib, "MiB")} of weights, ${shown(s.leased_mib, "MiB")} used by runs, ${shown(s.surplus_mib, "MiB")} surplus`);
  const caption = `${shown(frame.memory.held_mib)} of ${shown(frame.memory.capacity_mib, "MiB")} held; ${words.join("; ")}`;
  return { traces, layout: { yaxis: { rangemode: "tozero", ticksuffix: " MiB" } }, caption };
}

function instances({ history, scope }) {
  const runs = history.runs.filter((run) => !scope || run[0] === scope);
  const now = history.last ? history.last.now_ms : 0;
  const lane = (run) => `${run[0]} · ${run[1]}`;
  const names = [...new Set(runs.map(lane))].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  const colors = palette();
  const traces = TRIGGERS.map((why, i) => {
    const of = runs.filter((run) => run[6] === why);
    return {
      type: "bar", orientation: "h", name: why, y: of.map(lane),
      base: of.map((run) => (run[2] - now) / 1000), x: of.map((run) => (run[3] - run[2]) / 1000),
      customdata: of.map((run) => [run[4], run[5], run[3] - run[2]]), marker: { color: colors[i], line: { width: 0 } },
      hovertemplate: "%{customdata[0]} rows × %{customdata[1]}, %{customdata[2]:.3g} ms<extra>" + why + "</extra>",
    };
  }).filter((trace) => trace.y.length);
  const left = history.last ? history.last.runs_left_out : 0;
  const caption = (runs.length ? `${runs.length} runs on ${names.length} instance${names.length > 1 ? "s" : ""} in the last ${STRIP_MS / 1000} s, by what made them go` : "nothing ran")
    + (left ? `; ${left} more in the last second are not drawn` : "");
  const layout = {
    barmode: "overlay", bargap: 0.25, height: 90 + 26 * Math.max(1, names.length),
    yaxis: { type: "category", categoryorder: "array", categoryarray: names.reverse() },
    xaxis: { type: "linear", range: [-STRIP_MS / 1000, 0], ticksuffix: " s" },
  };
  return { traces, layout, caption };
}

/** The models worth a line of their own: the one that was chosen, or those with most demand. */
function busiest(points, scope) {
  if (scope) return [scope];
  const last = points.length ? [...points[points.length - 1].models] : [];
  last.sort((a, b) => b[1].demand - a[1].demand);
  const active = last.filter(([, point]) => point.demand > 0.001);
  return (active.length ? active : last.slice(0, 1)).slice(0, MODELS_MAX).map(([name]) => name).sort();
}

function line(name, x, y, style = {}, more = {}) {
  return { type: "scatter", mode: "lines", name, x, y, line: { width: 2, ...style }, hovertemplate: "%{y:.4g}", ...more };
}

/** A colour of the page, `#rrggbb`, through which what lies behind is seen. */
function faded(color, opacity) {
  const parts = [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));
  return `rgba(${parts.join(",")},${opacity})`;
}

function palette() {
  return getComputedStyle(document.body).getPropertyValue("--series").trim().split(" ");
}

function themed(layout) {
  const style = getComputedStyle(document.body);
  const color = (name) => style.getPropertyValue(name).trim();
  const lines = { gridcolor: color("--line"), linecolor: color("--line"), zerolinecolor: color("--line"), fixedrange: true, automargin: true };
  const result = {
    autosize: true, hovermode: "x unified", dragmode: false, showlegend: true,
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    colorway: palette(),
    font: { family: style.fontFamily, color: color("--ink"), size: 12 },
    margin: { l: 44, r: 12, t: 8, b: 32 },
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
    hoverlabel: { bgcolor: color("--card"), bordercolor: color("--line"), font: { color: color("--ink") } },
    ...layout,
  };
  if (layout.barmode || layout.xaxis) result.hovermode = "closest";
  for (const axis of ["xaxis", "yaxis", ...("yaxis2" in layout ? ["yaxis2"] : [])]) {
    result[axis] = { ...lines, ...(axis === "xaxis" && !layout.xaxis ? { ...TIME_AXIS, nticks: innerWidth < 720 ? 3 : 6 } : {}), ...layout[axis] };
  }
  return result;
}
