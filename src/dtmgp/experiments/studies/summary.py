"""From rows to tables: means over macro-replications at each budget, times to convergence beside the paper's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dtmgp.experiments.results import Value
from dtmgp.experiments.studies.contestants import CONTESTANTS
from dtmgp.experiments.studies.runner import BUDGETS, OWN, Row

SCORES = ("ks100", "ks10k", "crps", "nll", "coverage50", "coverage90", "coverage99")

# Tables 1 and 2 of the paper, seconds to convergence; None where it says "> 4 hr"
PAPER_SECONDS: Mapping[str, Mapping[int, tuple[float, float | None]]] = {
    "random-field": {
        40: (28.7, 44.2),
        80: (53.5, 97.9),
        120: (89.8, 255.3),
        160: (138.1, 384.2),
        200: (166.4, 516.7),
    },
    "activity-network": {
        4: (9.5 * 60, 1.8 * 3600),
        8: (17.8 * 60, 3.2 * 3600),
        12: (24.3 * 60, None),
        16: (36.7 * 60, None),
        20: (46.2 * 60, None),
    },
}


def at_budget(rows: Sequence[Row], budget: str) -> list[Row]:
    """The row of every model and cell at a budget: its own, or the row ``own`` if that took no longer."""
    cells: dict[tuple[Value, ...], dict[str, dict[Value, Row]]] = {}
    for row in rows:
        cell = cells.setdefault(tuple(row[name] for name in ("study", "variant", "size", "replication")), {})
        cell.setdefault(str(row["budget"]), {})[row["model"]] = row
    found: list[Row] = []
    for cell in cells.values():
        own = cell.get(OWN, {})
        if budget == OWN:
            found.extend(own.values())
        elif budget in own:
            limit = float(own[budget]["cpu_seconds"])  # type: ignore[arg-type]
            fitted = cell.get(budget, {})
            for model, row in own.items():
                if model in fitted:
                    found.append(fitted[model])
                elif float(row["cpu_seconds"]) <= limit:  # type: ignore[arg-type]
                    found.append(row)
    return found


def summary(rows: Sequence[Row]) -> list[dict[str, Value]]:
    """Mean and standard deviation (the paper's, over replications) of every score; failed fits are counted apart."""
    found: list[dict[str, Value]] = []
    for budget in (OWN, *BUDGETS):
        groups: dict[tuple[Value, ...], list[Row]] = {}
        for row in at_budget(rows, budget):
            key = tuple(row[name] for name in ("study", "variant", "size", "model"))
            groups.setdefault(key, []).append(row)
        for (study, variant, size, model), group in groups.items():
            good = [row for row in group if row["ks100"] is not None]
            line: dict[str, Value] = {
                "study": study,
                "variant": variant,
                "budget": budget,
                "size": size,
                "model": model,
                "replications": len(good),
                "failed": len(group) - len(good),
                "cpu_seconds": _mean(good, "cpu_seconds"),
                "limited": sum(row["ended"] == "limit" for row in good),
            }
            for name in SCORES:
                line[name] = _mean(good, name)
                if name in SCORES[:4]:
                    line[f"{name}_std"] = _std(good, name)
            found.append(line)
    order = {name: place for place, name in enumerate(CONTESTANTS)}
    budgets = {name: place for place, name in enumerate((OWN, *BUDGETS))}
    found.sort(
        key=lambda line: (
            str(line["variant"]),
            budgets[str(line["budget"])],
            line["size"],
            order[str(line["model"])],
        )
    )
    return found


def _values(rows: Sequence[Row], name: str) -> list[float]:
    return [float(row[name]) for row in rows if row[name] is not None]  # type: ignore[arg-type]


def _mean(rows: Sequence[Row], name: str) -> float | None:
    values = _values(rows, name)
    return float(np.mean(values)) if values else None


def _std(rows: Sequence[Row], name: str) -> float | None:
    values = _values(rows, name)
    return float(np.std(values)) if values else None


def times(rows: Sequence[Row]) -> list[dict[str, Value]]:
    """Seconds to convergence of DTMGP and DGP-VEC, their ratio, and the paper's tables 1 and 2.

    Where a limit ended fits of DGP-VEC before they had converged, its seconds are those of the limit: ``vec_limited``
    counts them, and the ratio is an upper bound.
    """
    found: list[dict[str, Value]] = []
    own = at_budget(rows, OWN)
    for study, variant, size in sorted({(r["study"], r["variant"], r["size"]) for r in own}):  # type: ignore[type-var]
        group = {
            name: [
                row
                for row in own
                if (row["study"], row["variant"], row["size"], row["model"]) == (study, variant, size, name)
                and row["ks100"] is not None
            ]
            for name in BUDGETS
        }
        if not all(group.values()):
            continue
        seconds = {
            name: float(np.mean([row["converged"] or row["cpu_seconds"] for row in part]))  # type: ignore[arg-type]
            for name, part in group.items()
        }
        paper = PAPER_SECONDS.get(str(study), {}).get(int(str(size)))
        first, second = (None, None) if paper is None else paper
        found.append(
            {
                "study": study,
                "variant": variant,
                "size": size,
                "replications": min(map(len, group.values())),
                "dtmgp_seconds": seconds["dtmgp"],
                "vec_seconds": seconds["dgp-vec"],
                "vec_limited": sum(row["converged"] is None for row in group["dgp-vec"]),
                "ratio": seconds["dtmgp"] / seconds["dgp-vec"],
                "paper_dtmgp_seconds": first,
                "paper_vec_seconds": second,
                "paper_ratio": None if first is None or second is None else first / second,
            }
        )
    return found


def describe(rows: Sequence[Row]) -> list[str]:
    """The tables as lines for a terminal: KS of every model by size at every budget, then the times."""
    lines: list[str] = []
    table = summary(rows)
    words = {
        OWN: "each at its own end",
        "dtmgp": "stopped when DTMGP converged",
        "dgp-vec": "stopped when DGP-VEC did",
    }
    for variant in dict.fromkeys(str(line["variant"]) for line in table):
        for budget in (OWN, *BUDGETS):
            part = [line for line in table if (line["variant"], line["budget"]) == (variant, budget)]
            sizes = sorted({int(line["size"]) for line in part})  # type: ignore[arg-type]
            if not part:
                continue
            lines += [
                "",
                f"{variant}, {words[budget]}: mean KS, 100 draws / 10,000 draws",
                f"{'':22}" + "".join(f"{size:>16}" for size in sizes),
            ]
            for model in dict.fromkeys(str(line["model"]) for line in part):
                cells = {int(line["size"]): line for line in part if line["model"] == model}  # type: ignore[arg-type]
                shown = "".join(
                    f"{_number(cells[size]['ks100'])} / {_number(cells[size]['ks10k'])}".rjust(16)
                    if size in cells
                    else f"{'':16}"
                    for size in sizes
                )
                lines.append(f"{CONTESTANTS[model].label:22}{shown}")
    lines += ["", "Seconds to convergence, DTMGP : DGP-VEC (the paper's ratio)"]
    for line in times(rows):
        bound = "<" if line["vec_limited"] else " "
        paper = "-" if line["paper_ratio"] is None else f"{line['paper_ratio']:.2f}"
        lines.append(
            f"{line['variant']!s:14} {line['size']!s:>4}  {line['dtmgp_seconds']:8.1f} : {line['vec_seconds']:8.1f} = "
            f"{bound}{line['ratio']:.2f} ({paper})"
        )
    failed = [row for row in rows if row["ks100"] is None]
    lines += [
        f"failed: {row['model']}, {row['variant']}, {row['size']}, replication {row['replication']}: {row['ended']}"
        for row in failed
    ]
    return lines


def _number(value: Value) -> str:
    return "-" if value is None else f"{float(value):.3f}"
