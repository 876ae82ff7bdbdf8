"""Oracle: the definition ``p(min) q(max)`` on a domain that lies beside the unit interval."""

from __future__ import annotations

import pytest

from dtmgp.errors import InputError
from dtmgp.kernels import Markov


def test_a_domain_beside_the_unit_interval_is_checked_there():
    kernel = Markov(p=lambda x: x, q=lambda x: 3 - x, domain=(1.0, 2.0))
    assert kernel([1.2], [1.5])[0, 0] == pytest.approx(1.2 * 1.5)
    with pytest.raises(InputError, match="Markov domain"):
        Markov(p=lambda x: x, q=lambda x: 3 - x, domain=(2.0, 1.0))
