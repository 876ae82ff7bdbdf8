"""Oracle: scikit-learn's estimator checks, and what the messages must say."""

from __future__ import annotations

import io
import pickle

import numpy as np
import pandas as pd
import pytest
from quick import quick, wave
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from dtmgp import DTMGPRegressor
from dtmgp.errors import InputError
from dtmgp.inference import ELBO, Energy, Predictive
from dtmgp.inference.progress import report_progress
from dtmgp.kernels import Additive, Laplace, Matern52, Tensor
from dtmgp.likelihoods import (
    Bernoulli,
    BoxCox,
    Categorical,
    GaussianLikelihood,
    HeteroscedasticGaussian,
    NegativeBinomial,
    Poisson,
    StudentT,
)


@parametrize_with_checks([quick()])
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([DTMGPRegressor()])
def test_scikit_learn_with_defaults(estimator, check):
    check(estimator)


@pytest.mark.slow
def test_the_default_finds_mean_and_noise():
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(200, 2))
    y = np.sin(5 * x[:, 0]) + x[:, 1] + 0.1 * rng.normal(size=200)
    mean, std = DTMGPRegressor().fit(x, y).predict(x, return_std=True)
    assert np.sqrt(np.mean((mean - np.sin(5 * x[:, 0]) - x[:, 1]) ** 2)) < 0.05
    assert 0.07 < std.mean() < 0.14


class TestRandomness:
    def test_same_seed_same_bits_other_seed_other_bits(self):
        x, y = wave()
        one, two, other = (quick(random_state=seed).fit(x, y).predict(x) for seed in (3, 3, 4))
        assert np.array_equal(one, two)
        assert not np.array_equal(one, other)

    def test_a_generator_moves_on(self):
        x, y = wave()
        rng = np.random.default_rng(0)
        one, two = (quick(random_state=rng).fit(x, y).predict(x) for _ in range(2))
        assert not np.array_equal(one, two)

    def test_global_random_states_are_left_alone(self):
        x, y = wave()
        before = np.random.get_state()[1].copy()  # noqa: NPY002
        quick().fit(x, y).sample_y(x, 3)
        assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002


class TestReplicates:
    def test_repeated_rows_are_found_in_any_order(self):
        """Oracle: the same runs side by side. Only the order of sums over the runs of an input differs."""
        x, y = wave(40, 3)
        first, rest = np.arange(0, 120, 3), np.setdiff1d(np.arange(120), np.arange(0, 120, 3))
        order = np.concatenate([first, np.random.default_rng(0).permutation(rest)])
        one, two = quick().fit(x, y), quick().fit(x[order], y[order])
        assert np.allclose(one.predict(x), two.predict(x), rtol=1e-3)
        assert len(one.trace_) == len(two.trace_)

    def test_inputs_are_held_out_with_all_their_runs(self):
        x, y = wave(40, 3)
        seen = []

        def watch(state):
            seen.append(state)

        est = quick(validation_fraction=0.25, callbacks=[watch]).fit(x, y)
        assert np.isfinite(est.trace_[-1].validation)
        none = quick(validation_fraction=0.0).fit(x, y)
        assert np.isnan(none.trace_[-1].validation)
        few = quick().fit(*wave(20))
        assert np.isnan(few.trace_[-1].validation)


