"""The interface check of kernels: line kernels, tensor products and additive sums."""

from __future__ import annotations

import itertools

import numpy as np

from dtmgp.expansion.reference import dense_inverse_cholesky
from dtmgp.kernels import AbstractLineKernel, Additive, Tensor
from dtmgp.testing._require import require, require_error

ROUNDING = 1e-13  # of numbers that should be equal up to the order of operations
DENSE = 1e-8  # against dense algebra of a few states, whose condition the kernel decides
DIFFERENCES = 1e-6  # central differences with a step of 1e-5 units have 1e-10 of error, and 1e-11 of rounding


def window(kernel: AbstractLineKernel, margin: float = 0.02) -> tuple[float, float]:
    """The kernel's domain within (0, 1), or next to its lower end if the two do not meet, less a margin."""
    low, high = kernel.domain
    start, stop = max(low, 0.0), min(high, 1.0)
    if not start < stop:
        start, stop = (low, low + 1.0) if np.isfinite(low) else (high - 1.0, high)
    gap = margin * (stop - start)
    return start + gap, stop - gap


def check_kernel(kernel: AbstractLineKernel | Tensor | Additive) -> None:
    """Check that a kernel is a covariance and keeps its interface; a line kernel also that its local form is right.

    A line kernel: symmetry, positive semi-definiteness, diagonal; state covariances against finite differences of
    ``covariance``; the Markov property (outer states are independent given the state between them); features and
    columns of the factor against dense Cholesky; hyperparameters there and back; refusals outside the domain.
    A tensor or additive kernel: the product or sum of its factors, each of which is checked.
    """
    if isinstance(kernel, AbstractLineKernel):
        low, high = window(kernel)
        x = low + (high - low) * np.random.default_rng(0).random(12)
        _check_covariance(kernel, x)
        _check_state(kernel, x)
        _check_local_form(kernel, np.sort(x))
        _check_hyperparameters(kernel, x)
        _check_domain(kernel, x)
    elif isinstance(kernel, Tensor):
        _check_product(kernel)
    elif isinstance(kernel, Additive):
        _check_sum(kernel)
    else:
        raise AssertionError(
            f"a kernel should be a line kernel, Tensor or Additive, not {type(kernel).__name__}"
        )


def _close(got: np.ndarray, expected: np.ndarray, tolerance: float, what: str, scale: object = None) -> None:
    size = np.abs(expected).max() if scale is None else scale
    error = float(np.max(np.abs(got - expected) / size))
    require(
        error <= tolerance, f"{what}: the relative error is {error:.1e}, at most {tolerance:.0e} expected"
    )


def _check_covariance(kernel: AbstractLineKernel | Tensor | Additive, x: np.ndarray) -> None:
    matrix = kernel(x)
    half = len(x) // 2
    require(matrix.shape == (len(x), len(x)), f"k(x) should be (n, n), not {matrix.shape}")
    require(matrix.dtype == np.float64 and np.isfinite(matrix).all(), "k(x) should be finite float64")
    _close(matrix, matrix.T, ROUNDING, "symmetry of k(x)")
    _close(kernel(x[:half], x[half:]), matrix[:half, half:], ROUNDING, "k(x, y) against a part of k(x)")
    eigenvalues = np.linalg.eigvalsh(matrix)
    require(
        eigenvalues[0] >= -1e-12 * eigenvalues[-1],
        f"k(x) should be positive semi-definite, but has the eigenvalue {eigenvalues[0]:.1e}",
    )
    _close(kernel.diagonal(x), np.diag(matrix), ROUNDING, "diagonal(x) against k(x)")


