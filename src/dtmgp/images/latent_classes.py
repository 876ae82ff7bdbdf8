"""A DTMGP of images whose latent input is a class: each class is a curve of codes, all share the decoder.

    f_1k(x) in R^W, k = 1..K       K W processes on a one-dimensional grid, one vector of codes per class
    y = f_3(f_2(f_1k(x))) + noise   two layers on grids of level 2, shared; k ~ pi(x), a softmax of K processes

The classes are enumerated, so that inference of the latent is exact: no encoder is needed. All classes of an angle are
evaluated at once and scored against all images of that angle.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from dtmgp.expansion import HierarchicalExpansion
from dtmgp.grids import SparseGrid
from dtmgp.images.paper import level_two
from dtmgp.inference.data import Batch
from dtmgp.kernels import Laplace
from dtmgp.layers import AffineMap, ExpansionLayer
from dtmgp.layers.gaussian import standard_normal
from dtmgp.likelihoods.gaussian import LOG_2PI

SHARP = 10.0  # logits per unit of the process: a class is to vanish where it is not needed
COARSE = 7  # features of the first layer whose weights start at random: those of levels 1 to 3


class LatentClassDTMGP(nn.Module):
    """``classes`` curves of ``codes`` numbers on a grid of ``level``, a hidden layer of ``width``, ``pixels`` outputs.

    Weights of the first two layers are Gaussian, those of the last are point estimates under their prior: its variance
    would be noise that is independent from pixel to pixel.

    >>> model = LatentClassDTMGP(classes=3, codes=4, width=5, pixels=6, level=3)
    >>> model(torch.rand(2, 1)).shape
    torch.Size([3, 2, 6])
    """

    def __init__(
        self,
        classes: int = 64,
        codes: int = 64,
        width: int = 512,
        pixels: int = 64 * 64,
        level: int = 6,
        *,
        noise: float = 0.2,
        initial_std: float = 0.05,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.classes, self.codes = classes, codes
        self.curves = ExpansionLayer(
            HierarchicalExpansion(Laplace(1.0), SparseGrid(1, level)),
            classes * codes,
            initial_std=initial_std,
            learn_kernel=False,
        )
        with torch.no_grad():
            start = torch.randn(
                min(COARSE, len(self.curves.weights.mean)), classes * codes, generator=generator
            )
            self.curves.weights.mean[: len(start)] = start
        self.hidden = level_two(codes, width, mapping=AffineMap(codes), scale=1.0, generator=generator)
        with torch.no_grad():
            self.hidden.weights.log_std.fill_(math.log(initial_std))
        self.last = level_two(width, pixels, mapping=AffineMap(width), scale=0.0, generator=generator)
        self.last.weights.log_std.requires_grad_(False)
        self.chances = ExpansionLayer(
            HierarchicalExpansion(Laplace(1.0), SparseGrid(1, level)), classes, learn_kernel=False
        )
        self.chances.weights.log_std.requires_grad_(False)
        self.log_noise = nn.Parameter(torch.tensor(math.log(noise)))

    def log_chances(self, x: Tensor) -> Tensor:
        """Logarithms (n, K) of the classes' probabilities at inputs (n, 1)."""
        f = self.chances.features(x, self.chances.weights.mean)[0]
        return torch.log_softmax(SHARP * (f + self.chances.bias), -1)

    def forward(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Images of all classes (K, n, pixels) at inputs (n, 1) in [0, 1]; noise of hidden weights if a generator."""
        law = self.curves(x)
        h = law.mean if generator is None else law.draw(standard_normal(law.mean.shape, x, generator))
        return self._decode(h.unflatten(-1, (self.classes, self.codes)).transpose(0, 1), generator)

    def picture(self, x: Tensor, which: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Images (n, pixels) of given classes (n,)."""
        law = self.curves(x)
        h = law.mean if generator is None else law.draw(standard_normal(law.mean.shape, x, generator))
        codes = h.unflatten(-1, (self.classes, self.codes))
        return self._decode(codes[torch.arange(len(x), device=x.device), which], generator)

    def sample(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """One image (n, pixels) per input, each of its own class; pixel noise, the residual of the fit, left out."""
        which = torch.multinomial(self.log_chances(x).exp(), 1, generator=generator)[:, 0]
        return self.picture(x, which, generator)

    def _decode(self, codes: Tensor, generator: torch.Generator | None) -> Tensor:
        law = self.hidden(codes)
        h = law.mean if generator is None else law.draw(standard_normal(law.mean.shape, codes, generator))
        return self.last.phi(h) @ self.last.weights.mean + self.last.bias

    def energies(self, batch: Batch, generator: torch.Generator | None) -> Tensor:
        """``-log N(y | f_k(x), s^2 I)`` (runs, K): squares by one product per input, not by differences."""
        images = self(batch.x, generator).transpose(0, 1)  # (inputs, K, pixels)
        counts = torch.bincount(batch.group, minlength=len(batch.x))
        place = torch.arange(len(batch.group), device=batch.group.device)
        place = place - (counts.cumsum(0) - counts)[batch.group]
        padded = batch.y.new_zeros(len(batch.x), int(counts.max()), batch.y.shape[1])
        padded[batch.group, place] = batch.y
        products = (padded @ images.transpose(1, 2))[batch.group, place]
        square = batch.y.square().sum(1, keepdim=True) + images.square().sum(2)[batch.group] - 2 * products
        constant = batch.y.shape[1] * (0.5 * LOG_2PI + self.log_noise)
        return 0.5 * square * (-2 * self.log_noise).exp() + constant

    def kl(self) -> Tensor:
        """KL divergence of hidden weights; minus the log prior of the last layer's, up to a constant."""
        points = self.last.weights.mean.square().sum() + self.chances.weights.mean.square().sum()
        return self.curves.kl() + self.hidden.kl() + 0.5 * points
