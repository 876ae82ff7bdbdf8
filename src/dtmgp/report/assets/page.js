"use strict";
const page = JSON.parse(document.getElementById("page-data").textContent);
const root = document.documentElement;

function colour(name) { return getComputedStyle(root).getPropertyValue(name).trim(); }

function chooseTheme() {
  const asked = new URLSearchParams(location.search).get("theme");
  const dark = asked ? asked === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "dark" : "light";
}

// -- figures ---------------------------------------------------------------------------------------------------
function layoutOf(figure) {
  const ink = colour("--ink"), edge = colour("--edge");
  const axis = { gridcolor: edge, zerolinecolor: edge, linecolor: edge, automargin: true };
  const own = figure.layout;
  const titled = (given) => ({ ...axis, ...given, title: { ...(given?.title ?? {}), font: { size: 12 } } });
  return {
    ...own,
    height: figure.height,
    margin: { l: 48, r: 12, t: figure.height > 250 ? 30 : 8, b: 40 },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("--quiet"), activecolor: ink },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: ink, size: 12, family: "system-ui, sans-serif" },
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
    xaxis: titled(own.xaxis),
    yaxis: titled(own.yaxis),
    dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
  };
}

function drawFigures() {
  const pointer = matchMedia("(hover: hover)").matches;
  for (const [name, figure] of Object.entries(page.figures)) {
    const place = document.getElementById(name);
    const bar = pointer && figure.height > 250 ? "hover" : false;
    if (place) Plotly.react(place, figure.data, layoutOf(figure), { responsive: true, displaylogo: false, displayModeBar: bar });
  }
}

async function loadPlotly() {
  if (typeof DecompressionStream === "undefined") {
    document.getElementById("no-figures").hidden = false;
    return;
  }
  const packed = atob(document.getElementById("plotly-gzip").textContent.trim());
  const bytes = Uint8Array.from(packed, (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const script = document.createElement("script");
  script.textContent = await new Response(stream).text();
  document.head.append(script);
  drawFigures();
  root.dataset.ready = "yes";
}

chooseTheme();
document.getElementById("theme").addEventListener("click", () => {
  root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
  if (typeof Plotly !== "undefined") drawFigures();
});
