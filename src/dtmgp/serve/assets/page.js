"use strict";
// The page: sliders in, one question to the service at a time, pictures out.

const byId = (name) => document.getElementById(name);
const STEPS = 200;
let model = null, here = [], panels = [], last = null, before = null;
let asked = null, busy = false;
const kept = [];

// -- the service ------------------------------------------------------------------------------------------------------
function readToken() {
  const found = /^#token=(.+)$/.exec(location.hash);
  if (!found) return;
  sessionStorage.setItem("dtmgp-token", decodeURIComponent(found[1]));
  history.replaceState(null, "", location.pathname);
}

async function ask(path, body) {
  const headers = {}, token = sessionStorage.getItem("dtmgp-token");
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, { method: body === undefined ? "GET" : "POST", headers, body: body && JSON.stringify(body) });
  } catch {
    throw new Error("The service does not answer. Is it still running?");
  }
  if (answer.status === 401) { await askToken(); return ask(path, body); }
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error?.message || `status ${answer.status}`);
  return found;
}

function askToken() {
  return new Promise((done) => {
    const dialog = byId("ask");
    dialog.addEventListener("close", () => { sessionStorage.setItem("dtmgp-token", byId("token").value); done(); }, { once: true });
    if (!dialog.open) dialog.showModal();
  });
}

function complain(message) {
  byId("fault").textContent = message || "";
  byId("fault").hidden = !message;
}

// -- the point --------------------------------------------------------------------------------------------------------
function valueOf(j, step) {
  const { low, high } = model.inputs[j];
  if (step <= 0) return low;
  if (step >= STEPS) return high;
  return rounded(j, low + (high - low) * step / STEPS);
}

function rounded(j, value) {
  const { low, high } = model.inputs[j];
  return Math.min(high, Math.max(low, Number(value.toPrecision(6))));
}

function stepOf(j) {
  const { low, high } = model.inputs[j];
  return Math.min(STEPS, Math.max(0, Math.round((here[j] - low) / (high - low) * STEPS)));
}

function show(j, source) {
  const { number, slider } = panels[j];
  if (source !== number) number.value = here[j];
  if (source !== slider) slider.value = stepOf(j);
  slider.setAttribute("aria-valuetext", short(here[j], 6));
}

function move(j, value, source) {
  here[j] = value;
  show(j, source);
  refresh();
}

function moveAll(values) {
  here = values.slice();
  here.forEach((_, j) => show(j));
  refresh();
}

// -- asking and drawing -----------------------------------------------------------------------------------------------
// While one question is out, only the latest next one is remembered: pictures never lag behind a queue.
async function refresh() {
  asked = performance.now();
  if (busy) return;
  busy = true;
  try {
    while (asked !== null) {
      const start = asked;
      asked = null;
      last = await ask("/profile", { at: here, coverage: Number(byId("coverage").value), output: Number(byId("output").value || 0) });
      complain("");
      draw();
      performance.measure("picture", { start });
    }
  } catch (error) {
    complain(error.message);
  } finally {
    busy = false;
    if (asked !== null) refresh();
  }
}

function put(name, value) {
  byId(name).textContent = short(value, 5);
  byId(name).title = String(value);
}

function draw() {
  for (const name of ["mean", "std", "low", "high"]) put(name, last[name]);
  byId("interval-label").textContent = `${short(100 * last.coverage)}% of runs`;
  const outside = byId("outside");
  outside.hidden = !last.extrapolates.length;
  outside.textContent = `extrapolates: ${last.extrapolates.join(", ")} outside the fitted range`;
  byId("density-title").textContent = `Predicted law of ${last.output} at the chosen point`;
  const density = byId("density"), wide = density.clientWidth || 600, high = density.clientHeight || 190;
  density.setAttribute("viewBox", `0 0 ${wide} ${high}`);
  density.innerHTML = densityPicture(last.density, last.low, last.high, last.mean, last.range, wide, high);
  byId("inner").hidden = !last.curves.some((curve) => curve.low50);
  const values = last.curves.flatMap((curve) => [...curve.low, ...curve.high]);
  const range = wideEnough(last.range, values);
  const sizes = panels.map(({ svg }) => [svg.clientWidth || 240, svg.clientHeight || 130]);
  panels.forEach(({ svg }, j) => {
    const [width, height] = sizes[j];
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.innerHTML = profilePicture(last.curves[j], model.inputs[j], last.at[j], last.mean, range, width, height);
  });
  document.documentElement.dataset.drawn = JSON.stringify(last.at);
}