class TestParameters:
    @pytest.mark.parametrize(
        ("options", "widths"),
        [
            ({"hidden_widths": (), "levels": (3,)}, ()),
            ({"hidden_widths": (3, 2), "levels": (2, 2, 2)}, (3, 2)),
            ({"hidden_widths": None, "levels": (2, 3)}, None),
            ({"kernel": Laplace(lengthscale=3.0)}, (2,)),
            ({"kernel": Tensor([Laplace(), Matern52()])}, (2,)),
            ({"kernel": Additive([((0,), Laplace()), ((0, 1), Matern52())])}, (2,)),
            ({"latent_inputs": 1, "hidden_widths": (3,)}, (3,)),
            ({"learn_kernel": False}, (2,)),
            ({"batch_size": 7, "learning_rate": 0.01}, (2,)),
            ({"dtype": "float64"}, (2,)),
            ({"objective": ELBO(2)}, (2,)),
            ({"objective": Energy(4)}, (2,)),
            ({"objective": Predictive(2), "likelihood": StudentT()}, (2,)),
            ({"likelihood": GaussianLikelihood()}, (2,)),
            ({"likelihood": HeteroscedasticGaussian(), "warp": BoxCox(0.0)}, (2,)),
            ({"likelihood": GaussianLikelihood(warp=BoxCox(0.5, 0.0))}, (2,)),
        ],
        ids=lambda v: "-".join(v) if isinstance(v, dict) else "",
    )
    def test_every_choice_fits_and_predicts(self, options, widths):
        x, y = wave()
        est = quick(**options).fit(x, y)
        mean, std = est.predict(x, return_std=True)
        assert mean.shape == std.shape == (60,)
        assert est.score(x, y) > 0.5
        assert (std > 0).all()
        assert widths is None or est.hidden_widths_ == widths
        learned = [p.requires_grad for p in est.model_.parameters()]
        assert not any(learned)  # fitted
        assert est.reason_ in est.summary()
        assert type(est.model_.likelihood).__name__ in est.summary()

    def test_parameters_are_not_changed_by_a_fit(self):
        x, y = wave()
        likelihood = GaussianLikelihood(noise=0.7)
        before = {k: v.clone() for k, v in likelihood.state_dict().items()}
        est = quick(likelihood=likelihood)
        est.fit(x, y)
        assert est.likelihood is likelihood
        assert all(bool((v == before[k]).all()) for k, v in likelihood.state_dict().items())
        clone(est).fit(x, y)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"hidden_widths": 4}, r"hidden_widths: got 4; expected a sequence.*hidden_widths=\(16,\)"),
            ({"hidden_widths": (0,)}, "hidden_widths: got 0"),
            ({"hidden_widths": (2.5,)}, "hidden_widths: got 2.5; expected an integer"),
            ({"levels": 3}, "levels: got 3; expected a sequence"),
            ({"levels": (0, 2)}, "levels"),
            ({"levels": (2, 3, 4)}, "levels: got 3 of them; expected 2"),
            ({"hidden_widths": None, "levels": (2,)}, "give hidden_widths as well"),
            ({"kernel": "matern"}, r"kernel: got 'matern'.*kernel=Matern32\(\)"),
            ({"kernel": Laplace}, "a class instead of an object"),
            ({"objective": "elbo"}, r"objective: got 'elbo'.*Predictive\(samples=8\)"),
            ({"likelihood": "student"}, r"likelihood.*StudentT\(\)"),
            ({"likelihood": GaussianLikelihood(2)}, r"for 2 outputs; expected one for the 1 columns"),
            ({"warp": "log"}, "warp"),
            ({"latent_inputs": -1}, "latent_inputs: got -1"),
            ({"max_epochs": 0}, "max_epochs: got 0"),
            ({"batch_size": 0.5}, "batch_size: got 0.5"),
            ({"learning_rate": 0.0}, "learning_rate: got 0.0; expected a number above 0"),
            ({"validation_fraction": 0.95}, "validation_fraction"),
            ({"prediction_samples": 0}, "prediction_samples"),
            ({"bounds": [[0, 1]]}, r"bounds: got an array of shape \(1, 2\)"),
            ({"bounds": [[0, 1], [150, 200]]}, r"input 'x1'.*declared bounds \[150, 200\]"),
            ({"device": "gpu"}, "device: got 'gpu'"),
            ({"dtype": "float16"}, "dtype: got 'float16'; expected 'float32' or 'float64'"),
            ({"random_state": -1}, "random_state"),
        ],
        ids=str,
    )
    def test_bad_ones_are_refused_before_any_work(self, options, message):
        x, y = wave()
        with pytest.raises(InputError, match=message):
            quick(**options).fit(x, y)


