"""Any continuous law: a mixture of normals around a location, on the scale of the noise, whose shape may follow x."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from dtmgp.errors import InputError
from dtmgp.layers.gaussian import Gaussian
from dtmgp.likelihoods.base import AbstractLikelihood
from dtmgp.likelihoods.gaussian import _check_noise
from dtmgp.likelihoods.mixture_components import NormalMixtureComponents
from dtmgp.likelihoods.warps import AbstractWarp


class MixtureOfNormals(AbstractLikelihood):
    """``z = f + s e``, ``s = noise exp(f_2)``, ``e ~ sum_c w_c N(m_c, v_c^2)`` with ``w, m, v`` moved by processes.

    Per output the processes are: location, log-scale, and C each of logits, centres and log-widths; all locations come
    first, then all log-scales, and so on. The location is integrated in closed form, the others enter by one draw per
    hidden draw. ``logits``, ``centres`` and ``log_widths`` hold the shape that inputs without information share: where
    the processes are 0 the law is a location-scale family. ``set_shape`` starts it from residuals.

    >>> law = MixtureOfNormals(components=2)
    >>> law.width, law.noise_width
    (8, 7)
    """

    def __init__(
        self,
        outputs: int = 1,
        components: int = 4,
        *,
        noise: float = 0.3,
        warp: AbstractWarp | None = None,
        floor: float = 1e-4,
    ) -> None:
        if isinstance(components, bool) or not isinstance(components, int) or components < 1:
            raise InputError("MixtureOfNormals components", got=repr(components), expected="an int >= 1")
        super().__init__(outputs, outputs * (2 + 3 * components), outputs * (1 + 3 * components), warp)
        self.components, self.floor = components, float(floor)
        self.log_noise = nn.Parameter(torch.full((outputs,), _check_noise(noise)))
        spread = torch.linspace(-1.0, 1.0, components) if components > 1 else torch.zeros(1)
        self.logits = nn.Parameter(torch.zeros(outputs, components))
        self.centres = nn.Parameter(spread.repeat(outputs, 1))
        self.log_widths = nn.Parameter(torch.full((outputs, components), -0.3 if components > 1 else 0.0))

    def set_shape(self, output: int, weights: Tensor, centres: Tensor, widths: Tensor) -> None:
        """The shared shape of one output, for residuals in units of the noise."""
        with torch.no_grad():
            self.logits[output] = weights.clamp(min=1e-4).log().to(self.logits)
            self.centres[output] = centres.to(self.centres)
            self.log_widths[output] = widths.clamp(min=1e-4).log().to(self.log_widths)

    def _law(self, location: Gaussian, rest: Tensor) -> NormalMixtureComponents:
        """The mixture from the location and draws (.., W (1 + 3C)) of the other processes."""
        outputs, count = self.outputs, self.components
        scale = (rest[..., :outputs] + self.log_noise).clamp(max=20.0).exp().unsqueeze(-1)
        shape = (*rest.shape[:-1], outputs, count)
        logits, centres, widths = (
            part.reshape(shape) for part in rest[..., outputs:].split(outputs * count, dim=-1)
        )
        spread = scale * (self.log_widths + widths).clamp(max=20.0).exp()
        return NormalMixtureComponents(
            torch.log_softmax(self.logits + logits, dim=-1),
            location.mean.unsqueeze(-1) + scale * (self.centres + centres),
            (location.variance.unsqueeze(-1) + spread.square() + self.floor**2).sqrt(),
        )

    def forward(self, f: Gaussian, noise: Tensor) -> NormalMixtureComponents:
        """The law at a draw of the processes that are not integrated."""
        return self._law(f.pick(slice(0, self.outputs)), f.pick(slice(self.outputs, None)).draw(noise))

    def expected_log_prob(self, f: Gaussian, z: Tensor) -> Tensor:
        """By quadrature in the location, at the means of the other processes: the ELBO's is not in closed form."""
        location, rest = f.pick(slice(0, self.outputs)), f.mean[..., self.outputs :]
        values, weights = self.hermite_nodes(location)
        fixed = [
            self._law(Gaussian(value, torch.zeros_like(value)), rest).log_prob(z)
            for value in values.unbind(0)
        ]
        return (weights * torch.stack(fixed)).sum(0)

    def prior_scales(self, shape: float = 0.3) -> Tensor:
        """(width,) prior stds of the last layer's weights: 1 for locations, less for what shapes the law."""
        one = torch.ones(self.outputs)
        return torch.cat([one, 0.5 * one, *[shape * one] * (3 * self.components)])

    def extra_repr(self) -> str:
        """Number of components."""
        return f"components={self.components}, entropy of the shape {self._entropy():.2f}"

    def _entropy(self) -> float:
        weights = torch.softmax(self.logits.detach(), dim=-1)
        return float(-(weights * weights.clamp(min=math.exp(-30)).log()).sum(-1).mean())
