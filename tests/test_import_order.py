"""Oracle: the order of the mathematics, written out as a table; every module is parsed and compared with it."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parents[1] / "src"
PACKAGE = SRC / "dtmgp"

# Imports point down this list only: a package may import itself, its equals and what is above it here.
ORDER = [
    {"kernels"},
    {"grids"},
    {"expansion"},
    {"kriging"},
    {"ops"},
    {"layers", "likelihoods", "model"},
    {"inference"},
]
RANK = {name: rank for rank, names in enumerate(ORDER) for name in names}
# Leaves import what they like, also each other; no ordered package imports them.
LEAVES = {
    "estimators",
    "simulators",
    "baselines",
    "metrics",
    "analysis",
    "plots",
    "report",
    "cli",
    "experiments",
    "images",
    "botorch",
    "streams",
    "emulation",
    "executors",
    "serve",
    "__main__",
}
# Small modules that anyone may import; they import nothing but each other.
BASE = {"_version", "errors", "files", "random", "typing_", "_typing"}
# Modules for users and tests; they import anything, nobody imports them.
TOP = {"testing"}
WITHOUT_TORCH = {"kernels", "grids", "expansion", "kriging"} | BASE
MAX_LINES = 400

MODULES = sorted(PACKAGE.rglob("*.py"))
INNER = [path for path in MODULES if path != PACKAGE / "__init__.py"]


def module_name(path: Path) -> str:
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path: Path) -> list[tuple[int, str]]:
    """Line and absolute name of everything that a module imports, inside functions too."""
    package = path.relative_to(SRC).parent.parts
    found: list[tuple[int, str]] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = list(package[: len(package) - node.level + 1]) if node.level else []
            base += node.module.split(".") if node.module else []
            if base == ["dtmgp"]:  # `from dtmgp import kernels` names a package
                found += [(node.lineno, f"dtmgp.{alias.name}") for alias in node.names]
            else:
                found.append((node.lineno, ".".join(base)))
    return found


def fault(importer: str, target: str) -> str | None:
    """Why the package `importer` may not import the package `target`; None if it may."""
    if target == importer or target in BASE:
        return None
    if target in TOP:
        return f"{target} is for users and tests"
    if importer in BASE:
        return f"{importer} is a base module"
    if importer in LEAVES or importer in TOP:
        return None
    if target in LEAVES:
        return f"{target} is a leaf"
    if RANK[target] > RANK[importer]:
        return f"{target} comes after {importer}"
    return None


def test_every_package_has_a_place():
    tops = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in MODULES} - {"__init__"}
    unknown = tops - RANK.keys() - LEAVES - BASE - TOP
    assert not unknown, f"give {sorted(unknown)} a place in the tables of {Path(__file__).name}"


@pytest.mark.parametrize("path", INNER, ids=module_name)
def test_imports_follow_the_mathematics(path: Path):
    parts = module_name(path).split(".")
    for line, name in imported(path):
        root, _, rest = name.partition(".")
        if root != "dtmgp":
            continue
        target = rest.split(".")[0]
        known = target in RANK.keys() | LEAVES | BASE | TOP
        assert known or target == "__version__", f"{path.name}:{line}: import {name} from its own package"
        if known:
            reason = fault(parts[1], target)
            assert reason is None, f"{path.relative_to(SRC)}:{line}: {parts[1]} imports {name}, but {reason}"


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_numerical_core_has_no_torch(path: Path):
    parts = module_name(path).split(".")
    if len(parts) == 1 or parts[1] in WITHOUT_TORCH:
        names = {name.split(".")[0] for _, name in imported(path)}
        assert "torch" not in names


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_files_stay_short(path: Path):
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= MAX_LINES, f"{path.relative_to(SRC)} has {lines} lines: make it a package"


@pytest.mark.parametrize(
    ("importer", "target", "allowed"),
    [
        ("grids", "kernels", True),
        ("kernels", "grids", False),
        ("expansion", "errors", True),
        ("errors", "kernels", False),
        ("model", "layers", True),
        ("inference", "estimators", False),
        ("estimators", "inference", True),
        ("cli", "report", True),
        ("metrics", "testing", False),
        ("testing", "kernels", True),
    ],
)
def test_the_rule_itself(importer: str, target: str, allowed: bool):
    assert (fault(importer, target) is None) == allowed


def loaded_after(statement: str) -> set[str]:
    """Names of the modules that a fresh interpreter holds after a statement."""
    code = f"{statement}; import sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(SRC)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return set(done.stdout.split())


def exists(package: str) -> bool:
    return (PACKAGE / package / "__init__.py").exists() or (PACKAGE / f"{package}.py").exists()


def test_importing_dtmgp_is_light():
    heavy = {"numpy", "scipy", "sklearn", "numba", "torch", "pandas", "matplotlib"}
    assert not heavy & loaded_after("import dtmgp, dtmgp._version")


@pytest.mark.parametrize("package", ["kernels", "grids", "expansion", "kriging"])
def test_importing_the_core_does_not_load_torch(package: str):
    if not exists(package):
        pytest.skip(f"dtmgp.{package} is not written yet")
    assert "torch" not in loaded_after(f"import dtmgp.{package}")