def _check_state(kernel: AbstractLineKernel, x: np.ndarray) -> None:
    size = kernel.state_size
    rows, columns = x[:, None], x[None, :]
    states = kernel.state_covariance(rows, columns)
    require(
        states.shape == (len(x), len(x), size, size),
        f"state_covariance should be (n, m, s, s), not {states.shape}",
    )
    _close(states[..., 0, 0], kernel.covariance(rows, columns), ROUNDING, "the value's part of the state")
    spread = np.sqrt(np.einsum("nnii->ni", states))
    scale = spread[:, None, :, None] * spread[None, :, None, :]
    _close(states, np.transpose(states, (1, 0, 3, 2)), ROUNDING, "state covariance, roles swapped", scale)
    if size > 1:
        step = 1e-5 * float(np.min(spread[:, 0] / spread[:, 1]))
        apart = ~np.eye(len(x), dtype=bool)  # the highest derivative has a kink at x = y
        forward, backward = (kernel.state_covariance(rows + h, columns) for h in (step, -step))
        slope = (forward - backward) / (2 * step)
        for i, j in itertools.product(range(size - 1), range(size)):
            _close(
                slope[apart][:, i, j],
                states[apart][:, i + 1, j],
                DIFFERENCES,
                f"Cov(G^({i + 1})(x), G^({j})(y)) against differences of Cov(G^({i})(x), G^({j})(y))",
                scale[apart][:, i + 1, j],
            )
    _check_markov_property(kernel, np.sort(x), spread[np.argsort(x)])


def _check_markov_property(kernel: AbstractLineKernel, x: np.ndarray, spread: np.ndarray) -> None:
    before, after = np.arange(0, 4), np.arange(8, 12)
    middle = 6
    at = x[middle : middle + 1]
    to_middle = kernel.state_covariance(x[before], at)
    own = kernel.state_covariance(at, at)[0]
    unit = spread[middle]
    weights = np.linalg.inv(own / unit / unit[:, None]) / unit / unit[:, None]
    from_middle = kernel.state_covariance(at, x[after])
    through = np.einsum("aij,jk,ckl->acil", to_middle, weights, from_middle)
    direct = kernel.state_covariance(x[before][:, None], x[after][None, :])
    scale = spread[before][:, None, :, None] * spread[after][None, :, None, :]
    _close(
        direct, through, DENSE, "Markov property: states on both sides of a state, given that state", scale
    )


def _check_local_form(kernel: AbstractLineKernel, x: np.ndarray) -> None:
    a, b, c = x[2], x[5], x[9]
    inputs = np.concatenate([x, np.linspace(a, c, 9)[1:-1], [b]])
    size = kernel.state_size
    for left, right in itertools.product((-np.inf, a), (c, np.inf)):
        what = f"{b:.3f} between {left:.3f} and {right:.3f}"
        near = [point for point in (left, right) if np.isfinite(point)]
        points = np.array([*near, b])
        joint = kernel.state_covariance(points[:, None], points[None, :])
        covariance = np.transpose(joint, (0, 2, 1, 3)).reshape(len(points) * size, -1)
        factor = dense_inverse_cholesky(covariance)[:, -size:].reshape(len(points), size, size)
        columns = kernel.columns(np.array([left]), np.array([b]), np.array([right]))
        unit = np.sqrt(np.diag(covariance))[-size:, None]  # rows of the factor have one unit per derivative
        expected = {"own": factor[-1]}
        expected |= {"left": factor[0]} if np.isfinite(left) else {"left": np.zeros((size, size))}
        expected |= (
            {"right": factor[len(near) - 1]} if np.isfinite(right) else {"right": np.zeros((size, size))}
        )
        scale = (np.abs(factor) * unit).max(axis=(0, 1))
        for name, dense in expected.items():
            got = getattr(columns, name)[0] * unit
            _close(got, dense * unit, DENSE, f"columns.{name}, {what}", scale)
        local = kernel.local(np.array([left]), np.array([b]), np.array([right]))
        place = np.zeros(len(inputs), dtype=np.int64)
        got = kernel.features(inputs, local, place)
        cross = kernel.state_covariance(inputs[:, None], points[None, :])[:, :, 0, :].reshape(len(inputs), -1)
        dense = cross @ factor.reshape(len(points) * size, size)
        _close(got, dense, DENSE, f"features, {what}", np.abs(dense).max(axis=0))
        outside = (inputs <= left) | (inputs >= right)
        require((got[outside] == 0).all(), f"features, {what}: they should be exactly 0 outside")


