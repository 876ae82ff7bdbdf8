"""Oracle: one process on the same global batches; sums written out by hand. Two processes by torchrun, started once."""

from __future__ import annotations

import distributed_worker as worker
import numpy as np
import pytest
import torch
from launch import launch
from small import small_model, small_runs

from dtmgp.errors import InputError
from dtmgp.inference.distributed import Interrupts, Processes, join, own_device
from dtmgp.inference.objectives import noise_of
from dtmgp.inference.reduction import Traffic, dense_bytes, row_bytes, sum_gradients, sum_rows

FITS = {
    "predictive": {},
    "unequal replicates": {"objective": "ELBO", "single": 9},
    "mixture": {"likelihood": "MixtureOfNormals", "batch_size": 41},
    "draws": {"objective": "Energy", "likelihood": "StudentT"},
    "batches of one": {"batch_size": 1, "inputs": 5, "epochs": 2},
    "float32": {"dtype": "float32"},
    "noise in blocks": {"blocks": True},
}
TASKS = {name: ["fit", options] for name, options in FITS.items()} | {
    "by rows": ["fit_by_rows", {}],
    "table": ["fit_table", {}],
    "not finite": ["fit", {"spoil": True}],
    "stopped": ["stopped", {}],
    "interrupt 0": ["interrupted", {"rank": 0}],
    "interrupt 1": ["interrupted", {"rank": 1}],
    "dense": ["reduce", {"sparse_from": 10**9}],
    "rows": ["reduce", {}],
    "many rows": ["reduce", {"touched": 40}],
    "sparse": ["reduce", {"sparse": True}],
    "add rows": ["add_rows", {}],
    "refusals": ["refusals", {}],
    "estimator": ["estimator", {}],
}


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """What two processes have found, task by task, and their output."""
    folder = tmp_path_factory.mktemp("two")
    found, done = launch(folder, list(TASKS.values()))
    return dict(zip(TASKS, found)) | {"printed": done.stdout, "folder": folder}


def same_bits(one, two, skip=()):
    assert one.keys() == two.keys()
    for name in one.keys() - set(skip):
        np.testing.assert_array_equal(one[name], two[name], err_msg=name)


TOLERANCE = {"float64": 1e-12, "float32": 2e-5}  # measured: 7e-16 and 4e-7, after 72 steps


@pytest.mark.parametrize("name", [*FITS, "by rows", "table"])
def test_two_processes_end_as_one_does(name, two):
    first, second = two[name]
    same_bits(first, second)
    task, options = TASKS[name]
    alone = getattr(worker, task)(Processes(), **options)
    limit = TOLERANCE[options.get("dtype", "float64")]
    for key, value in alone.items():
        if key in ("generator", "reason"):
            np.testing.assert_array_equal(first[key], value)
        elif key != "went":
            np.testing.assert_allclose(first[key], value, rtol=limit, atol=limit, err_msg=key)


def test_one_process_goes_on_where_two_have_stopped(two):
    assert {str(part["said"]) for part in two["stopped"]} == {"epoch: got the second; expected another."}
    checkpoint = two["folder"] / "half.checkpoint"
    assert checkpoint.exists()
    resumed = worker.fit(Processes(), checkpoint=checkpoint)
    whole = worker.fit(Processes())
    for key in whole.keys() - {"reason"}:
        np.testing.assert_allclose(resumed[key], whole[key], rtol=1e-10, atol=1e-10, err_msg=key)


def test_fine_tables_go_as_rows(two):
    for part in two["by rows"]:
        assert len(part["went"]) > 10
        assert (part["went"] > 0).all()


def test_what_is_not_finite_ends_all_with_one_reason(two):
    first, second = two["not finite"]
    assert "layers.0.bias is not finite" in str(first["reason"])
    assert first["reason"] == second["reason"]


@pytest.mark.parametrize("name", ["interrupt 0", "interrupt 1"])
def test_an_interrupt_of_one_process_stops_all_at_the_same_step(name, two):
    first, second = two[name]
    same_bits(first, second)
    assert first["reason"] == "interrupted"
    assert 1 <= len(first["trace"]) < 9


@pytest.mark.parametrize("name", ["dense", "rows", "many rows", "sparse"])
def test_gradients_are_summed_whichever_way_they_go(name, two):
    options = {key: value for key, value in TASKS[name][1].items() if key == "touched"}
    parts = [worker.gradients(rank=rank, **options) for rank in (0, 1)]
    for found in two[name]:
        for k in range(3):
            grads = [part[k].grad for part in parts if part[k].grad is not None]
            np.testing.assert_array_equal(found[str(k)], torch.stack(grads).sum(0).numpy())
        assert "3" not in found  # nobody had a gradient
        assert found["numbers"].tolist() == [3.0, 1.0]
        assert bool(found["sparse"]) == (name == "sparse")


