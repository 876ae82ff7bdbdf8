"""A start for training: Levenberg-Marquardt on the mean path of a deep model, with MacKay's evidence updates.

Without noise in the hidden layers the model is a network whose layers are linear in their features, so that the
Jacobian of a layer's weights is an outer product of features and back-propagated slopes. The posterior mode of all
weights is found by damped Gauss-Newton steps on the replicate means (weights n_i / s^2), and after every step

    gamma = sum_i 1 - alpha_i (H^-1)_ii         effective number of parameters, in all and per layer
    s^2   = (sum over runs of (y - f)^2) / (N - gamma)          v_l = |w_l|^2 / gamma_l      prior variance of layer l

(MacKay 1992; for small networks Foresee and Hagan 1997). At the end the standard deviations of the mean-field weights
are those of the Gauss-Newton posterior, ``1 / sqrt(H_ii)``. First-order training needs thousands of steps for what
this does in tens: see docs/accuracy.md. Hidden noise, warps and non-Gaussian shapes are left to the training loop.
"""

from __future__ import annotations

import dataclasses
import math

import torch
from torch import Tensor

from dtmgp.inference.data import Runs
from dtmgp.inference.mean_path import BIAS_PRECISION, MeanPath, ReplicateMeans, has_matrix, parameter_count
from dtmgp.model import DTMGP

ROUNDINGS = (1e-6, 1e-5, 1e-4, 1e-3)  # of the Gram matrix, which is summed in the model's precision
LEAST, MOST = 1e-3, 30.0  # prior scales
CHUNK_ENTRIES = 1 << 24  # of the Jacobian held at once


@dataclasses.dataclass(frozen=True)
class GaussNewton:
    """At most ``steps``; stop after ``patience`` ones in which the evidence rose by less than ``tolerance`` a run.

    ``most_parameters`` limits the cost, O(n p^2) a step; ``most_inputs`` are used of larger data.
    """

    steps: int = 60
    patience: int = 4
    tolerance: float = 2e-4
    most_parameters: int = 3000
    most_inputs: int = 8000
    damping: float = 1e-3  # of the diagonal, beside the prior
    learn_scales: bool = True


@dataclasses.dataclass
class Found:
    """What a start has found: noise standard deviation per output, effective parameters, Laplace log evidence."""

    noise: Tensor
    effective: float
    steps: int
    log_evidence: float
    null_evidence: float  # of outputs that do not depend on the inputs
    interrupted: bool = False
    # (n, W) of one run at each input: r / (1 - h) is its leave-one-out residual
    leverage: Tensor | None = None
    exact: bool = False  # whether the weights of the location have their exact posterior


def gauss_newton_start(model: DTMGP, runs: Runs, settings: GaussNewton) -> Found | None:
    """Set weights, their standard deviations and their prior's scale of a model; None if it has too many parameters.

    The first ``likelihood.outputs`` processes of the last layer are fitted to the warped outputs; the others keep
    their means. Deterministic.
    """
    outputs = model.likelihood.outputs
    if parameter_count(model, outputs) > settings.most_parameters:
        return None
    with torch.no_grad():
        data = ReplicateMeans(runs, model.likelihood.warp(runs.y).double())
    every = data.x
    if len(data.x) > settings.most_inputs:
        chosen = torch.linspace(0, len(data.x) - 1, settings.most_inputs).long()
        data.x, data.count, data.mean = data.x[chosen], data.count[chosen], data.mean[chosen]
        share = float(data.count.sum()) / data.runs
        data.runs, data.within = int(data.count.sum()), data.within * share
    solver = _Solver(MeanPath(model, outputs), data, settings)
    found = solver.run()
    found.leverage = solver.leverage(every)
    return found


