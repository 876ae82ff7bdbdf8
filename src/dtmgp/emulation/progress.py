"""Progress with the time left: a bar on a terminal, plain lines elsewhere, nothing with ``verbose=0``."""

from __future__ import annotations

import sys
import time
from typing import Any, Protocol, Self, TextIO

SHARE = 0.1  # of the budget between two plain lines, and
SECONDS = 2.0  # at least as many seconds


class Progress(Protocol):
    """What a campaign tells as it goes on; a context manager."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...

    def step(self, done: int, total: int) -> None:
        """``done`` of ``total`` runs are finished."""
        ...

    def say(self, text: str) -> None:
        """One line: a stage, a failure, an accuracy."""
        ...


class Quiet:
    """Says nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def step(self, done: int, total: int) -> None:
        """Nothing."""

    def say(self, text: str) -> None:
        """Nothing."""


class Lines(Quiet):
    """Plain lines, not more often than every tenth of the budget.

    >>> with Lines(sys.stdout) as progress:
    ...     progress.say("round 1")
    round 1
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = sys.stderr if stream is None else stream
        self.clock = Clock()
        self._last = (0, -SECONDS)

    def step(self, done: int, total: int) -> None:
        """A line if enough has happened."""
        self.clock.step(done)
        runs, when = self._last
        if done - runs >= SHARE * total and self.clock.seconds - when >= SECONDS:
            self._last = (done, self.clock.seconds)
            self.say(f"{done}/{total} runs, {self.clock.left(done, total)}")

    def say(self, text: str) -> None:
        """A line."""
        print(text, file=self.stream, flush=True)


class Bar(Quiet):
    """rich's progress bar, with lines above it."""

    def __init__(self, console: Any) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
        from rich.progress import Progress as RichProgress

        columns = (TextColumn("runs"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[left]}"))
        self.bar = RichProgress(*columns, console=console)
        self.clock = Clock()
        self.task = self.bar.add_task("runs", total=None, left="")

    def __enter__(self) -> Self:
        self.bar.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.__exit__(None, None, None)

    def step(self, done: int, total: int) -> None:
        """Move the bar."""
        self.clock.step(done)
        self.bar.update(self.task, completed=done, total=total, left=self.clock.left(done, total))

    def say(self, text: str) -> None:
        """A line above the bar."""
        self.bar.console.print(text, markup=False, highlight=False)


class Clock:
    """Time left, from the runs that this process made and all the time they took, fits included."""

    def __init__(self) -> None:
        self.start = time.monotonic()
        self.first: int | None = None

    @property
    def seconds(self) -> float:
        """Since the clock was made."""
        return time.monotonic() - self.start

    def step(self, done: int) -> None:
        """Remember where this process began: a resumed campaign has finished runs already."""
        if self.first is None:
            self.first = done - 1

    def left(self, done: int, total: int) -> str:
        """In words.

        >>> Clock().left(0, 10)
        ''
        """
        made = done - (done if self.first is None else self.first)
        if made < 1:
            return ""
        seconds = self.seconds / made * (total - done)
        return f"about {duration(seconds)} left"


def duration(seconds: float) -> str:
    """Seconds in words.

    >>> duration(42.2), duration(140), duration(7500)
    ('42 s', '2 min', '2 h 5 min')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


def progress_for(verbose: int) -> Progress:
    """A bar if the standard error is a terminal and rich is installed, lines if not; nothing for ``verbose=0``."""
    if not verbose:
        return Quiet()
    if sys.stderr.isatty():
        try:
            from rich.console import Console

            return Bar(Console(stderr=True))
        except ModuleNotFoundError:
            pass
    return Lines()
