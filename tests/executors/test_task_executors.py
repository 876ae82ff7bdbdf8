"""Oracle: a plain loop. Workers are killed from outside with SIGKILL; every execution leaves a line in a file."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import worker_tasks

from dtmgp.errors import InputError
from dtmgp.executors import (
    DaskExecutor,
    Executor,
    JoblibExecutor,
    Lost,
    RayExecutor,
    SerialExecutor,
    executor_named,
)

MAKERS = {
    "serial": SerialExecutor,
    "joblib": lambda: JoblibExecutor(2),
    "ray": lambda: RayExecutor(n_jobs=2),
    "dask": lambda: DaskExecutor(n_jobs=2),
}
# A local Ray takes 10 to 20 s of processor time to start and end, a local Dask 5 to 10 s.
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("ray", "dask")]
pytestmark = [  # of other packages, while they start and end their processes
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def engines():
    """Engines are started once, and ended at the end."""
    started: dict[str, Executor] = {}
    yield started
    for engine in started.values():
        if hasattr(engine, "close"):
            engine.close()


@pytest.fixture
def executor(request, engines):
    name = request.param
    module = {"ray": "ray", "dask": "distributed"}.get(name)
    if module and importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed: pip install 'dtmgp[{name}]'")
    if name not in engines:
        sys.path.insert(0, str(Path(__file__).parent))  # workers import worker_tasks
        engines[name] = MAKERS[name]()
    return engines[name]


def results(executor, function, tasks):
    found = {done.number: done for done in executor.map(function, tasks)}
    assert sorted(found) == list(range(len(tasks)))
    return [found[number] for number in sorted(found)]


@pytest.mark.parametrize("executor", ["serial", "joblib", *SLOW], indirect=True)
def test_the_same_seeds_give_the_same_results(executor):
    assert isinstance(executor, Executor)
    expected = [worker_tasks.draw(seed) for seed in range(20)]
    assert [done.result() for done in results(executor, worker_tasks.draw, range(20))] == expected


@pytest.mark.parametrize("executor", ["serial", "joblib", *SLOW], indirect=True)
def test_an_exception_is_the_error_of_its_task(executor):
    found = results(executor, worker_tasks.inverse, [1, 0, 4])
    assert [done.value for done in found] == [1.0, None, 0.25]
    assert not found[1].lost
    with pytest.raises(ZeroDivisionError):
        found[1].result()


@pytest.mark.parametrize("executor", ["joblib", *SLOW], indirect=True)
def test_a_killed_worker_loses_nothing_that_is_done(executor, tmp_path):
    tasks = [(str(tmp_path), number, number == 3) for number in range(10)]
    killer = threading.Thread(target=_kill_when_there, args=(tmp_path / "pid-3",))
    killer.start()
    finished: list[int] = []
    for done in executor.map(worker_tasks.counted, tasks):
        assert done.result() == done.number**2
        finished.append(done.number)
    killer.join()
    assert sorted(finished) == list(range(10))
    executed = [int(line) for line in (tmp_path / "executions").read_text().split()]
    assert executed.count(3) >= 2
    ended_before = finished[: finished.index(3)]
    assert len(ended_before) >= 2
    # those that had come back before the kill were not made again (measured: 2 others may be under way at the kill)
    assert len(executed) <= 10 + 3


def _kill_when_there(path):
    for _ in range(1200):
        if path.exists():
            time.sleep(0.5)
            os.kill(int(path.read_text()), signal.SIGKILL)
            return
        time.sleep(0.05)


@pytest.mark.parametrize("executor", ["joblib", *SLOW], indirect=True)
def test_a_task_that_kills_every_worker_is_lost_alone(executor):
    found = results(executor, worker_tasks.deadly, [0, 1, 2, 3])
    assert [done.value for done in found] == [0, None, 2, 3]
    assert found[1].lost
    assert found[1].seconds > 0
    with pytest.raises(Lost, match="worker process died"):
        found[1].result()


@pytest.mark.parametrize("executor", SLOW, indirect=True)
def test_a_search_of_scikit_learn_runs_there(executor):
    from sklearn.model_selection import GridSearchCV

    from dtmgp import TMGPRegressor

    rng = np.random.default_rng(0)
    x = rng.random((60, 2))
    y = np.sin(5 * x[:, 0]) + 0.1 * rng.normal(size=60)
    search = GridSearchCV(TMGPRegressor(max_evaluations=3), {"level": [1, 4]}, cv=2, n_jobs=-1)
    with executor.joblib_backend():
        search.fit(x, y)
    here = GridSearchCV(TMGPRegressor(max_evaluations=3), {"level": [1, 4]}, cv=2).fit(x, y)
    assert search.best_params_ == here.best_params_ == {"level": 4}
    np.testing.assert_allclose(
        search.cv_results_["mean_test_score"], here.cv_results_["mean_test_score"], rtol=1e-6
    )


@pytest.mark.parametrize("executor", SLOW, indirect=True)
def test_a_campaign_is_the_same_there(executor):
    from dtmgp import TMGPRegressor, emulate
    from dtmgp.simulators import MM1Queue

    def campaign(where):
        return emulate(
            MM1Queue(),
            budget=40,
            replicates=4,
            model=TMGPRegressor(max_evaluations=3),
            random_state=3,
            executor=where,
            verbose=0,
        ).runs.columns()

    here, there = campaign(SerialExecutor()), campaign(executor)
    for column in ("run", "seed", "y"):
        np.testing.assert_array_equal(here[column], there[column])


@pytest.mark.slow  # starts Ray
@pytest.mark.parametrize("executor", [SLOW[0]], indirect=True)
def test_a_local_ray_listens_here_only_and_has_no_dashboard(executor):
    ray = executor.connect()
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
    assert ray.get_runtime_context().gcs_address.startswith("127.0.0.1:")
    assert not ray._private.worker.global_worker.node.address_info.get("webui_url")
    psutil = pytest.importorskip("psutil")
    heard = set()
    for process in psutil.Process().children(recursive=True):
        heard |= {c.laddr.ip for c in process.net_connections("tcp") if c.status == psutil.CONN_LISTEN}
    assert heard
    assert all(ip.removeprefix("::ffff:").startswith("127.") or ip == "::1" for ip in heard), heard


def test_executors_by_name():
    assert isinstance(executor_named("joblib"), SerialExecutor)
    assert executor_named("joblib", 3).n_jobs == 3
    assert executor_named("ray", -1, "a:1").shares_files is False
    assert isinstance(executor_named("dask", 2), DaskExecutor)
    with pytest.raises(InputError, match="--executor"):
        executor_named("threads")
    with pytest.raises(InputError, match="--address"):
        executor_named("joblib", 2, "a:1")
    for wrong in (0, -2, True, 1.5):
        with pytest.raises(InputError, match="n_jobs"):
            JoblibExecutor(wrong)


@pytest.mark.parametrize(("executor", "module"), [(RayExecutor(), "ray"), (DaskExecutor(), "distributed")])
def test_a_missing_engine_is_named(executor, module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match="pip install"):
        executor.connect()