class TestInputs:
    def test_data_frames_keep_their_names(self):
        x, y = wave()
        frame = pd.DataFrame(x, columns=["load", "speed"])
        est = quick().fit(frame, pd.Series(y))
        assert list(est.feature_names_in_) == ["load", "speed"]
        assert np.array_equal(est.predict(frame), quick().fit(x, y).predict(x))
        with pytest.raises(ValueError, match="feature names"):
            est.predict(frame.rename(columns={"speed": "velocity"}))

    def test_declared_bounds_scale_the_inputs_and_refuse_others(self):
        x, y = wave()
        est = quick(bounds=[[0, 2], [0, 400]]).fit(x, y)
        assert np.array_equal(est.cube_.scale(np.array([[1.0, 100.0]])), [[0.5, 0.25]])
        with pytest.raises(InputError, match=r"input 'x0': got 3 in row 1"):
            est.predict([[0.5, 100.0], [3.0, 100.0]])
        free = quick().fit(x, y)
        assert np.isfinite(free.predict([[3.0, 500.0]])).all()  # extrapolates

    def test_bad_data_get_one_clear_message(self):
        x, y = wave()
        bad = x.copy()
        bad[3, 1] = np.nan
        with pytest.raises(InputError, match="input column 'x1': got NaN in row 3"):
            quick().fit(bad, y)
        with pytest.raises(ValueError, match="infinity"):
            quick().fit(x, np.where(np.arange(60) == 5, np.inf, y))
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            quick().fit(x, y[:-1])
        with pytest.raises(InputError, match="the constant 1"):
            quick().fit(np.column_stack([x, np.ones(60)]), y)
        with pytest.raises(InputError, match="y for Poisson"):
            quick(likelihood=Poisson()).fit(x, y)
        with pytest.raises(InputError, match="inside the domain of"):
            quick(likelihood=GaussianLikelihood(warp=BoxCox(0.0, 5.0))).fit(x, y)

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda e, x, y: e.predict_quantiles(x, 1.5), "q: got 1.5"),
            (lambda e, x, y: e.predict_quantiles(x, []), "q: got"),
            (lambda e, x, y: e.predict_interval(x, 0.0), "coverage: got 0.0"),
            (lambda e, x, y: e.sample_y(x, 0), "n_samples: got 0"),
            (lambda e, x, y: e.sample_functions(x, True), "n_samples: got True"),
            (lambda e, x, y: e.log_prob(x, y[:3]), r"y: got shape \(3,\)"),
            (lambda e, x, y: e.cdf(x, y[:, None]), r"y: got shape \(60, 1\)"),
        ],
    )
    def test_bad_calls_too(self, call, message):
        x, y = wave()
        with pytest.raises(InputError, match=message):
            call(quick().fit(x, y), x, y)

    def test_methods_before_fit(self, tmp_path):
        x, y = wave()
        est = quick()
        for call in (
            lambda: est.predict(x),
            lambda: est.predict_quantiles(x, 0.5),
            lambda: est.predict_interval(x),
            lambda: est.sample_y(x),
            lambda: est.sample_functions(x),
            lambda: est.log_prob(x, y),
            lambda: est.cdf(x, y),
            lambda: est.moment_gradients(x),
            lambda: est.summary(),
            lambda: est.save(tmp_path / "m"),
        ):
            with pytest.raises(NotFittedError):
                call()


@pytest.mark.parametrize(
    ("likelihood", "outcome"),
    [
        (Bernoulli(), lambda p, u: (u < p).astype(float)),
        (Poisson(), lambda p, u: np.floor(6 * p * u + 0.5)),
        (NegativeBinomial(), lambda p, u: np.floor(6 * p * u + 0.5)),
    ],
)
def test_other_laws(likelihood, outcome):
    x, _ = wave(200)
    p = 1 / (1 + np.exp(-8 * (x[:, 0] - 0.5)))
    y = outcome(p, np.random.default_rng(1).uniform(size=200))
    est = quick(likelihood=likelihood, max_epochs=40, learning_rate=0.05).fit(x, y)
    assert est.lattice_ is None  # the likelihood is the user's
    assert np.corrcoef(est.predict(x), p)[0, 1] > 0.9
    draws = est.sample_y(x, 20, 0)
    assert set(np.unique(draws)) <= set(range(100))
    total = sum(np.exp(est.log_prob(x, np.full(200, float(k)))) for k in range(80))
    if isinstance(likelihood, Bernoulli):
        total = sum(np.exp(est.log_prob(x, np.full(200, float(k)))) for k in range(2))
    assert np.allclose(total, 1.0, atol=1e-6)