class _Solver:
    """The loop and its state."""

    def __init__(self, path: MeanPath, data: ReplicateMeans, settings: GaussNewton) -> None:
        self.path, self.data, self.settings = path, data, settings
        self.weights = [w.clone() for w in path.weights]
        self.weights[-1].zero_()
        centre = (data.mean * data.count[:, None]).sum(0) / data.count.sum()
        self.weights[-1][path.layers[-1].features.size] = centre
        self.f = self.path(data.x, self.weights)
        self.noise = self._spread(self.f) / data.runs
        self.damping = 1.0
        self.effective, self.steps, self.evidence = 0.0, 0, -math.inf

    def _spread(self, f: Tensor) -> Tensor:
        """Sum over all runs of the squared distance to f, per output."""
        return self.data.within + (self.data.count[:, None] * (self.data.mean - f).square()).sum(0)

    def _objective(self, weights: list[Tensor], f: Tensor) -> float:
        value = 0.5 * (self._spread(f) / self.noise).sum()
        for number, (w, centre) in enumerate(zip(weights, self.path.centres)):
            value = value + 0.5 * (self.path.precision(number)[:, None] * (w - centre).square()).sum()
        return float(value)

    def _normal_equations(self) -> tuple[Tensor, Tensor, Tensor]:
        """Gram matrix of the weighted Jacobian, J^T residual, and f. Last layer's blocks output by output."""
        path, data = self.path, self.data
        hidden = sum(w.numel() for w in self.weights[:-1])
        rows = len(self.weights[-1])
        size = hidden + rows * path.outputs
        gram, right = torch.zeros(size, size, dtype=torch.float64), torch.zeros(size, dtype=torch.float64)
        values = []
        for part in torch.arange(len(data.x)).split(max(64, CHUNK_ENTRIES // max(1, size))):
            f, jacobians, basis = path.jacobian(data.x[part], self.weights)
            values.append(f)
            for k, jacobian in enumerate(jacobians):
                weight = torch.sqrt(data.count[part] / self.noise[k])
                both = torch.cat([jacobian, basis], dim=1) * weight.to(basis)[:, None]
                block = (both.T @ both).double()
                pull = both.T.double() @ ((data.mean[part, k] - f[:, k]) * weight)
                own = slice(hidden + k * rows, hidden + (k + 1) * rows)
                gram[:hidden, :hidden] += block[:hidden, :hidden]
                gram[:hidden, own] += block[:hidden, hidden:]
                gram[own, :hidden] += block[hidden:, :hidden]
                gram[own, own] += block[hidden:, hidden:]
                right[:hidden] += pull[:hidden]
                right[own] += pull[hidden:]
        return gram, right, torch.cat(values)

    def _pack(self, parts: list[Tensor]) -> Tensor:
        """Per-layer matrices in the order of the normal equations: hidden row by row, last output by output."""
        return torch.cat([*[p.reshape(-1) for p in parts[:-1]], parts[-1].T.reshape(-1)])

    def _unpack(self, vector: Tensor) -> list[Tensor]:
        parts, start = [], 0
        for w in self.weights[:-1]:
            parts.append(vector[start : start + w.numel()].reshape(w.shape))
            start += w.numel()
        last = self.weights[-1]
        parts.append(vector[start:].reshape(last.shape[1], last.shape[0]).T)
        return parts

    def _prior(self) -> Tensor:
        parts = [self.path.precision(k)[:, None].expand(w.shape) for k, w in enumerate(self.weights)]
        return self._pack(parts)

    def run(self) -> Found:
        """Steps until the evidence has settled; writes the result into the model. Ctrl-C ends the steps."""
        null, interrupted = self._null_evidence(), False
        try:
            self._iterate()
        except KeyboardInterrupt:
            interrupted = True
        gram, _, f = self._normal_equations()
        prior = self._prior()
        evidence = max(self.evidence, self._log_evidence(self._factor(gram, prior), prior, f))
        self._write(gram)
        return Found(self.noise.sqrt(), self.effective, self.steps, evidence, null, interrupted)

    def _iterate(self) -> None:
        waited = 0
        for step in range(self.settings.steps):
            gram, right, f = self._normal_equations()
            prior = self._prior()
            factor = self._factor(gram, prior)
            if step > 2:
                found = self._log_evidence(factor, prior, f)
                waited = 0 if found > self.evidence + self.settings.tolerance * self.data.runs else waited + 1
                self.evidence = max(self.evidence, found)
                if waited >= self.settings.patience:
                    break
            distance = [w - c for w, c in zip(self.weights, self.path.centres)]
            if not self._step(gram, right - prior * self._pack(distance), prior, f):
                break
            self.steps = step + 1
            self._update_scales(factor, prior, step)

    def leverage(self, x: Tensor) -> Tensor | None:
        """``J_i H^-1 J_i^T / s^2`` at all inputs, (n, W); None where it is below a hundredth on average."""
        if self.effective < 0.01 * self.data.runs * self.path.outputs:
            return None
        gram, _, _ = self._normal_equations()
        factor = self._factor(gram, self._prior())
        if factor is None:
            return None
        hidden, rows = sum(w.numel() for w in self.weights[:-1]), len(self.weights[-1])
        found = []
        for part in torch.arange(len(x)).split(max(64, CHUNK_ENTRIES // max(1, len(gram)))):
            _, jacobians, basis = self.path.jacobian(x[part], self.weights)
            columns = []
            for k, jacobian in enumerate(jacobians):
                own = torch.zeros(len(gram), len(part), dtype=torch.float64)
                own[:hidden] = jacobian.T
                own[hidden + k * rows : hidden + (k + 1) * rows] = basis.T
                solved = torch.linalg.solve_triangular(factor, own, upper=False)
                columns.append(solved.square().sum(0) / self.noise[k])
            found.append(torch.stack(columns, dim=1))
        return torch.cat(found)

    def _null_evidence(self) -> float:
        """Of the mean alone with the bias's prior: the same approximation, without features and slopes."""
        square, runs = self.noise, self.data.runs  # the noise starts as the variance around the mean
        normal = -0.5 * runs * (torch.log(2 * math.pi * square) + 1.0)
        return float((normal + 0.5 * torch.log(BIAS_PRECISION / (runs / square + BIAS_PRECISION))).sum())

    def _factor(self, gram: Tensor, prior: Tensor) -> Tensor | None:
        """Cholesky factor of the posterior precision, with as little added to it as rounding asks for."""
        for rounding in ROUNDINGS:
            matrix = gram.clone()
            matrix.diagonal().add_(prior + rounding * gram.diagonal())
            factor, failed = torch.linalg.cholesky_ex(matrix)
            if not int(failed):
                return factor
        return None

    def _log_evidence(self, factor: Tensor | None, prior: Tensor, f: Tensor) -> float:
        """Laplace's approximation of ``log p(y)`` per output noise and prior, at the present mode."""
        if factor is None:
            return -math.inf
        normal = 0.5 * self.data.runs * float(torch.log(2 * math.pi * self.noise).sum())
        volume = 0.5 * float(prior.log().sum()) - float(factor.diagonal().log().sum())
        return volume - normal - self._objective(self.weights, f)

    def _step(self, gram: Tensor, slope: Tensor, prior: Tensor, f: Tensor) -> bool:
        """One accepted Levenberg-Marquardt step, or False after ten refusals."""
        now = self._objective(self.weights, f)
        for _ in range(10):
            matrix = gram.clone()
            matrix.diagonal().add_(prior + self.damping * (prior + self.settings.damping * gram.diagonal()))
            factor, failed = torch.linalg.cholesky_ex(matrix)
            if not int(failed):
                step = torch.cholesky_solve(slope[:, None], factor)[:, 0]
                tried = [w + s for w, s in zip(self.weights, self._unpack(step))]
                found = self.path(self.data.x, tried)
                value = self._objective(tried, found)
                if value < now:
                    self.weights, self.f = tried, found
                    self.damping = max(self.damping / 4, 1e-3)
                    return now - value > 1e-4 * len(slope) or self.damping > 1e-2
            self.damping *= 6
        return False

    def _update_scales(self, factor: Tensor | None, prior: Tensor, step: int) -> None:
        """Noise and prior variances from the effective numbers of parameters; not in the first steps."""
        if factor is None:
            return
        f = self.f
        variance = torch.cholesky_inverse(factor).diagonal()
        used = 1.0 - prior * variance
        self.effective = float(used.sum())
        free = max(self.data.runs - self.effective / self.path.outputs, 0.1 * self.data.runs)
        self.noise = (self._spread(f) / free).clamp(min=1e-8)
        if not self.settings.learn_scales or step < 2:
            return
        for number, (w, part) in enumerate(zip(self.weights, self._unpack(used))):
            prior_of, distance = self.path.precision(number), w - self.path.centres[number]
            found = list(self.path.scales[number])
            for group, rows in enumerate(self.path.groups(number)):
                gamma = max(float(part[rows].sum()), 1e-2)
                square = float((prior_of[rows, None] * distance[rows].square()).sum())  # in prior variances
                change = math.sqrt(max(square, 1e-6) / gamma)
                found[group] = min(max(found[group] * min(max(change, 0.5), 2.0), LEAST), MOST)
            self.path.scales[number] = (found[0], found[1])

    def _write(self, gram: Tensor) -> None:
        """Means, standard deviations and prior scales into the model."""
        precision = self._unpack(gram.diagonal() + self._prior())
        with torch.no_grad():
            for number, layer in enumerate(self.path.layers):
                width, size = self.path.widths[number], layer.features.size
                weights, (scale, linear) = self.weights[number].to(layer.bias), self.path.scales[number]
                spread = layer.weights.prior_std.expand(layer.weights.mean.shape).clone()
                spread[:, :width] *= scale
                layer.weights.prior_std.copy_(spread[: layer.weights.prior_std.shape[0]])
                layer.weights.mean[:, :width] = weights[:size]
                layer.weights.log_std[:, :width] = precision[number][:size].rsqrt().to(layer.bias).log()
                layer.bias[:width] = weights[size]
                if has_matrix(layer):
                    layer.mean.matrix[:, :width] = weights[size + 1 :]  # type: ignore[union-attr, index, operator]
                    layer.mean.prior_std.mul_(linear)  # type: ignore[union-attr, operator]
