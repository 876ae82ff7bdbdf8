"""Oracles: repeated runs bit by bit, known failures put in by hand, the learning-rate formula at its ends."""

from __future__ import annotations

import math

import pytest
import torch
from small import small_model, small_runs

from dtmgp.errors import InputError
from dtmgp.inference import ELBO, Batch, Energy, Predictive, Runs
from dtmgp.inference.trainer import Settings, copy_state, train
from dtmgp.inference.validation import negative_log_density
from dtmgp.likelihoods import HeteroscedasticGaussian, Poisson, StudentT


def run(
    model, *, epochs=12, objective=None, runs=None, seed=0, batch_size=20, rate=0.05, patience=0.5, **options
):
    return train(
        model,
        small_runs() if runs is None else runs,
        Predictive(4) if objective is None else objective,
        Settings(epochs=epochs, batch_size=batch_size, learning_rate=rate, patience=patience),
        generator=torch.Generator().manual_seed(seed),
        **options,
    )


@pytest.mark.parametrize("objective", [ELBO(2), Predictive(4), Energy(4)])
@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_every_depth_trains_with_every_objective(depth, objective):
    state = run(small_model(depth), epochs=15, objective=objective)
    assert len(state.trace) == 15
    first, last = state.trace[0].data, state.trace[-1].data
    # the data have variance about 0.6 around a constant and 0.04 around the function
    assert last < first - 0.1 * abs(first)
    assert state.reason == "all epochs done"


@pytest.mark.parametrize("likelihood", [HeteroscedasticGaussian(), StudentT()])
def test_other_likelihoods_train(likelihood):
    state = run(small_model(likelihood=likelihood), epochs=25)
    assert state.trace[-1].data < state.trace[0].data - 0.2


def test_counts_train():
    runs = small_runs()
    counts = Runs(
        runs.x, torch.poisson((1 + runs.y).clamp(min=0.1).exp(), torch.Generator().manual_seed(0)), runs.start
    )
    state = run(small_model(likelihood=Poisson()), epochs=25, runs=counts, objective=ELBO())
    assert state.trace[-1].data < state.trace[0].data - 0.2


def test_same_seed_same_bits_other_seed_other_bits():
    states = [run(small_model(), seed=seed) for seed in (0, 0, 1)]
    one, two, other = (copy_state(s.model) for s in states)
    assert all(torch.equal(one[k], two[k]) for k in one)
    assert [line[:-2] for line in states[0].trace] == [line[:-2] for line in states[1].trace]
    assert not all(torch.equal(one[k], other[k]) for k in one)


def test_float64_and_one_input_and_large_batches():
    for runs in (small_runs(1, 1), small_runs(1, 5), small_runs(3, 1)):
        state = run(small_model(), runs=runs, epochs=3, batch_size=1000)
        assert all(math.isfinite(line.loss) for line in state.trace)
    state = run(small_model(dtype=torch.float64), runs=small_runs(dtype=torch.float64), epochs=3)
    assert copy_state(state.model)["layers.0.bias"].dtype == torch.float64


def test_the_trace_tells_loss_terms_rate_and_scores():
    model = small_model()
    state = run(
        model, epochs=10, validation=small_runs(5, 2, seed=1), score=negative_log_density, objective=ELBO()
    )
    for number, line in enumerate(state.trace, start=1):
        assert line.number == number
        assert line.loss == pytest.approx(line.data + line.kl, rel=1e-5)
        assert line.seconds > 0
        assert 0 < line.rate <= 0.05
        assert math.isfinite(line.validation)
    assert state.best_score == min(line.validation for line in state.trace)
    assert state.best_epoch == 1 + [line.validation for line in state.trace].index(state.best_score)


def test_the_model_ends_in_its_best_held_out_state():
    seen = {}
    held_out = small_runs(8, 2, seed=1)

    def remember(state):
        seen[state.epoch] = copy_state(state.model)

    # few runs, many epochs, no prior: over-fits
    model = small_model(3)
    state = run(
        model,
        epochs=40,
        runs=small_runs(6, 1),
        objective=Predictive(4, kl_weight=0.0),
        validation=held_out,
        score=negative_log_density,
        callbacks=[remember],
        patience=1.0,
    )
    final = copy_state(model)
    assert all(torch.equal(final[k], seen[state.best_epoch][k]) for k in final)
    assert negative_log_density(model, held_out) == pytest.approx(state.best_score, rel=1e-6)


def test_training_stops_when_the_score_no_longer_improves():
    scores = iter([3.0, 2.0, *[2.5] * 100])
    state = run(
        small_model(), epochs=20, validation=small_runs(2, 1), score=lambda *_: next(scores), patience=0.25
    )
    assert state.best_epoch == 2
    assert len(state.trace) == 8  # more than a quarter of 20 epochs after the second
    assert "no better held-out score" in state.reason


