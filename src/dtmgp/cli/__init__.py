"""The command line: `dtmgp ...` and `python -m dtmgp ...`.

Lives here: reading arguments, printing, exit codes (0 done, 2 what the user can mend).
May not live here: any computation; commands call the packages of the library.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

NEEDED = {"typer", "rich", "click"}
# package -> extra that brings it
EXTRAS = {
    "pandas": "tables",
    "pyarrow": "tables",
    "matplotlib": "plots",
    "plotly": "report",
    "torch": "deep",
    "fastapi": "serve",
    "uvicorn": "serve",
    "starlette": "serve",
    "pydantic": "serve",
    "pydantic_core": "serve",
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; errors that a user can mend become one line and exit code 2."""
    from dtmgp.cli.launching import only_first_prints, report_refusal
    from dtmgp.errors import InputError

    only_first_prints()
    try:
        from dtmgp.cli.app import app
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in NEEDED:
            raise
        print("dtmgp: the command line needs typer and rich: pip install 'dtmgp[cli]'", file=sys.stderr)
        raise SystemExit(2) from None
    try:
        app(args=None if arguments is None else list(arguments), prog_name="dtmgp")
    except ModuleNotFoundError as error:
        extra = EXTRAS.get((error.name or "").split(".")[0])
        if extra is None:
            raise
        print(f"dtmgp: this command needs {error.name}: pip install 'dtmgp[{extra}]'", file=sys.stderr)
        raise SystemExit(2) from None
    except InputError as error:
        report_refusal(error)
        raise SystemExit(2) from None