def test_classes():
    x, _ = wave(200)
    y = (x[:, 0] * 3).astype(int).astype(float)
    est = quick(likelihood=Categorical(3), max_epochs=60, learning_rate=0.05).fit(x, y)
    found = est.predict(x)
    assert found.shape == (200, 3)
    assert np.allclose(found.sum(axis=1), 1.0)
    assert np.mean(found.argmax(axis=1) == y) > 0.8
    assert set(np.unique(est.sample_y(x, 10, 0))) <= {0.0, 1.0, 2.0}
    functions = est.sample_functions(x, 5, 0)
    assert functions.shape == (200, 3, 5)
    assert np.allclose(functions.sum(axis=1), 1.0)
    assert est.moment_gradients(x)[0].shape == (200, 3, 2)
    assert np.isfinite(est.predict_quantiles(x, 0.5)).all()


def test_pickles_predict_the_same_bits():
    x, y = wave()
    est = quick(kernel=Tensor([Laplace(), Matern52()])).fit(x, y)
    again = pickle.loads(pickle.dumps(est))
    assert np.array_equal(again.predict(x), est.predict(x))
    assert np.array_equal(again.sample_functions(x, 2, 0), est.sample_functions(x, 2, 0))


class TestStopping:
    def test_ctrl_c_keeps_the_best_state_so_far(self):
        x, y = wave()
        states = []

        def interrupt(state):
            states.append(state.best_score)
            if state.epoch == 3:
                raise KeyboardInterrupt

        est = quick(max_epochs=50, callbacks=[interrupt]).fit(x, y)
        assert est.reason_ == "interrupted"
        assert 2 <= len(est.trace_) <= 3
        assert np.isfinite(est.predict(x)).all()
        assert est.score(x, y) > 0.5

    def test_ctrl_c_in_the_start_keeps_what_it_has_found(self, monkeypatch):
        x, y = wave()
        from dtmgp.inference import gauss_newton

        calls = []
        whole = gauss_newton._Solver._step

        def step(self, *arguments):
            calls.append(1)
            if len(calls) == 8:
                raise KeyboardInterrupt
            return whole(self, *arguments)

        monkeypatch.setattr(gauss_newton._Solver, "_step", step)
        est = quick(max_epochs=50).fit(x, y)
        assert est.reason_ == "interrupted"
        assert est.trace_ == []
        assert est.score(x, y) > 0.3

    def test_a_callback_stops(self):
        x, y = wave()
        est = quick(max_epochs=50, callbacks=[lambda state: state.epoch == 4]).fit(x, y)
        assert est.n_iter_ == 4
        assert est.reason_ == "stopped by a callback"


class TestVerbose:
    def test_says_what_was_chosen_and_shows_no_bar_off_a_terminal(self, capsys):
        x, y = wave(150)
        est = quick(verbose=1).fit(x, y)
        out, err = capsys.readouterr()
        assert err == ""
        scale = f"output scale: {est.warp_}"
        for word in ("layers: 2 (3 features)", scale, "Gauss-Newton steps", "epochs", "held-out"):
            assert word in out
        quick().fit(x, y)
        assert capsys.readouterr() == ("", "")

    def test_shows_a_bar_on_a_terminal(self, monkeypatch):
        class Terminal(io.StringIO):
            def isatty(self):
                return True

        screen = Terminal()
        monkeypatch.setattr("sys.stderr", screen)
        with report_progress(1) as callbacks:
            assert len(callbacks) == 1
            x, y = wave()
            quick(callbacks=callbacks).fit(x, y)
        assert "epoch 2/2" in screen.getvalue()
        assert "loss" in screen.getvalue()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda y: 1e300 * y, "another unit"),
        (lambda y: 1e-300 * y, "another unit"),
        (lambda y: 1e12 + y, "subtract it"),
    ],
)
def test_outputs_that_float32_cannot_hold_are_refused_before_work_starts(change, words):
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match=words):
        DTMGPRegressor().fit(rng.uniform(size=(20, 2)), change(rng.normal(size=20)))
