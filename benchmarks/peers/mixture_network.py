"""A mixture density network (Bishop 1994), the plain way to learn a law: two hidden layers, five Gaussians."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from peers.base import AbstractPeer, Mixture, batches


class MixtureNetwork(AbstractPeer):
    """Log densities maximised by Adam in minibatches; a tenth of the distinct inputs decides when to stop."""

    def __init__(
        self,
        *,
        width: int = 64,
        components: int = 5,
        batch_size: int = 500,
        learning_rate: float = 3e-3,
        weight_decay: float = 1e-4,
        max_epochs: int = 2000,
        patience: int = 30,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.width = width
        self.components = components
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.max_epochs = max_epochs
        self.patience = patience

    def train(self, X: np.ndarray, y: np.ndarray) -> Iterator[None]:
        inputs, outputs = self.scale(X, y)
        generator = np.random.default_rng(self.random_state)
        torch.manual_seed(self.random_state)
        train, held = split(inputs, generator)
        x, t = (torch.as_tensor(part, dtype=torch.float32) for part in (inputs, outputs))
        self.network = torch.nn.Sequential(
            torch.nn.Linear(inputs.shape[1], self.width),
            torch.nn.SiLU(),
            torch.nn.Linear(self.width, self.width),
            torch.nn.SiLU(),
            torch.nn.Linear(self.width, 3 * self.components),
        )
        optimiser = torch.optim.AdamW(
            self.network.parameters(), lr=self.learning_rate, weight_decay=self.weight_decay
        )
        best, since, kept = np.inf, 0, copy.deepcopy(self.network.state_dict())
        for _ in range(self.max_epochs):
            for chosen in batches(len(train), self.batch_size, generator):
                rows = train[chosen]
                optimiser.zero_grad()
                loss = -log_density(self.network(x[rows]), t[rows]).mean()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(self.network.parameters(), 5.0)
                optimiser.step()
            with torch.no_grad():
                score = -float(log_density(self.network(x[held]), t[held]).mean())
            if score < best:
                best, since, kept = score, 0, copy.deepcopy(self.network.state_dict())
            else:
                since += 1
            # What is seen between two epochs is the best so far, as a user with a deadline would take it.
            latest = copy.deepcopy(self.network.state_dict())
            self.network.load_state_dict(kept)
            yield
            if since >= self.patience:
                return
            self.network.load_state_dict(latest)

    def mixture(self, X: np.ndarray) -> Mixture:
        with torch.no_grad():
            output = self.network(torch.as_tensor(self.scaling.inputs(X), dtype=torch.float32)).double()
        logits, means, raw = output.chunk(3, dim=1)
        return Mixture(logits.softmax(1).numpy(), means.numpy(), _stds(raw).numpy())


def _stds(raw: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.softplus(raw) + 1e-3


def log_density(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Log density of targets (n,) under the network's output (n, 3 K): logits, means, raw scales."""
    logits, means, raw = output.chunk(3, dim=1)
    law = torch.distributions.Normal(means, _stds(raw))
    return torch.logsumexp(logits.log_softmax(1) + law.log_prob(target[:, None]), dim=1)


def split(
    inputs: np.ndarray, generator: np.random.Generator, share: float = 0.1
) -> tuple[np.ndarray, np.ndarray]:
    """Rows to train on and rows held out, whole inputs at a time."""
    _, place = np.unique(inputs, axis=0, return_inverse=True)
    place = place.reshape(-1)
    count = place.max() + 1
    chosen = generator.permutation(count)[: max(1, round(share * count))]
    held = np.isin(place, chosen)
    return np.flatnonzero(~held), np.flatnonzero(held)
