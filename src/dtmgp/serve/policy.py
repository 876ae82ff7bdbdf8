"""What the service admits: address, token, and the limits of size, time and number."""

from __future__ import annotations

import dataclasses
import ipaddress

from dtmgp.errors import InputError

SHORTEST_TOKEN = 16  # characters


@dataclasses.dataclass(frozen=True)
class Policy:
    """Limits of a service. Beyond them clients get 413 (bytes), 422 (rows, values), 429 (too many), 503 (too long).

    ``concurrency`` computations run at a time and ``waiting`` more wait; ``seconds`` is the time from the last byte of
    a request to its answer, and the time that an upload may take. ``values`` bounds rows times draws (or levels) of an
    answer. Bodies of NDJSON may be larger, since their answers are streamed. ``names`` are host names besides localhost
    that requests may be addressed to: those of a proxy in front.

    >>> Policy(host="0.0.0.0")
    Traceback (most recent call last):
    dtmgp.errors.InputError: address '0.0.0.0': got no token; expected a token for an address that others can reach...
    """

    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = dataclasses.field(default=None, repr=False)
    body_bytes: int = 8 << 20
    stream_bytes: int = 64 << 20
    rows: int = 10_000
    stream_rows: int = 500_000
    values: int = 2_000_000
    concurrency: int = 2
    waiting: int = 16
    seconds: float = 30.0
    connections: int = 128
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.token is not None and len(self.token) < SHORTEST_TOKEN:
            raise InputError(
                "token",
                got=f"{len(self.token)} characters",
                expected=f"at least {SHORTEST_TOKEN}, of which nobody can guess one",
                do='make one: python -c "import secrets; print(secrets.token_urlsafe())"',
            )
        if self.token is not None and not (self.token.isascii() and self.token.isprintable()):
            raise InputError(
                "token", got="other characters", expected="printable ASCII, as HTTP headers hold"
            )
        if not self.local and self.token is None:
            raise InputError(
                f"address {self.host!r}",
                got="no token",
                expected="a token for an address that others can reach",
                cause="a service for other machines, which anybody in the network could use",
                do="set the environment variable DTMGP_TOKEN or pass --token-file, or use 127.0.0.1",
            )
        if not 0 <= self.port <= 65535:
            raise InputError("port", got=repr(self.port), expected="0 (any free one) to 65535")
        for field in dataclasses.fields(self)[3:-1]:
            value = getattr(self, field.name)
            if not value > 0 and not (field.name == "waiting" and value == 0):
                raise InputError(f"limit {field.name}", got=repr(value), expected="a positive number")

    @property
    def local(self) -> bool:
        """Whether only this machine can reach the address."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False
