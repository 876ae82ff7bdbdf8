"""Oracle: the dense natural-gradient step on all rows; torch.distributions for the KL term."""

from __future__ import annotations

import pytest
import torch
from cases import Case
from torch.distributions import Normal, kl_divergence

from dtmgp.errors import InputError
from dtmgp.ops import NaturalTable, contract, reference
from dtmgp.ops.lazy import touched_rows

PRIOR = {"prior_mean": 0.3, "prior_std": 0.7}


class DenseTable:
    """The update rule as it is written: every row, every step."""

    def __init__(self, size, width):
        self.precision = torch.full((size, width), PRIOR["prior_std"] ** -2, dtype=torch.float64)
        self.shift = self.precision * PRIOR["prior_mean"]  # precision * mean
        self.prior = self.precision.clone(), self.shift.clone()

    def moments(self):
        return self.shift / self.precision, 1 / self.precision

    def step(self, grad_mean, grad_variance, rate, scale):
        mean, _ = self.moments()
        curvature = (2 * scale * grad_variance).clamp(min=0)
        target = self.prior[0] + curvature, self.prior[1] + curvature * mean - scale * grad_mean
        self.precision = (1 - rate) * self.precision + rate * target[0]
        self.shift = (1 - rate) * self.shift + rate * target[1]


def batches(case, steps):
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        rows = torch.randint(0, len(case.values), (4,), generator=generator)
        yield case.values[rows], case.positions[rows], torch.randn(4, 3, generator=generator).double()


def loss_of(first, second, target):
    return ((first - target).square() + second).sum()


def test_lazy_equals_dense_after_many_steps_with_changing_rates():
    case = Case("laplace-deep", rows=60)
    plan = case.plan
    lazy, dense = NaturalTable(plan.size, 3, dtype=torch.float64, **PRIOR), DenseTable(plan.size, 3)
    for number, (values, positions, target) in enumerate(batches(case, 40)):
        rate = 0.3 / (1 + number / 10)
        touched = lazy.touch(plan, positions)
        loss_of(*contract(plan, values, touched.slots, touched.mean, touched.variance), target).backward()
        lazy.step(touched, rate, scale=15.0)

        mean, variance = (w.requires_grad_() for w in dense.moments())
        out = reference.contract(values, positions, plan.tree, plan.intervals, mean, variance)
        loss_of(*out, target).backward()
        dense.step(mean.grad, variance.grad, rate, 15.0)
    for found, expected in zip(lazy.means_and_variances(), dense.moments(), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-12)


def test_touched_rows_are_the_distinct_active_ones():
    case = Case("laplace-deep", rows=60)
    rows, slots = touched_rows(case.plan, case.positions.reshape(3, 20, *case.positions.shape[1:]))
    expected = reference.active_rows(case.positions, case.plan.tree)
    assert slots.shape == (3, 20, case.plan.active)
    assert torch.equal(rows.long()[slots.long()].reshape(expected.shape), expected)
    assert torch.equal(rows.long().sort().values, expected.unique())


def test_untouched_rows_are_not_written():
    case = Case("laplace-deep", rows=5)
    table = NaturalTable(case.plan.size, 3, dtype=torch.float64)
    touched = table.touch(case.plan, case.positions)
    (touched.mean.sum() + touched.variance.sum()).backward()
    table.step(touched, 0.5)
    changed = torch.from_numpy(table._excess).reshape(case.plan.size, 6).any(1).nonzero()[:, 0]
    assert torch.equal(changed, touched.rows.long().sort().values)


def test_kl_equals_torch():
    table = NaturalTable(50, 2, dtype=torch.float64, **PRIOR)
    table._excess[:] = torch.rand(200, generator=torch.Generator().manual_seed(0)).numpy()
    mean, variance = table.means_and_variances()
    prior = Normal(*(torch.tensor(PRIOR[key], dtype=torch.float64) for key in ("prior_mean", "prior_std")))
    expected = kl_divergence(Normal(mean, variance.sqrt()), prior).sum()
    assert table.kl() == pytest.approx(float(expected), rel=1e-12)
    touched_mean, touched_variance = table.fetch(torch.tensor([3, 7]))
    expected = kl_divergence(Normal(mean[[3, 7]], variance[[3, 7]].sqrt()), prior).sum()
    torch.testing.assert_close(table.kl_rows(touched_mean, touched_variance), expected)


def test_the_fixed_point_is_the_exact_posterior_of_linear_regression():
    case = Case("line", rows=40, width=1)
    target, noise = torch.sin(6 * torch.from_numpy(case.x)), 0.01
    table = NaturalTable(case.plan.size, 1, dtype=torch.float64)
    for _ in range(200):
        touched = table.touch(case.plan, case.positions)
        mean, variance = contract(case.plan, case.values, touched.slots, touched.mean, touched.variance)
        (((target - mean).square() + variance).sum() / (2 * noise)).backward()
        table.step(touched, 0.1)
    phi = torch.from_numpy(case.features.toarray())
    # the mean-field optimum: the exact precision's diagonal
    precision = torch.eye(case.plan.size).double() + phi.T @ phi / noise
    _, variance = table.means_and_variances()
    torch.testing.assert_close(variance[:, 0], 1 / precision.diagonal(), rtol=1e-6, atol=0)


def test_what_cannot_work_is_refused():
    case = Case("line")
    with pytest.raises(InputError, match="prior"):
        NaturalTable(3, 1, prior_std=0.0)
    table = NaturalTable(case.plan.size, 1)
    with pytest.raises(InputError, match="rate"):
        table.step(table.touch(case.plan, case.positions), 1.0)
    with pytest.raises(InputError, match="touch"):
        NaturalTable(3, 1).touch(case.plan, case.positions)
