"""Models of other libraries behind ``fit``, ``predict``, ``sample_y``; they run in ``.venv-peers`` (make bench-peers).

Board names: ``peers:DeepGP``, ``peers:SVGP(log_outputs=True, seconds=60)``, ... A class is imported when first used.
"""

from importlib import import_module
from typing import Any

# name -> module that defines it
PEERS = {
    "SVGP": "peers.gpytorch_models",
    "DeepGP": "peers.gpytorch_models",
    "DSPP": "peers.gpytorch_models",
    "StochasticImputationDGP": "peers.dgpsi_models",
    "HetGP": "peers.hetgpy_model",
    "QuantileForest": "peers.forest",
    "NaturalGradientBoosting": "peers.ngboost_model",
    "MixtureNetwork": "peers.mixture_network",
}


def __getattr__(name: str) -> Any:
    if name not in PEERS:
        raise AttributeError(f"module 'peers' has no attribute {name!r}; it has {', '.join(PEERS)}")
    return getattr(import_module(PEERS[name]), name)
