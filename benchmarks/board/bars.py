"""The bars of the board, and what the best peers reached before: shown beside the rows, never used in a choice."""

from __future__ import annotations

from typing import NamedTuple


class Bar(NamedTuple):
    """Upper bounds of scores (coverage: largest distance from its level), and the best of the peers in words."""

    limits: dict[str, float]
    peers: str = ""


BARS: dict[str, Bar] = {
    "network-single-4": Bar(
        {"ks100": 0.124, "ks10k": 0.040, "fit_wall": 30.0},
        "SVGP or DeepGP on log outputs: KS100 0.126, CRPS 3.98, in 10-60 s",
    ),
    "network-single-20": Bar(
        {"ks100": 0.120, "ks10k": 0.025, "fit_wall": 30.0},
        "NGBoost lognormal: KS100 0.122, CRPS 3.97, in 4-19 s; DSPP 0.123",
    ),
    "network-means-4": Bar({"ks100": 0.20}, ""),
    "network-means-20": Bar(
        {"ks100": 0.165, "fit_wall": 30.0}, "DeepGP: KS100 0.188, RMSE 0.10, after 300 s"
    ),
    "field-40": Bar(
        {"ks100": 0.149, "fit_wall": 5.0}, "DeepGP, 3000 iterations: KS100 0.134 (one replication)"
    ),
    "field-80": Bar({"ks100": 0.141, "fit_wall": 5.0}),
    "field-120": Bar({"ks100": 0.133, "fit_wall": 5.0}, "NGBoost normal: KS100 0.147"),
    "field-160": Bar({"ks100": 0.132, "fit_wall": 5.0}),
    "field-200": Bar(
        {"ks100": 0.133, "fit_wall": 5.0}, "mixture density networks: KS100 0.145; forest 0.148"
    ),
    "bimodal": Bar({"ks10k": 0.05, "fit_wall": 60.0}),
    "queue": Bar({"ks10k": 0.05, "cover50": 0.02, "cover90": 0.02, "cover99": 0.02}),
    "epidemic": Bar({"ks10k": 0.05, "cover50": 0.02, "cover90": 0.02, "cover99": 0.02}),
    "uci-kin40k": Bar({"fit_wall": 120.0}),
}


def misses(task: str, scores: dict[str, float | None], truth: dict[str, float | None]) -> list[str]:
    """The bars of a task that (mean) scores miss, in words; an empty list if all are met or there are none.

    Coverage is measured from that of the truth's own intervals on the same observations: those of a law with atoms
    cover more than their level (the epidemic: 57% for 50%).

    >>> misses("field-40", {"ks100": 0.16, "fit_wall": 1.0}, {})
    ['ks100 0.16 > 0.149']
    """
    found = []
    for name, limit in BARS.get(task, Bar({})).limits.items():
        value, level = scores.get(name), 0.0
        if value is None:
            continue
        if name.startswith("cover"):
            own = truth.get(name)
            level = float(name.removeprefix("cover")) / 100 if own is None else own
            value = abs(value - level)
            if value > limit:
                found.append(f"{name} off by {value:.3f} > {limit:g}")
        elif value > limit:
            found.append(f"{name} {value:.3g} > {limit:g}")
    return found
