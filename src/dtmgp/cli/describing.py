"""`dtmgp info MODEL`: what is in a model file."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from dtmgp.cli.console import say


def describe_model(path: str) -> dict[str, Any]:
    """Kind, inputs with their ranges, outputs, what was chosen in the fit, and the file's digest."""
    from dtmgp.estimators.loading import load_model

    model = load_model(path)
    cube = model.cube_
    middle = 0.5 * (np.asarray(cube.low) + np.asarray(cube.high))[None]
    content = Path(path).read_bytes()
    facts: dict[str, Any] = {
        "model": type(model).__name__,
        "inputs": {
            str(name): [float(low), float(high)] for name, low, high in zip(cube.names, cube.low, cube.high)
        },
        "outside": "refused" if cube.strict else "extrapolated",
        "outputs": _outputs(model, middle),
        "fit": _found(model),
        "settings": changed_parameters(model),
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    return facts


def _outputs(model: Any, middle: np.ndarray) -> int:
    from dtmgp.analysis.base import rows_for

    mean = np.asarray(model.predict(rows_for(model, middle)))
    return 1 if mean.ndim == 1 else int(mean.shape[1])


def changed_parameters(model: Any) -> dict[str, str]:
    """Parameters that differ from their defaults, as texts."""
    defaults = type(model)().get_params(deep=False)
    return {
        name: " ".join(repr(value).split())
        for name, value in model.get_params(deep=False).items()
        if repr(value) != repr(defaults[name])
    }


def _found(model: Any) -> list[str]:
    """What the fit chose and reached, in a few lines."""
    if hasattr(model, "summary"):
        return str(model.summary()).splitlines()
    size = model.expansion_.size
    return [
        f"one layer of {size:,} features; {model.path_}",
        f"log evidence {model.log_evidence_:.2f}; noise std {np.sqrt(np.asarray(model.noise_)).round(6).tolist()}",
    ]


def say_model(path: str, facts: dict[str, Any]) -> None:
    """For people."""
    say(f"{path}: {facts['model']}, {facts['bytes']:,} bytes")
    outputs = facts["outputs"]
    say(f"{len(facts['inputs'])} inputs, {outputs} output{'s' if outputs > 1 else ''}")
    width = max(len(name) for name in facts["inputs"])
    for name, (low, high) in facts["inputs"].items():
        say(f"  {name:{width}}  {low:.6g} to {high:.6g}")
    say(f"outside these ranges: {facts['outside']}")
    for line in facts["fit"]:
        say(line)
    for name, value in facts["settings"].items():
        say(f"  {name} = {value}")
    say(f"sha256 {facts['sha256']}")
