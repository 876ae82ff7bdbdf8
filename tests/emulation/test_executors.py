"""Oracle: what each toy simulator was written to do; every run has exactly one outcome."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from dtmgp.emulation import (
    Form,
    FunctionSource,
    ImportedSource,
    ProtocolSource,
    Run,
    ShellCommand,
    as_source,
    execute,
    executors,
    make_runs,
)
from dtmgp.errors import InputError
from dtmgp.executors import JoblibExecutor, SerialExecutor
from dtmgp.simulators import MM1Queue

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def _toys(monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))


def runs(values):
    return [Run(k, (float(value),), seed=k) for k, value in enumerate(values)]


def outcomes(executor, source, values, timeout=None):
    found = list(make_runs(executor, source, runs(values), timeout))
    assert sorted(o.number for o in found) == list(range(len(values)))
    return {o.number: o for o in found}


def test_serial_and_parallel_runs_agree():
    source = as_source("toys:sine")[0]
    values = np.linspace(0, 1, 7)
    one, two = (outcomes(e, source, values) for e in (SerialExecutor(), JoblibExecutor(2)))
    assert {k: o.y for k, o in one.items()} == {k: o.y for k, o in two.items()}
    assert not any(o.failed for o in one.values())


def test_a_dead_worker_costs_its_own_run_only():
    found = outcomes(JoblibExecutor(2), as_source("toys:dies_on_the_left")[0], [0.5, 0.1, 0.6, 0.7, 0.8, 0.9])
    assert [k for k, o in found.items() if o.failed] == [1]
    assert "process died" in found[1].error
    assert found[5].y == 0.9


@pytest.mark.parametrize("executor", [SerialExecutor(), JoblibExecutor(1)], ids=["serial", "one worker"])
def test_a_run_that_hangs_is_ended(executor):
    start = time.monotonic()
    found = outcomes(executor, as_source("toys:hangs_on_the_left")[0], [0.5, 0.1, 0.6], timeout=0.4)
    assert [k for k, o in found.items() if o.failed] == [1]
    assert found[1].error == "timeout after 0.4 s"
    assert time.monotonic() - start < 60


def test_a_run_that_ignores_its_alarm_is_ended_with_its_process(monkeypatch):
    found = outcomes(
        JoblibExecutor(2), as_source("toys:hangs_deaf_on_the_left")[0], [0.5, 0.1, 0.6], timeout=0.5
    )
    assert [k for k, o in found.items() if o.failed] == [1]
    assert found[1].error == "timeout after 0.5 s (the process was ended)"


def test_exceptions_and_values_that_are_no_numbers_are_outcomes():
    def bad(x, seed):
        if x[0] == 0:
            raise RuntimeError("solver\n diverged")
        return {1: np.nan, 2: np.inf, 3: "text", 4: [1.0, 2.0], 5: None}[int(x[0])]

    found = outcomes(SerialExecutor(), FunctionSource(bad), range(6))
    assert found[0].error == "RuntimeError: solver diverged"
    assert found[1].error == "output nan"
    assert found[2].error == "output inf"
    assert all(o.failed for o in found.values())
    assert "shape (2,)" in found[4].error


def test_an_interrupt_is_not_swallowed():
    def interrupted(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execute(FunctionSource(interrupted), runs([0])[0])


def test_functions_get_the_seed_in_the_form_they_ask_for():
    x, run = [0.25], Run(0, (0.25,), seed=5)
    expected = np.random.default_rng(5).normal()
    assert execute(FunctionSource(lambda x, rng: rng.normal()), run).y == expected
    assert execute(FunctionSource(lambda x, random_state: random_state), run).y == 5
    assert execute(FunctionSource(lambda x, seed=None: seed), run).y == 5
    assert execute(FunctionSource(lambda x, steps=100: steps), run).y == 100  # an option, not a seed
    assert execute(FunctionSource(np.sum), run).y == 0.25
    assert ProtocolSource(MM1Queue())([0.6, 2.0], 3) == MM1Queue().sample([[0.6, 2.0]], 1, 3)[0, 0]
    assert len(x) == 1


def test_a_loop_without_numbers_of_workers_is_refused():
    with pytest.raises(InputError, match="n_jobs"):
        JoblibExecutor(0)


def test_default_executor_isolates_what_may_hang():
    function, shell = FunctionSource(np.sum), ShellCommand("true")
    assert isinstance(executors.default_executor(1, None, function), SerialExecutor)
    assert isinstance(executors.default_executor(1, 5.0, function), JoblibExecutor)
    assert isinstance(executors.default_executor(1, 5.0, shell), SerialExecutor)
    assert isinstance(executors.default_executor(2, None, shell), JoblibExecutor)


# -- shell commands -------------------------------------------------------------------------------------------
ECHO = (
    f"{sys.executable} -c 'import csv, sys; row = next(csv.DictReader(sys.stdin));"
    ' print("total,seed"); print(float(row["a b"]) + float(row["c"]), row["seed"], sep=",")\''
)


def test_a_command_reads_csv_and_answers_in_csv():
    command = ShellCommand(ECHO, output="total", names=("a b", "c"))
    assert command([0.1, 0.2], 7) == 0.1 + 0.2
    assert ShellCommand(ECHO, output="seed", names=("a b", "c"))([0.1, 0.2], 7) == 7


def test_a_command_reads_json_and_answers_in_json():
    code = "import json, sys; d = json.load(sys.stdin); print(json.dumps({'y': d['a'] * 2, 's': d['seed']}))"
    command = ShellCommand(f'{sys.executable} -c "{code}"', Form.JSON, "y", ("a",))
    assert command([0.1], 7) == 0.2
    assert ShellCommand("echo $DTMGP_SEED")([0.1], 7) == 7


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("echo trouble >&2; exit 3", "exit status 3: trouble"),
        ("true", "no output"),
        ("echo so so", "output 'so so', where a number"),
        ('echo \'{"a": 1, "b": 2}\'', "2 outputs (a, b); name one"),
        ("no-such-command-anywhere", "exit status 127"),
        ("echo nan", "output nan"),
        ("echo null", "an empty output (null)"),
    ],
)
def test_a_command_that_fails_says_why(command, message):
    assert message in execute(ShellCommand(command), runs([0])[0]).error


def test_a_command_that_hangs_is_killed_with_its_children(tmp_path):
    start = time.monotonic()
    command = ShellCommand(f"sleep 60 & echo $! > {tmp_path}/pid; wait")
    outcome = execute(command, runs([0])[0], timeout=0.5)
    assert outcome.error == "timeout after 0.5 s"
    assert time.monotonic() - start < 20
    child = int((tmp_path / "pid").read_text())
    for _ in range(100):  # the kernel reaps it soon
        if not Path(f"/proc/{child}").exists() or "Z" in Path(f"/proc/{child}/stat").read_text():
            break
        time.sleep(0.05)
    else:
        pytest.fail("the child lives on")


@pytest.mark.skipif(os.name != "posix", reason="process groups")
def test_a_command_may_ignore_its_input():
    assert ShellCommand("echo 1")([0.0] * 2000, 0) == 1.0  # nobody reads what is written


# -- what counts as a simulator --------------------------------------------------------------------------------
def test_sources():
    assert isinstance(as_source("dtmgp.simulators:MM1Queue")[0], ImportedSource)
    assert isinstance(as_source(MM1Queue())[0], ProtocolSource)
    assert isinstance(as_source("python model.py")[0], ShellCommand)
    assert as_source("dtmgp.simulators:MM1Queue")[1].bounds.shape == (2, 2)


@pytest.mark.parametrize(
    ("simulator", "message"),
    [
        ("no_such_module:f", "no_such_module"),
        ("toys:no_such_function", "no_such_function"),
        (" ", "empty"),
        (3.0, "a float"),
    ],
)
def test_what_is_no_simulator_is_refused(simulator, message):
    with pytest.raises(InputError, match=message):
        as_source(simulator)
