"""Models and clients that the tests of the service share."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("httpx2")

from starlette.testclient import TestClient

from dtmgp import TMGPRegressor
from dtmgp.serve import Policy, ServedModel
from dtmgp.serve.app import create_app

NAMES = ["load", "speed [km/h]"]


def small_model(bounds=None, outputs=1):
    """A noisy surface of two inputs."""
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(60, 2)) * [1.0, 50.0]
    y = np.sin(6 * x[:, 0]) + x[:, 1] / 50 + 0.1 * rng.normal(size=60)
    target = y if outputs == 1 else np.stack([y, -2 * y], axis=1)
    model = TMGPRegressor(level=4, max_evaluations=5, bounds=bounds)
    return model.fit(pd.DataFrame(x, columns=NAMES), target)


def client(model, raising=True, **limits):
    """A client of the application in this process; use it in a with statement."""
    app = create_app(ServedModel.of(model), Policy(**limits), digest="abc")
    return TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=raising)


def frame(rows):
    return pd.DataFrame(rows, columns=NAMES)


@contextmanager
def server(model_file: Path, *options: str, token: str | None = None):
    """`dtmgp serve` as a process: its address and the process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    environment.pop("DTMGP_TOKEN", None)
    if token:
        environment["DTMGP_TOKEN"] = token
    process = subprocess.Popen(
        [sys.executable, "-m", "dtmgp", "serve", str(model_file), "--port", str(port), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    address = f"http://127.0.0.1:{port}"
    try:
        wait_for(address, process)
        yield address, process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def opener():
    """Without the proxies of the environment."""
    return urllib.request.build_opener(urllib.request.ProxyHandler({}))


def wait_for(address, process):
    for _ in range(600):
        if process.poll() is not None:
            raise AssertionError(process.communicate()[1])
        try:
            opener().open(f"{address}/health", timeout=5).read()
            return
        except OSError:
            time.sleep(0.1)
    raise AssertionError("the service did not start")
