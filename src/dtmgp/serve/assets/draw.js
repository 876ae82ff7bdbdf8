"use strict";
// Pictures as SVG text from plain numbers; knows nothing of the service.

function short(value, digits = 4) {
  if (value === null || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  return size !== 0 && (size >= 1e6 || size < 1e-4) ? value.toExponential(digits - 1) : String(Number(value.toPrecision(digits)));
}

function niceTicks(low, high, about = 4) {
  const rough = (high - low) / about, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((k) => k * power).find((k) => k >= rough * (1 - 1e-9));
  const ticks = [];
  for (let t = Math.ceil(low / step - 1e-9) * step; t <= high + 1e-9 * step; t += step) ticks.push(Math.abs(t) < 1e-9 * step ? 0 : t);
  return ticks;
}

// The usual range, and more where a curve leaves it; never empty.
function wideEnough(range, values) {
  let [low, high] = range;
  for (const value of values) if (Number.isFinite(value)) { low = Math.min(low, value); high = Math.max(high, value); }
  if (!(high > low)) { low -= 0.5; high += 0.5; }
  const pad = 0.04 * (high - low);
  return [low - pad, high + pad];
}

function profilePicture(curve, input, here, now, range, width, height) {
  const left = 44, right = width - 8, top = 6, bottom = height - 18;
  const ends = [Math.min(input.low, here), Math.max(input.high, here)];
  const x = (v) => left + (v - ends[0]) / (ends[1] - ends[0]) * (right - left);
  const y = (v) => bottom - (v - range[0]) / (range[1] - range[0]) * (bottom - top);
  const path = (name) => curve[name].map((v, k) => `${x(curve.x[k]).toFixed(1)},${y(v).toFixed(1)}`);
  const area = (low, high) => path(low).concat(path(high).reverse()).join(" ");
  const ticks = niceTicks(range[0], range[1]).map((t) =>
    `<line class="grid" x1="${left}" x2="${right}" y1="${y(t).toFixed(1)}" y2="${y(t).toFixed(1)}"/>` +
    `<text x="${left - 5}" y="${(y(t) + 3.5).toFixed(1)}" text-anchor="end">${short(t)}</text>`).join("");
  const spot = x(here).toFixed(1);
  return `${ticks}<polygon class="band90" points="${area("low", "high")}"/>
    ${curve.low50 ? `<polygon class="band50" points="${area("low50", "high50")}"/>` : ""}
    <polyline class="mean" points="${path("mean").join(" ")}"/>
    <line class="here" x1="${spot}" x2="${spot}" y1="${top}" y2="${bottom}"/>
    <circle class="dot" cx="${spot}" cy="${y(now).toFixed(1)}" r="4"/>
    <text x="${left}" y="${height - 4}">${short(ends[0])}</text>
    <text x="${right}" y="${height - 4}" text-anchor="end">${short(ends[1])}</text>`;
}

function densityPicture(law, low, high, mean, range, width, height) {
  const left = 12, right = width - 12, top = 18, bottom = height - 22;
  const ends = wideEnough(range, law.y), heights = law.density || law.mass;
  const peak = Math.max(...heights, 1e-300);
  const x = (v) => left + (v - ends[0]) / (ends[1] - ends[0]) * (right - left);
  const y = (v) => bottom - v / peak * (bottom - top);
  const point = (v, k) => `${x(law.y[k]).toFixed(1)},${y(v).toFixed(1)}`;
  const ticks = niceTicks(ends[0], ends[1], Math.max(3, Math.floor(width / 110))).map((t) =>
    `<line class="grid" x1="${x(t).toFixed(1)}" x2="${x(t).toFixed(1)}" y1="${top}" y2="${bottom}"/>` +
    `<text x="${x(t).toFixed(1)}" y="${height - 7}" text-anchor="middle">${short(t)}</text>`).join("");
  const spot = Number.isFinite(mean) ? x(mean) : null;
  const centre = spot === null ? "" : `<line class="here" x1="${spot.toFixed(1)}" x2="${spot.toFixed(1)}" y1="${top}" y2="${bottom}"/>
    <text class="label" x="${Math.min(right - 60, Math.max(left + 60, spot)).toFixed(1)}" y="${top - 6}" text-anchor="middle">mean ${short(mean)}</text>`;
  if (law.mass) {
    const bars = law.mass.map((p, k) => `<line class="mean" x1="${x(law.y[k]).toFixed(1)}" x2="${x(law.y[k]).toFixed(1)}" y1="${bottom}" y2="${y(p).toFixed(1)}"/>`);
    return ticks + bars.join("") + centre;
  }
  const close = (points) => points.length ? `${points[0].split(",")[0]},${bottom} ${points.join(" ")} ${points.at(-1).split(",")[0]},${bottom}` : "";
  const inside = [];
  // the interval ends between two points of the curve: its height there by interpolation
  const at = (v) => {
    const k = Math.min(Math.max(law.y.findIndex((u) => u >= v), 1), law.y.length - 1);
    const share = Math.min(1, Math.max(0, (v - law.y[k - 1]) / (law.y[k] - law.y[k - 1])));
    return `${x(v).toFixed(1)},${y(heights[k - 1] + share * (heights[k] - heights[k - 1])).toFixed(1)}`;
  };
  inside.push(at(low));
  heights.forEach((v, k) => { if (law.y[k] > low && law.y[k] < high) inside.push(point(v, k)); });
  inside.push(at(high));
  return `${ticks}<polygon class="band90" points="${close(heights.map(point))}"/>
    <polygon class="band50" points="${close(inside)}"/>
    <polyline class="mean" points="${heights.map(point).join(" ")}"/>${centre}`;
}
