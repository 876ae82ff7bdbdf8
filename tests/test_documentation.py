"""Oracle: the interpreter. Every Python block of the README and the guides runs as a reader would paste it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if BLOCK.search(page.read_text())], ids=lambda p: p.name
)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "documentation"}
    for block in BLOCK.findall(page.read_text()):
        exec(compile(block, str(page), "exec"), namespace)
    assert namespace


def test_readme_names_the_two_commands_and_a_short_example():
    text = (ROOT / "README.md").read_text()
    assert "make demo" in text
    assert "make test" in text
    first = BLOCK.search(text)
    assert first is not None
    assert len(first.group(1).strip().splitlines()) <= 13
