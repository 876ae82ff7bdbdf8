"""A fitted model as a service on this machine: predictions over HTTP, and the profiler page. A leaf package.

Lives here: what clients may send, limits, answers, the page. May not live here: mathematics; everything is asked of the
model's public methods. Clients never name files. `dtmgp.serve.running.serve` is what the command line calls.
"""

from dtmgp.serve.policy import Policy
from dtmgp.serve.served import ServedModel

__all__ = ["Policy", "ServedModel"]
