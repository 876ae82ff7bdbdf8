// -- profiler: the same formulas as dtmgp/report/surrogate.py ----------------------------------------------------
function decode(text, single) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return single ? new Float32Array(bytes.buffer) : new Float64Array(bytes.buffer);
}

function changed(u, j, value) { const copy = Array.from(u); copy[j] = value; return copy; }

function makeSurrogate(given) {
  const functionals = given.functionals, dim = page.profiler.inputs.length;
  const weights = decode(given.weights, given.single);
  if (given.kind === "grid") {
    const strides = given.sizes.map((_, j) => given.sizes.slice(j + 1).reduce((a, b) => a * b, 1));
    const at = (u) => {
      const cell = [], share = [], out = new Float64Array(functionals);
      for (let j = 0; j < dim; j++) {
        const spot = Math.min(1, Math.max(0, u[j])) * (given.sizes[j] - 1);
        cell.push(Math.min(Math.floor(spot), given.sizes[j] - 2));
        share.push(spot - cell[j]);
      }
      for (let corner = 0; corner < 1 << dim; corner++) {
        let weight = 1, row = 0;
        for (let j = 0; j < dim; j++) {
          const up = (corner >> j) & 1;
          weight *= up ? share[j] : 1 - share[j];
          row += (cell[j] + up) * strides[j];
        }
        for (let f = 0; f < functionals; f++) out[f] += weight * weights[row * functionals + f];
      }
      return out;
    };
    at.along = (u, j, steps) => steps.map((t) => at(changed(u, j, t)));
    return at;
  }
  const points = decode(given.points, true), trend = decode(given.trend);
  const centre = decode(given.centre), scales = decode(given.scales), count = points.length / dim;
  const addTrend = (u, out) => {
    for (let f = 0; f < functionals; f++) {
      out[f] += trend[f];
      for (let j = 0; j < dim; j++) {
        const v = 2 * u[j] - 1;
        out[f] += v * trend[(1 + j) * functionals + f] + v * v * trend[(1 + dim + j) * functionals + f];
      }
    }
    return out;
  };
  const squares = (u) => {
    const sums = new Float64Array(count);
    for (let i = 0; i < count; i++) {
      for (let j = 0; j < dim; j++) {
        const step = scales[j] * (u[j] - points[i * dim + j]);
        sums[i] += step * step;
      }
    }
    return sums;
  };
  const fromSquares = (u, squared) => {
    const out = Float64Array.from(centre);
    for (let i = 0; i < count; i++) {
      const r = Math.sqrt(5 * squared(i)), k = (1 + r + r * r / 3) * Math.exp(-r);
      for (let f = 0; f < functionals; f++) out[f] += k * weights[i * functionals + f];
    }
    return addTrend(u, out);
  };
  const at = (u) => { const sums = squares(u); return fromSquares(u, (i) => sums[i]); };
  // along one input the other distances stay: one term per point instead of one per input
  at.along = (u, j, steps) => {
    const rest = squares(u);
    for (let i = 0; i < count; i++) rest[i] = Math.max(0, rest[i] - (scales[j] * (u[j] - points[i * dim + j])) ** 2);
    return steps.map((t) => fromSquares(changed(u, j, t), (i) => rest[i] + (scales[j] * (t - points[i * dim + j])) ** 2));
  };
  return at;
}

function short(value) {
  const size = Math.abs(value);
  return size !== 0 && (size >= 1e5 || size < 1e-3) ? value.toExponential(2) : String(Number(value.toPrecision(4)));
}

function niceTicks(low, high) {
  const rough = (high - low) / 4, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((k) => k * power).find((k) => k >= rough);
  const ticks = [];
  for (let t = Math.ceil(low / step) * step; t <= high + 1e-9 * step; t += step) ticks.push(t);
  return ticks;
}

