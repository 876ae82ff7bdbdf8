"""How long from a moved slider to the picture? The profiler page of 13 inputs, Chromium and server on one machine.

    python benchmarks/profiler_page.py [--moves 60]

A model of the activity network is fitted and served by `dtmgp serve`; the browser moves one slider after another by one
step, waits for the picture, and reports what the page measured itself: from the event to the end of drawing (median and
90% quantile), and the same to the next frame on the screen. The server's own share is that of its log; its CPU time is
that of the process, all threads together. On a machine that others use, `nice -n -10` keeps their work out of it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from playwright.sync_api import Page, sync_playwright

from dtmgp import DTMGPRegressor, TMGPRegressor
from dtmgp.experiments.results import origin, write_csv
from dtmgp.simulators import ActivityNetwork, latin_hypercube

OUT = Path(__file__).resolve().parents[1] / "experiments" / "results" / "bench_profiler_page.csv"
MODELS = {"one-layer": TMGPRegressor, "deep": DTMGPRegressor}
MOVE = """async ([number, step]) => {
  const slider = document.querySelectorAll("#profiles input[type=range]")[number];
  const seen = performance.getEntriesByName("picture").length, start = performance.now();
  slider.value = Number(slider.value) + step;
  slider.dispatchEvent(new Event("input"));
  while (performance.getEntriesByName("picture").length === seen) await new Promise((done) => setTimeout(done, 1));
  await new Promise(requestAnimationFrame);
  return [performance.getEntriesByName("picture").at(-1).duration, performance.now() - start];
}"""


def fitted(kind: str, folder: Path) -> Path:
    """A model file: 400 inputs, four runs each."""
    simulator = ActivityNetwork()
    x = latin_hypercube(400, simulator.bounds, random_state=0)
    y = simulator.sample(x, 4, random_state=1)
    path = folder / f"{kind}.dtmgp"
    MODELS[kind](bounds=simulator.bounds).fit(np.repeat(x, 4, axis=0), y.ravel()).save(path)
    return path


def measure(page: Page, address: str, moves: int) -> np.ndarray:
    """Milliseconds to the end of drawing and to the frame, per move."""
    page.goto(address)
    page.wait_for_selector("html[data-drawn]", timeout=120_000)
    count = page.locator("#profiles input[type=range]").count()
    for number in range(3):
        page.evaluate(MOVE, [number, 1])
    return np.array([page.evaluate(MOVE, [k % count, 1]) for k in range(moves)])


def cpu_seconds(pid: int) -> float:
    """CPU time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main(moves: int = 60, models: Sequence[str] = tuple(MODELS), out: Path = OUT) -> None:
    """Fit, serve, move; print and write medians."""
    browser_path = next(
        p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))
    )
    rows = []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=browser_path, args=["--no-sandbox", "--disable-gpu", "--no-proxy-server"]
        )
        for kind in models:
            path = fitted(kind, Path(folder))
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            process = subprocess.Popen(
                [sys.executable, "-m", "dtmgp", "serve", str(path), "--port", str(port), "--json"],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            assert process.stdout is not None
            address = json.loads(process.stdout.readline())["url"]
            before = cpu_seconds(process.pid)
            times = measure(browser.new_page(viewport={"width": 1240, "height": 1000}), address, moves)
            spent = cpu_seconds(process.pid) - before
            process.terminate()
            lines = [json.loads(line) for line in process.communicate()[1].splitlines()]
            own = [line["ms"] for line in lines if line.get("path") == "/profile"]
            rows.append(
                {
                    "model": kind,
                    "moves": moves,
                    "drawn_ms_median": round(float(np.median(times[:, 0])), 1),
                    "drawn_ms_q90": round(float(np.quantile(times[:, 0], 0.9)), 1),
                    "frame_ms_median": round(float(np.median(times[:, 1])), 1),
                    "server_ms_median": round(float(np.median(own)), 1),
                    "server_cpu_ms": round(1000 * spent / len(own), 1),
                    "load_average": round(os.getloadavg()[0], 1),
                }
            )
            print(rows[-1])
        browser.close()
    write_csv(out, rows, origin("python benchmarks/profiler_page.py", seed=0))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--moves", type=int, default=60)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--out", type=Path, default=OUT)
    main(**vars(parser.parse_args()))