def test_scores_that_are_not_numbers_are_never_the_best():
    scores = iter([math.nan, -math.inf, 1.0, *[math.nan] * 100])
    state = run(
        small_model(), epochs=6, validation=small_runs(2, 1), score=lambda *_: next(scores), patience=1.0
    )
    assert (state.best_epoch, state.best_score) == (3, 1.0)


def test_every_callback_hears_of_every_epoch_and_one_may_stop():
    heard = {"first": [], "second": []}

    def first(state):
        heard["first"].append(state.epoch)
        return state.epoch == 4

    state = run(small_model(), callbacks=[first, lambda s: heard["second"].append(s.epoch)])
    assert heard == {"first": [1, 2, 3, 4], "second": [1, 2, 3, 4]}
    assert state.reason == "stopped by a callback"


def interrupt_at(epoch):
    def callback(state):
        if state.epoch == epoch:
            raise KeyboardInterrupt

    return callback


def test_ctrl_c_returns_the_best_model_so_far():
    scores = iter([3.0, 1.0, 2.0, 2.0, 2.0])
    seen = {}
    model = small_model()
    state = run(
        model,
        validation=small_runs(2, 1),
        score=lambda *_: next(scores),
        callbacks=[lambda s: seen.update({s.epoch: copy_state(s.model)}), interrupt_at(4)],
    )
    assert state.reason == "interrupted"
    assert all(torch.equal(v, seen[2][k]) for k, v in copy_state(model).items())


class Interrupting(ELBO):
    """Ctrl-C in the middle of the third epoch."""

    calls = 0

    def data_term(self, model, batch, generator):
        type(self).calls += 1
        if type(self).calls == 6:
            raise KeyboardInterrupt
        return super().data_term(model, batch, generator)


def test_ctrl_c_in_the_middle_of_an_epoch_goes_back_to_its_start():
    seen = {}
    model = small_model()
    state = run(
        model, objective=Interrupting(), callbacks=[lambda s: seen.update({s.epoch: copy_state(s.model)})]
    )
    assert state.reason == "interrupted"
    assert state.epoch == 2
    assert all(torch.equal(v, seen[2][k]) for k, v in copy_state(model).items())


def test_an_interrupted_run_keeps_its_checkpoint(tmp_path):
    path = tmp_path / "c"
    run(small_model(), checkpoint=path, checkpoint_every=1, callbacks=[interrupt_at(4)])
    assert path.exists()


class TestNotFinite:
    """What is put in, and what the message says."""

    def trained(self, break_it, objective=None, epoch=3, depth=3, runs=None):
        seen = {}

        def callback(state):
            seen[state.epoch] = copy_state(state.model)
            if state.epoch == epoch:
                with torch.no_grad():
                    break_it(state.model)

        model = small_model(depth)
        state = run(model, callbacks=[callback], objective=objective or ELBO(), runs=runs)
        return model, state, seen

    @pytest.mark.parametrize("layer", [0, 1, 2])
    def test_a_broken_parameter_is_named_with_its_layer(self, layer):
        name = f"layers.{layer}.weights.log_std"
        model, state, seen = self.trained(lambda m: m.get_parameter(name)[0].fill_(math.nan))
        assert f"parameter {name} is not finite in epoch 4" in state.reason
        assert "went back to the last good state" in state.reason
        # the state after epoch 3 is the one with no finite loss
        assert all(torch.equal(v, seen[2][k]) for k, v in copy_state(model).items())
        assert state.epoch == 3

    @pytest.mark.parametrize("layer", [0, 1, 2])
    def test_an_overflowing_layer_is_named(self, layer):
        _, state, _ = self.trained(lambda m: m.layers[layer].weights.log_std.fill_(80.0))
        assert f"variance of the output of layers.{layer} is not finite" in state.reason

    def test_a_gradient_that_breaks_is_named_not_the_first_parameter(self):
        class Bad(ELBO):
            def data_term(self, model, batch, generator):
                loss = super().data_term(model, batch, generator)
                return loss + torch.sqrt(model.layers[1].bias.sum() * 0.0)  # value 0, gradient NaN

        _, state, _ = self.trained(lambda m: None, objective=Bad(), epoch=100)
        assert "the gradient of layers.1.bias is not finite in epoch 1" in state.reason

    def test_a_gradient_of_overflowing_norm(self):
        class Steep(ELBO):
            def data_term(self, model, batch, generator):
                return (
                    super().data_term(model, batch, generator)
                    + 1e25 * model.layers[1].bias.sum() * 1e-25 * 1e25
                )

        _, state, _ = self.trained(lambda m: None, objective=Steep(), epoch=100)
        assert "norm of the gradient overflows" in state.reason

    def test_bad_data_are_said_to_be_the_cause(self):
        runs = small_runs()
        runs.y[7] = math.inf
        model = small_model()
        before = copy_state(model)
        state = run(model, runs=runs, batch_size=1000)
        assert "the batch holds values that are not finite" in state.reason
        assert all(torch.equal(v, before[k]) for k, v in copy_state(model).items())

    def test_unscaled_outputs_are_said_to_be_the_cause(self):
        runs = small_runs()
        state = run(small_model(), runs=Runs(runs.x, runs.y * 1e25, runs.start))
        assert "not scaled to unit size" in state.reason

    @pytest.mark.parametrize("epochs", [1, 2, 5])
    def test_a_huge_learning_rate_ends_in_a_state_with_a_finite_loss(self, epochs):
        model, runs = small_model(3), small_runs()
        state = run(model, epochs=epochs, rate=1e6, runs=runs, objective=ELBO(), batch_size=1000)
        assert "learning rate that is too large" in state.reason
        loss = ELBO()(model, runs.batch(torch.arange(40)), torch.Generator().manual_seed(0))
        assert math.isfinite(loss.value.item())

    def test_the_best_state_wins_over_the_last_good_one(self):
        scores = iter([1.0, 2.0, 2.0, 2.0])
        seen = {}

        def callback(state):
            seen[state.epoch] = copy_state(state.model)
            if state.epoch == 3:
                with torch.no_grad():
                    state.model.layers[0].bias.fill_(math.nan)

        model = small_model()
        run(model, callbacks=[callback], validation=small_runs(2, 1), score=lambda *_: next(scores))
        assert all(torch.equal(v, seen[1][k]) for k, v in copy_state(model).items())


