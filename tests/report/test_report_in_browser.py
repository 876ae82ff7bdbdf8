"""Oracle: the Python surrogate; headless Chromium opens the page, moves a slider, and reports what it shows."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess

import numpy as np
import pytest

pytest.importorskip("plotly")

from dtmgp import TMGPRegressor
from dtmgp.report import write_report
from dtmgp.report.surrogate import build

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--virtual-time-budget=20000",
    "--dump-dom",
]
CATCH = (
    "<script>window.faults = []; addEventListener('error', (e) => faults.push(e.message));"
    "addEventListener('securitypolicyviolation', (e) => faults.push(e.violatedDirective));</script>"
)
PROBE = """<script>
const wait = setInterval(() => {
  if (document.documentElement.dataset.ready !== "yes") return;
  clearInterval(wait);
  const points = %s, found = { surrogate: points.map((u) => dtmgpProfile(u)), faults };
  found.along = dtmgpAlong(points[3], 1, [0, 0.3, 1]);
  const slider = document.querySelector("#profiles input[type=range]");
  slider.value = 250; slider.dispatchEvent(new Event("input"));
  found.readout = document.getElementById("readout").textContent;
  found.number = document.querySelector("#profiles input[type=number]").valueAsNumber;
  found.drawn = [...document.querySelectorAll(".plot")].filter((p) => p.querySelector("svg.main-svg")).length;
  found.places = document.querySelectorAll(".plot").length;
  found.wide = document.documentElement.scrollWidth > innerWidth;
  const before = getComputedStyle(document.body).backgroundColor;
  document.getElementById("theme").click();
  found.themes = [before, getComputedStyle(document.body).backgroundColor];
  for (const script of document.querySelectorAll("script")) script.remove();
  document.body.dataset.probe = JSON.stringify(found);
}, 50);
</script>"""


@pytest.mark.parametrize(("dim", "window"), [(2, 1200), (5, 500)])
def test_the_page_in_a_browser(dim, window, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(150, dim))
    y = np.sin(3 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=150)
    model = TMGPRegressor(level=4, bounds=[[0, 1]] * dim).fit(X[:100], y[:100])
    path = write_report(
        model,
        X[100:],
        y[100:],
        tmp_path / "a.html",
        X_train=X[:100],
        y_train=y[:100],
        draws=16,
        effect_samples=8,
    )
    u = rng.uniform(size=(20, dim))
    u[:2] = [[0.0] * dim, [1.0] * dim]
    text = path.read_text()
    text = text.replace("<style>", CATCH + "<style>", 1)
    text = text.replace("</body>", PROBE % json.dumps(u.tolist()) + "</body>")
    probe = tmp_path / "probe.html"
    probe.write_text(text)
    done = subprocess.run(
        [
            str(CHROMIUM),
            *FLAGS,
            f"--window-size={window},900",
            f"--user-data-dir={tmp_path / 'profile'}",
            probe.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    match = re.search(r'data-probe="([^"]*)"', done.stdout)
    assert match, done.stdout[-2000:]
    found = json.loads(html.unescape(match.group(1)))
    assert found["faults"] == []
    assert found["drawn"] == found["places"] > 8
    surrogate = build(model)
    np.testing.assert_allclose(found["surrogate"], surrogate(u), rtol=1e-6, atol=1e-9)
    line = np.repeat(u[3:4], 3, axis=0)
    line[:, 1] = [0.0, 0.3, 1.0]
    np.testing.assert_allclose(found["along"], surrogate(line), rtol=1e-6, atol=1e-9)
    at = np.full((1, dim), 0.5)
    at[0, 0] = 0.25
    assert found["number"] == pytest.approx(0.25)
    shown = float(re.search(r"mean (-?[\d.e+-]+)", found["readout"]).group(1))
    assert shown == pytest.approx(surrogate(at)[0, 0], rel=1e-3)
    assert not found["wide"]
    assert found["themes"][0] != found["themes"][1]
