"""Oracle: the command line itself. Every `$ dtmgp ...` line of the guides runs after the Python blocks above it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

GUIDES = sorted((Path(__file__).resolve().parents[1] / "docs" / "guides").glob("*.md"))
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_blocks_run_in_order(page, tmp_path, monkeypatch):
    from dtmgp.cli import main

    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    if not blocks:
        pytest.skip("no code on this page")
    if "botorch" in page.name:
        pytest.importorskip("botorch")
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "guide"}
    for kind, block in blocks:
        if kind == "python":
            exec(compile(block, str(page), "exec"), namespace)
            continue
        for line in block.splitlines():
            assert line.startswith("$ dtmgp "), line
            with pytest.raises(SystemExit) as stopped:
                main(shlex.split(line)[2:])
            assert stopped.value.code in (0, None), line


def test_every_guide_is_in_the_table_of_contents():
    index = GUIDES[0].parents[1] / "index.md"
    listed = set(re.findall(r"^guides/(\w+)$", index.read_text(encoding="utf-8"), re.MULTILINE))
    assert listed == {page.stem for page in GUIDES}
