"""A simulator that is a shell command: inputs on its standard input, the output on its standard output."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import enum
import io
import json
import os
import signal
import subprocess
from collections.abc import Sequence
from typing import Any


class Form(enum.StrEnum):
    """How inputs are written to a command."""

    CSV = "csv"
    JSON = "json"


class RunFailed(RuntimeError):
    """A run that ended without an output; the message says why."""


class RunTimeout(RunFailed):
    """A run that took too long."""


@dataclasses.dataclass(frozen=True)
class ShellCommand:
    """One run per call of ``command``, by the shell.

    CSV: a header with the names of the inputs and ``seed``, and one line of values. JSON: one object with the same
    keys. The seed is also in the environment, as DTMGP_SEED. The answer is the last line of the standard output that
    is not empty: a number; or JSON, a number or an object; or CSV, a header and a line. ``output`` names the column
    or key if there are several. A non-zero exit status is a failed run; at a time-out the command and its children
    are killed.

    >>> ShellCommand("cat > /dev/null; echo 2.5")([0.0], seed=1)
    2.5
    """

    command: str
    form: Form = Form.CSV
    output: str | None = None
    names: tuple[str, ...] = dataclasses.field(default=(), repr=False)

    def __call__(self, x: Sequence[float], seed: int, timeout: float | None = None) -> float:
        """One run."""
        names = self.names or tuple(f"x{j}" for j in range(len(x)))
        process = subprocess.Popen(
            self.command,
            shell=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "DTMGP_SEED": str(seed)},
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=os.name == "posix",
        )
        try:
            out, err = process.communicate(written(names, x, seed, self.form), timeout)
        except subprocess.TimeoutExpired:
            _kill(process)
            raise RunTimeout(f"timeout after {timeout:g} s") from None
        except BaseException:
            _kill(process)
            raise
        if process.returncode:
            last = err.strip().splitlines()[-1:] or ["no message on its standard error"]
            raise RunFailed(f"exit status {process.returncode}: {last[0][:300]}")
        return parsed(out, self.output)


def written(names: Sequence[str], x: Sequence[float], seed: int, form: Form) -> str:
    """The inputs of a run as text; numbers are written so that they read back to the same bits.

    >>> print(written(["a", "b"], [0.1, 2.0], 7, Form.CSV), end="")
    a,b,seed
    0.1,2.0,7
    """
    values: list[Any] = [*(float(value) for value in x), int(seed)]
    if form is Form.JSON:
        return json.dumps(dict(zip([*names, "seed"], values))) + "\n"
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([[*names, "seed"], values])
    return text.getvalue()


def parsed(text: str, output: str | None = None) -> float:
    """The output of a run from the standard output of its command.

    >>> (
    ...     parsed("log line\\n3.5\\n"),
    ...     parsed('{"cost": 2, "time": 1}', "cost"),
    ...     parsed("time,cost\\n1,2\\n", "cost"),
    ... )
    (3.5, 2.0, 2.0)
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise RunFailed("no output")
    with contextlib.suppress(ValueError):
        if output is None:
            return float(lines[-1])
    with contextlib.suppress(ValueError):
        return _from_json(json.loads(lines[-1]), output)
    if len(lines) >= 2:
        names, values = next(csv.reader([lines[-2]])), next(csv.reader([lines[-1]]))
        if len(names) == len(values):
            with contextlib.suppress(ValueError):
                return _from_json(dict(zip((name.strip() for name in names), map(float, values))), output)
    raise RunFailed(f"output {lines[-1][:80]!r}, where a number, JSON or CSV was expected")


def _from_json(value: Any, output: str | None) -> float:
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, dict):
        if output is not None and output not in value:
            raise RunFailed(f"no output {output!r} among {', '.join(map(str, value))}")
        if output is None and len(value) != 1:
            raise RunFailed(f"{len(value)} outputs ({', '.join(map(str, value))}); name one: output=...")
        value = next(iter(value.values())) if output is None else value[output]
    elif output is not None and isinstance(value, int | float):
        raise RunFailed(f"a bare number, where {output!r} was to be read from JSON or CSV")
    if value is None:
        raise RunFailed("an empty output (null)")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RunFailed(f"output {str(value)[:80]!r}, where a number was expected")
    return float(value)


def _kill(process: subprocess.Popen[str]) -> None:
    """The command and, on POSIX, all its children: they share a session."""
    with contextlib.suppress(OSError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    with contextlib.suppress(subprocess.SubprocessError, ValueError):
        process.communicate(timeout=5)
