"""Checkpoints: parameters, optimiser, random state and trace in one file, replaced atomically; resumed bit by bit."""

from __future__ import annotations

import json
import math
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from dtmgp.errors import InputError
from dtmgp.files import read_model, write_model

if TYPE_CHECKING:
    from dtmgp.inference.distributed import Processes
    from dtmgp.inference.trainer import Training

KIND = "Checkpoint"
Fingerprint = str


def save_checkpoint(path: str | Path, state: Training, fingerprint: Fingerprint) -> None:
    """Write the state of a training run."""
    optimiser = state.optimiser.state_dict()["state"]
    arrays: dict[str, np.ndarray] = {"generator": state.generator.get_state().numpy().astype(np.int64)}
    for name, value in state.model.state_dict().items():
        arrays[f"model.{name}"] = value.detach().cpu().numpy()
    for name, value in state.best_state.items():
        arrays[f"best.{name}"] = value.cpu().numpy()
    for number, slots in optimiser.items():
        for name, value in slots.items():
            arrays[f"optimiser.{number}.{name}"] = torch.as_tensor(value).cpu().numpy()
    config: dict[str, Any] = {
        "fingerprint": fingerprint,
        "epoch": state.epoch,
        "best_epoch": state.best_epoch,
        "best_score": _plain(state.best_score),
        "trace": [[_plain(value) for value in line] for line in state.trace],
    }
    write_model(path, KIND, config, arrays)


def load_checkpoint(path: str | Path, state: Training, fingerprint: Fingerprint) -> bool:
    """Restore a state if there is a file; one of another run is refused. Returns whether there was one."""
    from dtmgp.inference.trainer import Epoch

    if not Path(path).exists():
        return False
    config, arrays = read_model(path, KIND)
    if config["fingerprint"] != fingerprint:
        raise InputError(
            f"checkpoint {path}",
            got="the state of another run",
            expected="the same data and settings",
            cause="the data, a parameter or the seed has changed since it was written",
            do="delete the file, or give another path",
        )
    own = state.model.state_dict()
    stored = {name.removeprefix("model."): a for name, a in arrays.items() if name.startswith("model.")}
    if {n: v.numel() for n, v in own.items()} != {n: a.size for n, a in stored.items()}:
        raise InputError(
            f"checkpoint {path}",
            got=f"{len(stored)} tensors of other names or sizes",
            expected=f"the {len(own)} tensors of this model",
            cause="the architecture has changed since it was written",
            do="delete the file, or give another path",
        )
    # files have no zero-dimensional arrays
    state.model.load_state_dict({name: torch.from_numpy(stored[name]).view(own[name].shape) for name in own})
    state.best_state = {
        name: torch.from_numpy(arrays[f"best.{name}"]).view(own[name].shape).to(own[name].device)
        for name in own
        if f"best.{name}" in arrays
    }
    parameters = [p for group in state.optimiser.param_groups for p in group["params"]]
    slots: dict[int, dict[str, torch.Tensor]] = {}
    for name, array in arrays.items():
        if name.startswith("optimiser."):
            _, number, slot = name.split(".", 2)
            shape = () if slot == "step" else parameters[int(number)].shape
            slots.setdefault(int(number), {})[slot] = torch.from_numpy(array).view(shape)
    state.optimiser.load_state_dict(
        {"state": slots, "param_groups": state.optimiser.state_dict()["param_groups"]}
    )
    state.generator.set_state(torch.from_numpy(arrays["generator"].astype(np.uint8)))
    state.epoch, state.best_epoch = config["epoch"], config["best_epoch"]
    state.best_score = _number(config["best_score"])
    state.trace = [Epoch(line[0], *[_number(value) for value in line[1:]]) for line in config["trace"]]
    return True


def load_shared(path: str | Path, state: Training, fingerprint: Fingerprint, processes: Processes) -> bool:
    """``load_checkpoint`` in all processes, from the file that the first one sees."""
    if processes.world == 1:
        return load_checkpoint(path, state, fingerprint)
    content = processes.once(lambda: Path(path).read_bytes() if Path(path).exists() else None)
    if content is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / Path(path).name
        copy.write_bytes(content)
        return processes.together(lambda: load_checkpoint(copy, state, fingerprint))


def _plain(value: float) -> float | str:
    """JSON has no words for NaN and infinity."""
    return value if isinstance(value, int) or math.isfinite(value) else str(value)


def _number(value: float | str) -> float:
    return float(value)


def fingerprint_of(*parts: object) -> Fingerprint:
    """A digest of arrays and plain values that decide what a training run computes."""
    import hashlib

    total = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            total.update(json.dumps([str(part.dtype), list(part.shape)]).encode())
            total.update(np.ascontiguousarray(part).tobytes())
        else:
            total.update(repr(part).encode())
    return total.hexdigest()
