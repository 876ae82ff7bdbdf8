"""Oracles: the library's own layers and objectives, sums over classes written out, and runs that never stopped."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from dtmgp.errors import InputError
from dtmgp.expansion import HierarchicalExpansion
from dtmgp.grids import SparseGrid
from dtmgp.images.latent_classes import LatentClassDTMGP
from dtmgp.images.layers import WideLayer
from dtmgp.images.losses import ClassMixture, CollapsedELBO
from dtmgp.images.paper import PAPER
from dtmgp.images.stream import ArraySource, ImageBatch, RandomImages, WholeAngles, stream_train
from dtmgp.inference.data import Batch
from dtmgp.inference.objectives import ELBO
from dtmgp.inference.trainer import Settings
from dtmgp.kernels import Laplace, Matern32
from dtmgp.layers import AffineMap, ExpansionLayer


@pytest.fixture(autouse=True)
def _double():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def shaken(model: torch.nn.Module, seed: int = 0) -> torch.nn.Module:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return model


@pytest.mark.parametrize(
    ("kernel", "level"), [(Laplace(5.0), 2), (Matern32(2.0), 2), (Matern32(2.0, 3.0), 3)]
)
def test_wide_layers_are_expansion_layers(kernel, level):
    """Values and gradients of the tree's own way."""
    dim = 1 if level == 3 else 6
    expansion = HierarchicalExpansion(kernel, SparseGrid(dim, level))
    wide = shaken(WideLayer(expansion, 4, mapping=AffineMap(dim)))
    plain = ExpansionLayer(expansion, 4, mapping=AffineMap(dim))
    plain.load_state_dict({k: v for k, v in wide.state_dict().items() if not k.startswith("single.")})
    h = torch.randn(3, 9, dim, generator=torch.Generator().manual_seed(1))
    h = torch.cat([h, torch.zeros(3, 1, dim)], dim=1).requires_grad_()  # also on a grid point
    one, two = wide(h), plain(h)
    torch.testing.assert_close(one.mean, two.mean, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(one.variance, two.variance, rtol=1e-12, atol=1e-13)
    slopes = [
        torch.autograd.grad(law.mean[:, :9].square().sum() + law.variance[:, :9].sum(), h)[0]
        for law in (one, two)
    ]
    torch.testing.assert_close(slopes[0], slopes[1], rtol=1e-9, atol=1e-12)


def test_wide_layers_refuse_products_of_raised_coordinates():
    with pytest.raises(InputError, match="one coordinate at a time"):
        WideLayer(HierarchicalExpansion(Laplace(), SparseGrid(2, 3)), 1)


@pytest.mark.parametrize("name", PAPER)
def test_the_paper_s_sizes(name):
    model = PAPER[name](pixels=3)
    assert model.noise_widths[1][-1] == (1025 if name == "BNN-ReLU" else 512)
    assert model(torch.rand(2, 1), samples=3).mean.shape == (3, 2, 3)


@pytest.mark.parametrize("name", PAPER)
def test_the_collapsed_bound_is_the_bound(name):
    model = shaken(PAPER[name](pixels=5, generator=torch.Generator().manual_seed(0)))
    generator = torch.Generator().manual_seed(3)
    x, y = torch.rand(4, 1, generator=generator), torch.rand(7, 5, generator=generator)
    batch = Batch(x, y, torch.tensor([0, 0, 1, 2, 2, 2, 3]), 70)
    results = []
    for objective in (CollapsedELBO(samples=2), ELBO(samples=2)):
        loss = objective(model, batch, torch.Generator().manual_seed(5))
        gradients = torch.autograd.grad(loss.value, [p for p in model.parameters() if p.requires_grad])
        results.append((loss.value.detach(), gradients))
    torch.testing.assert_close(results[0][0], results[1][0], rtol=1e-12, atol=0)
    for one, two in zip(results[0][1], results[1][1], strict=True):
        torch.testing.assert_close(one, two, rtol=1e-8, atol=1e-10)


def small(classes: int = 3) -> LatentClassDTMGP:
    return shaken(LatentClassDTMGP(classes, 4, 5, 6, 3, generator=torch.Generator().manual_seed(0)))


def test_energies_are_the_log_densities_of_every_class():
    model = small()
    generator = torch.Generator().manual_seed(1)
    x, y = torch.rand(3, 1, generator=generator), torch.rand(4, 6, generator=generator)
    group = torch.tensor([0, 1, 1, 2])
    found = model.energies(Batch(x, y, group, 4), None).detach()
    for run in range(4):
        for k in range(3):
            mean = model.picture(x[group[run] : group[run] + 1], torch.tensor([k]))[0]
            law = torch.distributions.Normal(mean.detach(), model.log_noise.exp().detach())
            assert float(found[run, k]) == pytest.approx(-float(law.log_prob(y[run]).sum()), rel=1e-10)


def certain(model: LatentClassDTMGP) -> LatentClassDTMGP:
    """Without noise of hidden weights."""
    with torch.no_grad():
        model.curves.weights.log_std.fill_(-30.0)
        model.hidden.weights.log_std.fill_(-30.0)
    return model


def test_the_mixture_is_exact_at_temperature_one():
    model, objective = certain(small()), ClassMixture()
    batch = Batch.of(torch.rand(5, 1), torch.rand(5, 6))
    energy, weight = model.energies(batch, None).detach(), model.log_chances(batch.x).exp().detach()
    by_hand = -(weight * (-energy).exp()).sum(1).log().mean()
    found = objective(model, batch, torch.Generator().manual_seed(0), 1.0)
    assert float(found.data) == pytest.approx(float(by_hand), rel=1e-4)  # noise of 1e-6 is left
    assert float(found.value.detach() - found.data) == pytest.approx(float(model.kl().detach() / 5), rel=1e-9)
    chairs = torch.tensor([0, 1, 2, 0, 1])
    given = objective(model, batch, torch.Generator().manual_seed(0), 1.0, chairs)
    picked = (energy - weight.log())[torch.arange(5), chairs].mean()
    assert float(given.data) == pytest.approx(float(picked), rel=1e-4)


def test_shares_are_balanced_and_prefer_small_energies():
    energy = torch.rand(40, 4, generator=torch.Generator().manual_seed(0))
    energy[:, 0] -= 5.0  # everybody's favourite
    shares = ClassMixture(rounds=200).shares(energy, 1.0)
    torch.testing.assert_close(shares.sum(1), torch.ones(40), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(shares.sum(0), torch.full((4,), 10.0), rtol=1e-6, atol=1e-6)
    # Sinkhorn's form: logarithms minus energies are a row plus a column
    rest = shares.log() + energy
    rest = rest - rest[:1] - (rest - rest[:1])[:, :1]
    assert float(rest.abs().max()) < 1e-9


def test_temperature_falls_to_one():
    objective = ClassMixture(start=100.0, cooling=0.5)
    heats = [objective.temperature(p) for p in (0.0, 0.25, 0.5, 1.0)]
    assert heats == pytest.approx([100.0, 10.0, 1.0, 1.0])


def blobs(images: int = 120) -> ArraySource:
    """Two 'chairs' in six pixels: a bump that moves right with the angle, and one that moves left."""
    rng = np.random.default_rng(0)
    yaw = np.repeat(np.linspace(0, 89, images // 4), 4)
    types = rng.integers(2, size=images)
    place = np.where(types == 0, yaw / 90, 1 - yaw / 90)[:, None] * 5
    return ArraySource(np.exp(-((np.arange(6) - place) ** 2)), yaw, types)


def class_loss(model, part, generator, progress):
    return ClassMixture(start=5.0, kl_weight=0.01)(model, part.batch, generator, progress)


def test_two_moving_bumps_are_told_apart_without_labels():
    source = blobs()
    model = LatentClassDTMGP(2, 6, 16, 6, 4, generator=torch.Generator().manual_seed(0))
    settings = Settings(epochs=60, learning_rate=0.03, warm_up=0.1)
    stream_train(
        model, source, class_loss, WholeAngles(6), settings, generator=torch.Generator().manual_seed(0)
    )
    x = torch.tensor([[0.1], [0.9]])
    images = model(x).detach()  # (class, angle, pixel)
    peaks = images.argmax(-1)
    assert sorted(peaks[:, 0].tolist()) == sorted(peaks[:, 1].tolist())
    truth = np.exp(-((np.arange(6) - np.array([[0.5], [4.5]])) ** 2))
    for angle in range(2):
        apart = torch.cdist(images[:, angle], torch.from_numpy(truth))
        assert float(apart.min(0).values.max()) < 0.5  # measured: 0.29; one blurred bump is 0.98 away
        assert float(apart.min(1).values.max()) < 0.5


@pytest.mark.parametrize("batching", [RandomImages(32), WholeAngles(7)])
def test_a_pass_shows_every_image_once(batching):
    source = blobs()
    parts = list(batching.batches(source, torch.Generator().manual_seed(0), torch.device("cpu")))
    assert len(parts) == batching.steps(source)
    seen = torch.cat([p.batch.y for p in parts])
    assert len(seen) == 120
    order = np.lexsort(seen.numpy().T)
    own = source.store[np.lexsort(source.store.numpy().T)]
    torch.testing.assert_close(seen[order], own)
    for part in parts:
        where = part.batch.x[part.batch.group][:, 0] * 90
        place = torch.where(part.types == 0, where / 90, 1 - where / 90)[:, None] * 5
        bumps = torch.exp(-((torch.arange(6.0) - place) ** 2))
        torch.testing.assert_close(part.batch.y, bumps, rtol=1e-6, atol=1e-6)  # labels belong to their images


def test_a_resumed_run_ends_in_the_same_bits(tmp_path):
    source, settings = blobs(), Settings(epochs=4, learning_rate=0.01)

    def run(stop_after: int | None, path) -> dict[str, torch.Tensor]:
        torch.manual_seed(0)
        model = LatentClassDTMGP(2, 3, 4, 6, 3, generator=torch.Generator().manual_seed(0))
        stop = [lambda state: state.epoch == stop_after]
        given = {"generator": torch.Generator().manual_seed(7), "checkpoint": path, "callbacks": stop}
        done = stream_train(model, source, class_loss, WholeAngles(6), settings, **given)
        assert done.epoch == (stop_after or 4)
        return {k: v.clone() for k, v in model.state_dict().items()}

    whole = run(None, tmp_path / "a")
    half = run(2, tmp_path / "b")
    resumed = run(None, tmp_path / "b")
    assert any(not torch.equal(half[k], whole[k]) for k in whole)
    for name in whole:
        assert torch.equal(resumed[name], whole[name]), name
    model = LatentClassDTMGP(2, 3, 4, 6, 3)
    with pytest.raises(InputError, match="another run"):
        stream_train(
            model,
            source,
            class_loss,
            WholeAngles(5),
            settings,
            generator=torch.Generator(),
            checkpoint=tmp_path / "b",
        )


def test_losses_that_are_not_finite_stop_with_a_message():
    def broken(model, part, generator, progress):
        loss = class_loss(model, part, generator, progress)
        return loss._replace(value=loss.value * math.nan)

    model = LatentClassDTMGP(2, 3, 4, 6, 3)
    with pytest.raises(InputError, match="learning rate"):
        stream_train(
            model, blobs(), broken, RandomImages(50), Settings(epochs=1), generator=torch.Generator()
        )


def test_samples_follow_the_classes_weights():
    model = certain(small(2))
    with torch.no_grad():
        model.chances.weights.mean.zero_()
        model.chances.bias.copy_(torch.tensor([math.log(0.8), math.log(0.2)]) / 10)
    x = torch.full((2000, 1), 0.3)
    draws = model.sample(x, torch.Generator().manual_seed(0)).detach()
    pictures = model(x[:1])[:, 0].detach()
    share = float((torch.cdist(draws, pictures).argmin(1) == 0).double().mean())
    assert abs(share - 0.8) < 0.036  # four standard errors: wrong in 6e-5 of seeds; this one is fixed


def test_image_batches_keep_their_types():
    part = ImageBatch(Batch.of(torch.zeros(1, 1), torch.zeros(1, 4)), torch.tensor([3]))
    assert int(part.types) == 3