def test_the_smaller_number_of_bytes_decides(two):
    table = dense_bytes(2, 50, 3, 8)
    rest = dense_bytes(2, 1, 4 + 2 + 3 + 4 + 2, 8)  # vectors, their marks and the table's, two numbers
    for name, touched, goes_as_rows in (("dense", 6, False), ("rows", 6, True), ("many rows", 41, False)):
        assert (row_bytes(2, touched, 3, 8) < table) == (goes_as_rows or name == "dense")
        for found in two[name]:
            dense, rows = found["traffic"]
            assert rows == (row_bytes(2, touched, 3, 8) if goes_as_rows else 0)
            assert dense == (rest - 8 if goes_as_rows else rest + table)


def test_rows_are_united_and_summed(two):
    for found in two["add rows"]:
        assert found["rows"].tolist() == [0, 1, 2, 3, 4]
        assert found["values"][:, 0].tolist() == [1, 1, 3, 2, 2]


def test_refusals_reach_all(two):
    for found in two["refusals"]:
        assert str(found["together"]).startswith("process 1 of 2: table: got nothing")
        assert str(found["once"]).startswith("table: got nothing")
        assert "data or settings of process 1 unlike those of process 0" in str(found["data"])
        assert found["gathered"].tolist() == [0, 10]
        assert found["decided"] == 7


def test_the_regressor_is_that_of_one_process_and_speaks_once(two):
    first, second = two["estimator"]
    same_bits(first, second)
    alone = worker.estimator(Processes())
    np.testing.assert_allclose(first["mean"], alone["mean"], rtol=1e-9, atol=1e-9)
    assert first["seed"] == alone["seed"]
    assert two["printed"].count("layers: ") == 1


def noise_of_parts(world, inputs, seed=3):
    """Noise (S, n) of all parts of a global batch, drawn in blocks."""
    model = small_model(2, latent_inputs=1, dtype=torch.float64)
    runs = small_runs(inputs, 1, dtype=torch.float64)
    parts = []
    for rank in range(world):
        batch = runs.shared(torch.arange(inputs), (rank, world))._replace(noise_seed=seed)
        latent, hidden, output = noise_of(model, 3, batch, None)
        assert output.shape[:2] == (3, len(batch.x))
        parts.append(torch.cat([latent, *hidden], dim=-1))
    return torch.cat(parts, dim=1)


@pytest.mark.parametrize("world", [2, 3, 7])
def test_noise_in_blocks_is_that_of_the_whole(world):
    whole = noise_of_parts(1, 600)
    assert torch.equal(noise_of_parts(world, 600), whole)
    assert not torch.equal(whole, noise_of_parts(1, 600, seed=4))
    assert len(whole.reshape(-1).unique()) == whole.numel()  # no block repeats another
    assert abs(float(whole.std()) - 1) < 0.1  # 7,200 normals: five and more standard errors
    assert abs(float(whole.mean())) < 0.1


# -- one process ----------------------------------------------------------------------------------------------
def test_alone_nothing_is_sent():
    alone = Processes()
    parameters = worker.gradients()
    before = [None if p.grad is None else p.grad.clone() for p in parameters]
    assert sum_gradients(alone, parameters, [2.0]) == ([2.0], Traffic())
    for parameter, grad in zip(parameters, before):
        assert (parameter.grad is None and grad is None) or torch.equal(parameter.grad, grad)
    rows, values = sum_rows(alone, torch.tensor([3, 1]), torch.tensor([[3.0], [1.0]]))
    assert (rows.tolist(), values.tolist()) == ([1, 3], [[1.0], [3.0]])
    assert join() == alone
    assert alone.together(lambda: 4) == 4


def test_an_error_alone_is_the_error_itself():
    with pytest.raises(ZeroDivisionError):
        Processes().once(lambda: 1 / 0)


def test_alone_an_interrupt_stays_one():
    with pytest.raises(KeyboardInterrupt), Interrupts(Processes()):
        raise KeyboardInterrupt


def test_each_process_of_a_machine_has_its_own_gpu(monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert own_device(torch.device("cuda")) == torch.device("cuda", 3)
    assert own_device(torch.device("cuda:1")) == torch.device("cuda", 1)
    assert own_device(torch.device("cpu")) == torch.device("cpu")


def test_other_words_for_distributed_are_refused():
    from dtmgp import DTMGPRegressor

    with pytest.raises(InputError, match="'auto' or 'off'"):
        DTMGPRegressor(distributed=True).fit(np.zeros((20, 1)), np.zeros(20))