function startProfiler() {
  const place = document.getElementById("profiles");
  if (!place || !page.profiler) return;
  const { inputs, outputs } = page.profiler;
  const surrogates = outputs.map((output) => makeSurrogate(output.surrogate));
  const here = inputs.map(() => 0.5), steps = 33;
  let chosen = 0;

  // quantiles in order, whatever interpolation did to them
  const ordered = (found) => [found[0], ...Array.from(found.slice(1)).sort((a, b) => a - b)];
  const ts = Array.from({ length: steps }, (_, k) => k / (steps - 1));
  window.dtmgpProfile = (u, output = 0) => Array.from(surrogates[output](u));
  window.dtmgpAlong = (u, j, at, output = 0) => surrogates[output].along(u, j, at).map((found) => Array.from(found));

  const panels = inputs.map((input, j) => {
    const panel = document.createElement("div");
    panel.className = "profile";
    panel.innerHTML = `<label><span></span><input type="number" step="any"></label>
      <svg viewBox="0 0 240 130" preserveAspectRatio="none" role="img"></svg>
      <input type="range" min="0" max="1000" value="500">`;
    const [number, slider] = [panel.querySelector("[type=number]"), panel.querySelector("[type=range]")];
    panel.querySelector("span").textContent = input.label;
    slider.setAttribute("aria-label", input.label);
    panel.querySelector("svg").setAttribute("aria-label", `profile along ${input.label}`);
    const unit = (value) => Math.min(1, Math.max(0, (value - input.low) / (input.high - input.low)));
    slider.addEventListener("input", () => { here[j] = slider.value / 1000; draw(j); });
    number.addEventListener("change", () => { if (Number.isFinite(number.valueAsNumber)) here[j] = unit(number.valueAsNumber); draw(-1); });
    place.append(panel);
    return { panel, number, slider, svg: panel.querySelector("svg") };
  });

  function drawPanel(j, now) {
    const { svg } = panels[j], [low, high] = outputs[chosen].range;
    const width = svg.clientWidth || 240, left = 40, top = 6, bottom = 112;
    svg.setAttribute("viewBox", `0 0 ${width} 130`);
    const x = (t) => left + t * (width - left - 6), y = (v) => bottom - (v - low) / (high - low) * (bottom - top);
    const laws = surrogates[chosen].along(here, j, ts).map(ordered);
    const path = (f) => laws.map((l, k) => `${x(ts[k]).toFixed(1)},${y(l[f]).toFixed(1)}`);
    const area = (a, b) => path(a).concat(path(b).reverse()).join(" ");
    const ticks = niceTicks(low, high).map((t) =>
      `<line class="grid" x1="${left}" x2="${width - 6}" y1="${y(t)}" y2="${y(t)}"/><text x="${left - 4}" y="${y(t) + 3}" text-anchor="end">${short(t)}</text>`);
    const input = inputs[j], spot = x(here[j]);
    svg.innerHTML = `${ticks.join("")}
      <polygon class="band90" points="${area(1, 5)}"/><polygon class="band50" points="${area(2, 4)}"/>
      <polyline class="mean" points="${path(0).join(" ")}"/>
      <line class="here" x1="${spot}" x2="${spot}" y1="${top}" y2="${bottom}"/>
      <circle class="dot" cx="${spot}" cy="${y(now[0])}" r="3.5"/>
      <text x="${left}" y="126">${short(input.low)}</text><text x="${width - 6}" y="126" text-anchor="end">${short(input.high)}</text>`;
  }

  function draw(moved) {
    const now = ordered(surrogates[chosen](here));
    inputs.forEach((input, j) => {
      panels[j].number.value = Number((input.low + here[j] * (input.high - input.low)).toPrecision(5));
      if (j !== moved) panels[j].slider.value = Math.round(here[j] * 1000);
      drawPanel(j, now);
    });
    document.getElementById("readout").innerHTML = `<b>mean ${short(now[0])}</b> · median ${short(now[3])} · half of all runs in ` +
      `[${short(now[2])}, ${short(now[4])}] · 90% in [${short(now[1])}, ${short(now[5])}]`;
  }

  const select = document.getElementById("profile-output");
  select?.addEventListener("change", () => { chosen = Number(select.value); draw(-1); });
  document.getElementById("profile-centre").addEventListener("click", () => { here.fill(0.5); draw(-1); });
  addEventListener("resize", () => draw(-1));
  draw(-1);
}

startProfiler();
loadPlotly();