def test_held_out_score_is_the_mean_over_runs_and_does_not_depend_on_chunks(monkeypatch):
    model, runs = small_model(latent_inputs=1), small_runs(12, 3)
    whole = negative_log_density(model, runs)
    law = model.components(runs.x, model.shared_noise(32, runs.x, 0))
    group = torch.repeat_interleave(torch.arange(12), runs.counts)
    joint = law.take(group).log_prob(runs.y).sum(-1)
    assert whole == pytest.approx(-(torch.logsumexp(joint, 0) - math.log(32)).mean().item(), rel=1e-6)
    monkeypatch.setattr("dtmgp.inference.validation.ENTRIES", 1)
    assert negative_log_density(model, runs) == pytest.approx(whole, rel=1e-6)


def test_learning_rate_rises_and_falls():
    settings = Settings(learning_rate=0.1, warm_up=0.25)
    assert settings.rate(0.0) == pytest.approx(0.1 / 20)
    assert settings.rate(0.25) == pytest.approx(0.1)
    assert settings.rate(1.0) == pytest.approx(0.1 / 1000)
    values = [settings.rate(k / 100) for k in range(101)]
    assert values[:26] == sorted(values[:26])
    assert values[25:] == sorted(values[25:], reverse=True)
    assert Settings(learning_rate=0.1, warm_up=0.0).rate(0.0) == pytest.approx(0.1)


def test_kl_term_is_warmed_up():
    scales = []

    class Watching(ELBO):
        def __call__(self, model, batch, generator=None, kl_scale=1.0):
            scales.append(kl_scale)
            return super().__call__(model, batch, generator, kl_scale)

    train(
        small_model(),
        small_runs(),
        Watching(),
        Settings(epochs=4, batch_size=20, kl_warm_up=0.5),
        generator=torch.Generator().manual_seed(0),
    )
    assert scales[:8] == [0.0, 0.25, 0.5, 0.75, 1.0, 1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    "settings",
    [
        Settings(epochs=0),
        Settings(batch_size=0),
        Settings(learning_rate=0.0),
        Settings(learning_rate=math.nan),
        Settings(scores=0),
        Settings(clip=0.0),
    ],
)
def test_impossible_settings_are_refused(settings):
    with pytest.raises(InputError, match="training settings"):
        train(small_model(), small_runs(), ELBO(), settings, generator=torch.Generator())


def test_objectives_serve_anybodys_loop():
    model, runs = small_model(), small_runs()
    batch = Batch.of(runs.x, runs.y[::3])
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    values = []
    for _ in range(20):
        optimiser.zero_grad()
        loss = ELBO()(model, batch).value
        loss.backward()
        optimiser.step()
        values.append(loss.item())
    assert values[-1] < values[0]
