"""Pieces of HTML: escaped text, tables, places of figures; and the page made of them."""

from __future__ import annotations

import base64
import gzip
import html
import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib import resources
from string import Template
from typing import Any

from dtmgp import __version__
from dtmgp.errors import InputError


def escape(value: object) -> str:
    """Text of a user as HTML text."""
    return html.escape(str(value))


def table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, caption: str = "", kind: str = "", own: int = -1
) -> str:
    """A table of escaped cells that scrolls sideways in a narrow window; row ``own`` is set in bold."""
    cells = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    lines = []
    for number, row in enumerate(rows):
        mark = ' class="own"' if number == own else ""
        lines.append(f"<tr{mark}>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>")
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    kind = f' class="{kind}"' if kind else ""
    top = f"<thead><tr>{cells}</tr></thead>" if head else ""
    return f'<div class="scroll"><table{kind}>{title}{top}<tbody>{"".join(lines)}</tbody></table></div>'


def figure(name: str, caption: str = "") -> str:
    """The place of a figure."""
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    spoken = f' role="img" aria-label="{escape(caption)}"' if caption else ""
    return f'<figure><div class="plot" id="{escape(name)}"{spoken}></div>{below}</figure>'


def tile(value: str, text: str) -> str:
    """A number with what it is."""
    return f'<div class="tile"><b>{escape(value)}</b><span class="small">{escape(text)}</span></div>'


def section(name: str, title: str, *parts: str) -> str:
    """A section with an anchor."""
    return f'<section id="{name}"><h2>{escape(title)}</h2>{"".join(parts)}</section>'


def paragraph(words: str, kind: str = "") -> str:
    """Escaped words as a paragraph."""
    kind = f' class="{kind}"' if kind else ""
    return f"<p{kind}>{escape(words)}</p>"


def packed_plotly() -> str:
    """The JavaScript of plotly, gzipped, as base64: a third of its size."""
    try:
        from plotly.offline import get_plotlyjs
    except ModuleNotFoundError:
        raise InputError(
            "report", got="no plotly", expected="plotly", do="pip install 'dtmgp[report]'"
        ) from None
    return base64.b64encode(gzip.compress(get_plotlyjs().encode(), 9, mtime=0)).decode()


def page(title: str, lead: str, sections: Sequence[tuple[str, str]], body: str, data: dict[str, Any]) -> str:
    """The whole file. JSON is embedded with < escaped, so that no text can end its element."""
    assets = resources.files("dtmgp.report") / "assets"
    read = {
        name: (assets / name).read_text("utf-8")
        for name in ("page.html", "page.css", "page.js", "profiler.js")
    }
    packed = json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    return Template(read["page.html"]).substitute(
        version=escape(__version__),
        title=escape(title),
        lead=escape(lead),
        css=read["page.css"],
        nav=" ".join(f'<a href="#{name}">{escape(words)}</a>' for name, words in sections),
        body=body,
        date=datetime.now(UTC).strftime("%Y-%m-%d"),
        data=packed,
        plotly=packed_plotly(),
        script=read["page.js"] + read["profiler.js"],
    )