// -- building ---------------------------------------------------------------------------------------------------------
function build() {
  document.title = `${model.title} – profiler`;
  byId("title").textContent = model.title;
  byId("about").textContent = `${model.kind} · ${model.inputs.length} input${model.inputs.length > 1 ? "s" : ""} · ` +
    `inputs outside the fitted range are ${model.outside} · dtmgp ${model.dtmgp}`;
  model.outputs.forEach((name, k) => byId("output").add(new Option(name, k)));
  byId("output-choice").hidden = model.outputs.length < 2;
  const place = byId("profiles");
  panels = model.inputs.map((input, j) => {
    const panel = document.createElement("div");
    panel.className = "profile";
    panel.innerHTML = `<div class="name"><span></span><input type="number" step="any"></div><svg role="img"></svg>
      <div class="move"><input type="range" min="0" max="${STEPS}" step="1"><label title="keep this input in the target finder"><input type="checkbox">hold</label></div>`;
    const pick = (selector) => panel.querySelector(selector);
    const parts = { number: pick("[type=number]"), slider: pick("[type=range]"), hold: pick("[type=checkbox]"), svg: pick("svg") };
    pick("span").textContent = input.label;
    parts.slider.setAttribute("aria-label", input.label);
    parts.number.setAttribute("aria-label", `${input.label}, number`);
    parts.hold.setAttribute("aria-label", `hold ${input.label}`);
    parts.svg.setAttribute("aria-label", `output along ${input.label}`);
    parts.slider.addEventListener("input", () => move(j, valueOf(j, parts.slider.valueAsNumber), parts.slider));
    parts.number.addEventListener("change", () => {
      if (Number.isFinite(parts.number.valueAsNumber)) move(j, parts.number.valueAsNumber, parts.number);
      else show(j);
    });
    const drag = (event) => {
      const box = parts.svg.getBoundingClientRect();
      move(j, valueOf(j, Math.round((event.clientX - box.left - 44) / (box.width - 52) * STEPS)));
    };
    parts.svg.addEventListener("pointerdown", (event) => { parts.svg.setPointerCapture(event.pointerId); drag(event); });
    parts.svg.addEventListener("pointermove", (event) => { if (parts.svg.hasPointerCapture(event.pointerId)) drag(event); });
    place.append(panel);
    return parts;
  });
}

// -- target finder ----------------------------------------------------------------------------------------------------
function finderFields() {
  const of = byId("of").value, reach = byId("goal").value === "reach";
  byId("level").hidden = of === "mean";
  byId("level").required = of !== "mean";
  byId("value-line").hidden = !reach;
  byId("value").required = reach;
}

async function find(event) {
  event.preventDefault();
  const of = byId("of").value, number = byId("level").valueAsNumber;
  const body = { at: here, output: Number(byId("output").value || 0), goal: byId("goal").value, of };
  if (of === "quantile") body.level = number;
  if (of === "exceedance") body.threshold = number;
  if (body.goal === "reach") body.value = byId("value").valueAsNumber;
  body.locked = model.inputs.filter((_, j) => panels[j].hold.checked).map((input) => input.name);
  byId("found").textContent = "Searching …";
  try {
    const answer = await ask("/target", body);
    before = here.slice();
    byId("back").disabled = false;
    byId("found").textContent = `${answer.reached ? "Found" : "Not reached"}: ${answer.label} ${short(answer.value, 5)}, ${answer.message}.`;
    moveAll(answer.at.map((value, j) => rounded(j, value)));
  } catch (error) {
    byId("found").textContent = error.message;
  }
}

// -- kept points ------------------------------------------------------------------------------------------------------
function keep() {
  if (!last) return;
  kept.push(last);
  byId("kept").hidden = false;
  const head = ["", "output", "mean", "std", "low", "high", ...model.inputs.map((input) => input.name)];
  const row = (cells, kind) => {
    const line = document.createElement("tr");
    for (const cell of cells) { const one = document.createElement(kind); one.textContent = cell; line.append(one); }
    return line;
  };
  byId("points").tHead.replaceChildren(row(head, "th"));
  const point = last, cells = [point.mean, point.std, point.low, point.high, ...point.at].map((v) => short(v, 5));
  const line = row(["", point.output, ...cells], "td");
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "show";
  button.addEventListener("click", () => moveAll(point.at));
  line.firstChild.append(button);
  byId("points").tBodies[0].append(line);
}

function download() {
  const quote = (text) => /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  const head = [...model.inputs.map((input) => input.name), "mean", "std", "low", "high", "coverage", "output"];
  const rows = kept.map((p) => [...p.at, p.mean, p.std, p.low, p.high, p.coverage, p.output]);
  const text = [head, ...rows].map((row) => row.map((cell) => quote(String(cell))).join(",")).join("\n") + "\n";
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  link.download = "points.csv";
  link.click();
  URL.revokeObjectURL(link.href);
}

// -- theme and start --------------------------------------------------------------------------------------------------
function switchTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try { localStorage.setItem("dtmgp-theme", root.dataset.theme); } catch { /* not kept, then */ }
}

async function start() {
  try { const theme = localStorage.getItem("dtmgp-theme"); if (theme) document.documentElement.dataset.theme = theme; } catch { /* none */ }
  readToken();
  byId("theme").addEventListener("click", switchTheme);
  try {
    model = await ask("/model");
  } catch (error) {
    complain(error.message);
    return;
  }
  build();
  byId("coverage").addEventListener("change", refresh);
  byId("output").addEventListener("change", refresh);
  byId("middle").addEventListener("click", () => moveAll(model.inputs.map((_, j) => valueOf(j, STEPS / 2))));
  byId("keep").addEventListener("click", keep);
  byId("download").addEventListener("click", download);
  byId("back").addEventListener("click", () => { const now = here.slice(); moveAll(before); before = now; });
  byId("goal").addEventListener("change", finderFields);
  byId("of").addEventListener("change", () => {
    byId("level").value = byId("of").value === "quantile" ? 0.9 : short(last ? last.mean : 0);
    finderFields();
  });
  byId("finder").addEventListener("submit", find);
  addEventListener("resize", () => { if (last) draw(); });
  moveAll(model.inputs.map((_, j) => valueOf(j, STEPS / 2)));
}

start();
