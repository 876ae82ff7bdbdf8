"""Test-wide set-up: shapes and types are checked at run time, and random tests repeat exactly.

The checks exist here only; users pay nothing for them.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings

import runtime_checks

runtime_checks.install()

settings.register_profile(
    "fixed",
    derandomize=True,  # the same cases in every run
    deadline=None,  # the first call of a jitted function compiles
    suppress_health_check=[HealthCheck.too_slow],  # for the same reason
    print_blob=True,
)
settings.load_profile("fixed")


@pytest.fixture(autouse=True)
def same_draws_in_every_run():
    """Global generators start alike in each test, whatever ran before it, so that no test passes by luck."""
    np.random.seed(0)  # noqa: NPY002  # what libraries draw from
    torch.manual_seed(0)