def _check_hyperparameters(kernel: AbstractLineKernel, x: np.ndarray) -> None:
    matrix = kernel(x)
    _close(kernel.with_hyperparameters()(x), matrix, ROUNDING, "with_hyperparameters()")
    three = kernel.with_hyperparameters(variance=3.0)
    require(type(three) is type(kernel), "with_hyperparameters should keep the type")
    six = three.with_hyperparameters(variance=6.0)
    _close(six(x), 2 * three(x), ROUNDING, "twice the variance")
    _close(kernel(x), matrix, 0.0, "with_hyperparameters should not change the kernel itself")
    if hasattr(kernel, "variance"):
        back = six.with_hyperparameters(variance=kernel.variance)
        _close(back(x), matrix, ROUNDING, "variance there and back")
    if not kernel.has_lengthscale:
        require_error(
            lambda: kernel.with_hyperparameters(lengthscale=2.0), what="a lengthscale where none is"
        )
        return
    own = float(kernel.lengthscale)  # type: ignore[attr-defined]
    other = kernel.with_hyperparameters(lengthscale=1.5 * own)
    require(np.isclose(other.lengthscale, 1.5 * own, rtol=ROUNDING), "the lengthscale should be as given")  # type: ignore[attr-defined]
    require(not np.allclose(other(x), matrix, rtol=1e-6), "another lengthscale, another covariance")
    _close(other.with_hyperparameters(lengthscale=own)(x), matrix, ROUNDING, "lengthscale there and back")
    for value in (0.0, -1.0, np.nan):
        require_error(
            lambda value=value: kernel.with_hyperparameters(lengthscale=value),  # type: ignore[misc]
            what=f"lengthscale {value}",
        )


def _check_domain(kernel: AbstractLineKernel, x: np.ndarray) -> None:
    low, high = kernel.domain
    bad = {"NaN": np.nan, "infinity": np.inf}
    if np.isfinite(low):
        bad["an input below the domain"] = low - 1e-6 * max(1.0, abs(low))
    if np.isfinite(high):
        bad["an input above the domain"] = high + 1e-6 * max(1.0, abs(high))
    for what, value in bad.items():
        wrong = np.concatenate([x[:3], [value]])
        require_error(lambda wrong=wrong: kernel(wrong), "x[3]", what=what)  # type: ignore[misc]
        require_error(lambda wrong=wrong: kernel(x, wrong), "x[3]", what=f"{what}, as second argument")  # type: ignore[misc]
    require_error(lambda: kernel(np.stack([x, x], axis=1)), "shape", what="two columns")


def _inputs(kernels: list[AbstractLineKernel]) -> np.ndarray:
    random = np.random.default_rng(1).random((10, len(kernels)))
    ends = np.array([window(kernel) for kernel in kernels])
    return np.asarray(ends[:, 0] + random * (ends[:, 1] - ends[:, 0]))


def _check_product(kernel: Tensor) -> None:
    for factor in set(kernel.kernels):
        check_kernel(factor)
    x = _inputs(list(kernel.kernels))
    _check_covariance(kernel, x)
    product = kernel.variance * np.prod([k(x[:, j]) for j, k in enumerate(kernel.kernels)], axis=0)
    _close(kernel(x), product, ROUNDING, "a tensor kernel against the product of its factors")
    _close(
        kernel.with_hyperparameters(variance=2 * kernel.variance)(x),
        2 * product,
        ROUNDING,
        "twice the variance",
    )
    require_error(lambda: kernel(np.hstack([x, x])), f"{kernel.dim}", what="twice as many columns")


def _check_sum(kernel: Additive) -> None:
    covered: list[AbstractLineKernel | None] = [None] * kernel.dim
    for subset, term in kernel.terms:
        _check_product(term)
        for j, factor in zip(subset, term.kernels, strict=True):
            known = covered[j]
            narrow = (
                known is not None
                and known.domain[0] >= factor.domain[0]
                and known.domain[1] <= factor.domain[1]
            )
            covered[j] = known if narrow else factor
    anywhere = next(factor for factor in covered if factor is not None)
    x = _inputs([anywhere if factor is None else factor for factor in covered])
    _check_covariance(kernel, x)
    total = np.sum([term(x[:, list(subset)]) for subset, term in kernel.terms], axis=0)
    _close(kernel(x), total, ROUNDING, "an additive kernel against the sum of its terms")
    require_error(lambda: kernel(np.hstack([x, x])), f"{kernel.dim}", what="twice as many columns")
