"""`DTMGPModel`: a fitted deep model with the interface of a BoTorch model."""

from __future__ import annotations

from typing import Any, Self

import torch
from botorch.models.model import FantasizeMixin, Model
from torch import Tensor

from dtmgp.botorch.conditioning import Update
from dtmgp.botorch.functionals import AbstractFunctional, MeanResponse
from dtmgp.botorch.members import AbstractMembers, DeepMembers, ExactMembers
from dtmgp.botorch.posterior import FunctionPosterior
from dtmgp.errors import InputError
from dtmgp.model import DTMGP


class DTMGPModel(Model, FantasizeMixin):
    """A fitted `DTMGPRegressor` or `TMGPRegressor` (inputs in its units), or a `DTMGP` module (in the unit cube).

    The posterior consists of ``hidden_draws * draws`` functions, drawn once: samples are consistent over calls, and
    differentiable in the inputs. ``functional`` says what of the law of Y(x) they are values of: `MeanResponse()`
    (default), `QuantileResponse(level)`, or `Negative` of one, since BoTorch maximises. With
    ``observation_noise=True`` the posterior is that of a run of the simulator. ``condition_on_observations`` (and so
    ``fantasize``) takes runs and is exact for Gaussian noise given the drawn hidden weights: see
    `dtmgp.botorch.conditioning`. Fit again when many runs have come: few hidden draws will be left with weight then
    (``effective_hidden_draws``).

    >>> from dtmgp.likelihoods import GaussianLikelihood
    >>> from dtmgp.model import deep_model
    >>> module = deep_model(2, GaussianLikelihood(), hidden_widths=(3,), levels=(2, 3)).double()
    >>> model = DTMGPModel(module, functional=MeanResponse())
    >>> model.posterior(torch.rand(4, 1, 2).double()).mean.shape
    torch.Size([4, 1, 1])
    """

    _supports_cache_root = False
    low: Tensor
    width: Tensor

    def __init__(
        self,
        fitted: Any,
        *,
        functional: AbstractFunctional | None = None,
        hidden_draws: int = 32,
        draws: int = 8,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if hidden_draws < 1 or draws < 1 or hidden_draws * draws < 2:
            raise InputError(
                "DTMGPModel", got=f"{hidden_draws} x {draws} draws", expected="two functions or more"
            )
        self.functional: AbstractFunctional = MeanResponse() if functional is None else functional
        self.members = _members(fitted, hidden_draws, draws, seed)
        self.columns = tuple(range(self.members.likelihood.outputs))
        cube = getattr(fitted, "cube_", None)
        dim, like = self.members.dim, self.members.centre
        low = torch.zeros(dim) if cube is None else torch.as_tensor(cube.low)
        high = torch.ones(dim) if cube is None else torch.as_tensor(cube.high)
        self.register_buffer("low", low.to(like))
        self.register_buffer("width", (high - low).to(like))
        self._seen: tuple[Tensor, Tensor, Tensor | None] | None = None
        self._update: Update | None = None

    # -- what BoTorch asks -------------------------------------------------------------------------------------
    @property
    def likelihood(self) -> torch.nn.Module:
        """From processes to runs."""
        return self.members.likelihood

    @property
    def num_outputs(self) -> int:
        """Columns of Y."""
        return len(self.columns)

    @property
    def batch_shape(self) -> torch.Size:
        """Batches of the observations that it was conditioned on."""
        return torch.Size() if self._update is None else self._update.batch_shape

    @property
    def effective_hidden_draws(self) -> Tensor:
        """``1 / sum of squared weights`` of the hidden draws, per batch: S before conditioning, 1 at worst."""
        if self._update is None:
            return torch.tensor(float(self.members.hidden_draws))
        shape = (self.members.hidden_draws, self.members.draws)
        return 1.0 / self._update.weights.unflatten(-1, shape).sum(-1).square().sum(-1)

    def posterior(  # type: ignore[override]  # the mixin of BoTorch takes its positional arguments as *args
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: Any = None,
    ) -> FunctionPosterior:
        """Law of the functional at inputs (..., q, d), or of runs: noise included, or with given variances added."""
        self.eval()
        values, weights = self._values(self.transform_inputs(X), observation_noise)
        if output_indices is not None:
            values = values[..., output_indices]
        if posterior_transform is not None:
            values = posterior_transform.evaluate(values).unsqueeze(-1)
        return FunctionPosterior(values, weights)

    def subset_output(self, idcs: list[int]) -> Self:
        """The model of some columns of Y."""
        same = self._copy()
        same.columns = tuple(self.columns[k] for k in idcs)
        if self._seen is not None:
            x, y, noise = self._seen
            same._condition(x, y[..., idcs], None if noise is None else noise[..., idcs])
        return same

    def condition_on_observations(
        self, X: Tensor, Y: Tensor, noise: Tensor | None = None, **kwargs: Any
    ) -> Self:
        """The model given further runs Y (..., n, m) at inputs (..., n, d), with their variances if known.

        Runs are conditioned on together with those seen before; nothing is trained.
        """
        if Y.shape[-1] != self.num_outputs or Y.shape[-2] != X.shape[-2]:
            raise InputError(
                "condition_on_observations",
                got=f"X {tuple(X.shape)}, Y {tuple(Y.shape)}",
                expected=f"Y of shape (..., {X.shape[-2]}, {self.num_outputs})",
            )
        same = self._copy()
        known = None if noise is None else noise.expand(Y.shape)
        if self._seen is not None:
            x, y, before = self._seen
            if (before is None) != (known is None):
                raise InputError("noise", got="some runs with and some without", expected="all or none")
            X, Y = _joined(x, X), _joined(y, Y)
            known = None if known is None or before is None else _joined(before, known)
        same._condition(X, Y, known)
        return same

    # -- inside ------------------------------------------------------------------------------------------------
    def _copy(self) -> Self:
        """The same functions without observations; parts are shared."""
        same = object.__new__(type(self))
        torch.nn.Module.__init__(same)
        for name in ("functional", "members", "columns"):
            setattr(same, name, getattr(self, name))
        same.register_buffer("low", self.low)
        same.register_buffer("width", self.width)
        same._seen, same._update = None, None
        if hasattr(self, "input_transform"):
            same.input_transform = self.input_transform
        return same

    def _condition(self, x: Tensor, y: Tensor, noise: Tensor | None) -> None:
        self._seen = (x, y, noise)
        runs = self._all_outputs(self.functional.run(y))
        warped = self.members.likelihood.warp(runs)[..., list(self.columns)]
        if noise is not None:  # to first order
            slope = self.members.likelihood.warp.log_derivative(runs)[..., list(self.columns)].exp()
            noise = noise * slope.square()
        self._update = Update(self.members, self._unit(self.transform_inputs(x)), warped, self.columns, noise)

    def _all_outputs(self, y: Tensor) -> Tensor:
        """Columns of the warp that are not there repeat the first one; they are dropped again."""
        places = [
            self.columns.index(k) if k in self.columns else 0 for k in range(self.members.likelihood.outputs)
        ]
        return y[..., places]

    def _unit(self, x: Tensor) -> Tensor:
        return (x.to(self.low) - self.low) / self.width

    def _values(self, x: Tensor, noise: bool | Tensor) -> tuple[Tensor, Tensor | None]:
        """Values (..., N, q, m) of all members, and their weights."""
        if x.shape[-1] != len(self.low):
            raise InputError("X", got=f"{x.shape[-1]} columns", expected=f"{len(self.low)}, as in the fit")
        phi, fixed = self.members.features(self._unit(x))
        f = self.members.processes(phi, fixed)
        weights = None
        if self._update is not None:
            f, weights = self._update(phi, f), self._update.weights
        law, warp = self.members.law(f), self.members.likelihood.warp
        if isinstance(noise, bool) and noise:
            values = self.functional.observed(warp.inverse(self.members.runs(law)))
        else:
            values = self.functional.value(law, warp)
        values = values.flatten(-4, -3)[..., list(self.columns)]
        if isinstance(noise, Tensor):
            generator = torch.Generator().manual_seed(self.members.seed + 3)
            draw = torch.randn(values.shape[-3:], generator=generator, dtype=values.dtype)
            values = values + noise.to(values).unsqueeze(-3).sqrt() * draw
        return values, weights


def _members(fitted: Any, hidden_draws: int, draws: int, seed: int) -> AbstractMembers:
    """The functions of a model, by its kind."""
    module = getattr(fitted, "model_", fitted)
    if isinstance(module, DTMGP):
        return DeepMembers(module, hidden_draws, draws, seed)
    if hasattr(fitted, "models_") and hasattr(fitted, "offset_"):
        return ExactMembers(fitted, hidden_draws, draws, seed)
    raise InputError(
        "DTMGPModel",
        got=type(fitted).__name__,
        expected="a fitted DTMGPRegressor or TMGPRegressor, or a DTMGP module",
        do="call fit(X, y) first",
    )


def _joined(before: Tensor, after: Tensor) -> Tensor:
    """Rows of both, for all batches."""
    shape = torch.broadcast_shapes(before.shape[:-2], after.shape[:-2])
    return torch.cat(
        [before.expand(*shape, *before.shape[-2:]), after.expand(*shape, *after.shape[-2:])], dim=-2
    )
