// What was seen: frames become points, points give rates and percentiles of any time range.

export const STAGES = ["receive", "queue", "assemble", "run", "split", "send"];
const KEPT_S = 15 * 60;
const RUNS_KEPT_MS = 5000;
const SLOWEST_KEPT = 200;

/** Everything that one frame says of one model, as growth since the frame before. */
function point(now, before, passedS) {
  const grown = {};
  for (const key in now.counts) grown[key] = now.counts[key] - before.counts[key];
  const spans = {};
  for (const stage in now.spans) spans[stage] = minus(now.spans[stage], before.spans[stage]);
  return {
    passedS, grown, spans,
    batches: minus(now.batch_rows, before.batch_rows),
    triggers: Object.fromEntries(
      Object.entries(now.triggers).map(([why, count]) => [why, count - before.triggers[why]])),
    demand: now.demand, window: now.window_ms, threshold: now.threshold_ms,
    waiting: now.waiting, running: now.running,
  };
}

export class History {
  constructor() {
    this.points = [];   // { at, models: Map of name to point, memory: as the frame has it }
    this.runs = [];
    this.slowest = [];
    this.last = null;
  }

  /** Takes a frame; returns nothing. A restarted server begins a new history. */
  add(frame) {
    const last = this.last;
    if (last && frame.now_ms < last.now_ms) Object.assign(this, new History());
    this.last = frame;
    const known = new Map((this.points.length || last) && last ? last.models.map((m) => [m.name, m]) : []);
    const passedS = last ? (frame.now_ms - last.now_ms) / 1000 : 0;
    const models = new Map();
    for (const model of frame.models) {
      const before = known.get(model.name);
      if (before && passedS > 0 && before.counts.runs <= model.counts.runs) {
        models.set(model.name, point(model, before, passedS));
      }
    }
    if (models.size) this.points.push({ at: frame.now_ms, models, memory: frame.memory });
    while (this.points.length && this.points[0].at < frame.now_ms - KEPT_S * 1000) this.points.shift();
    this.runs = this.runs.concat(frame.runs).filter((run) => run[3] > frame.now_ms - RUNS_KEPT_MS);
    for (const each of frame.slowest) this.slowest.push({ seen_ms: frame.now_ms, ...each });
    this.slowest = this.slowest.slice(-SLOWEST_KEPT * 8);
  }

  /** The points of the last seconds, the latest last. */
  recent(seconds) {
    if (!this.last) return [];
    const begin = this.last.now_ms - seconds * 1000;
    return this.points.filter((each) => each.at > begin);
  }
}

/** What a model (or all, for an empty name) did over some points together. */
export function sum(points, name) {
  const total = { passedS: 0, grown: {}, spans: {}, batches: [], triggers: {} };
  for (const { models } of points) {
    let passedS = 0;
    for (const [each, point] of models) {
      if (name && each !== name) continue;
      passedS = point.passedS;
      for (const key in point.grown) total.grown[key] = (total.grown[key] || 0) + point.grown[key];
      for (const stage in point.spans) total.spans[stage] = plus(total.spans[stage], point.spans[stage]);
      for (const why in point.triggers) total.triggers[why] = (total.triggers[why] || 0) + point.triggers[why];
      total.batches = plus(total.batches, point.batches);
    }
    total.passedS += passedS;
  }
  const { grown } = total;
  total.answered = (grown.on_time || 0) + (grown.late || 0);
  total.lost = (grown.failed || 0) + (grown.rejected || 0) + (grown.expired || 0) + (grown.cancelled || 0);
  total.rate = ratio(total.answered, total.passedS);
  total.goodput = ratio(grown.on_time, total.passedS);
  total.lostRate = ratio(total.lost, total.passedS);
  total.onTime = ratio(grown.on_time, total.answered + total.lost);
  total.rowsMean = ratio(grown.rows, grown.runs);
  total.padding = ratio(grown.padding, grown.elements);
  total.busy = ratio(grown.device_ms, total.passedS * 1000);
  return total;
}

/** The value that this share of the counted stay below, as Prometheus would say. */
export function quantile(share, bounds, counts) {
  const all = (counts || []).reduce((sum, count) => sum + count, 0);
  if (!all) return null;
  let below = 0, lower = 0;
  for (let i = 0; i < bounds.length; i++) {
    if (counts[i] && below + counts[i] >= share * all) {
      return lower + (bounds[i] - lower) * (share * all - below) / counts[i];
    }
    below += counts[i];
    lower = bounds[i];
  }
  return bounds[bounds.length - 1];
}

/** A figure with about three digits; a dash for none. */
export function shown(value, unit = "") {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  const digits = size >= 100 ? 0 : size >= 10 ? 1 : 2;
  const text = value.toLocaleString("en", { maximumFractionDigits: digits });
  return unit ? `${text} ${unit}` : text;
}

/** A time in the unit that people would say it in. */
export function time(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms >= 1000) return shown(ms / 1000, "s");
  return ms > 0 && ms < 0.1 ? shown(ms * 1000, "µs") : shown(ms, "ms");
}

export function percent(share) {
  return share === null || share === undefined ? "–" : `${shown(share * 100)} %`;
}

function ratio(part, whole) { return whole > 0 ? (part || 0) / whole : null; }
function minus(now, before) { return now.map((count, i) => count - before[i]); }
function plus(total, more) { return total && total.length ? total.map((count, i) => count + more[i]) : more.slice(); }
