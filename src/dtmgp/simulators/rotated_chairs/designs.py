"""Forty-nine chairs: seven ways to stand times seven backs, with seats, arms, proportions and colours by seed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from dtmgp.simulators.rotated_chairs.solids import (
    Colour,
    Solid,
    arc_wall,
    bar,
    box,
    cushion,
    disc,
    slab,
)

PALETTE: tuple[Colour, ...] = (
    (0.55, 0.36, 0.20),
    (0.76, 0.60, 0.42),
    (0.33, 0.20, 0.13),
    (0.25, 0.27, 0.30),
    (0.62, 0.16, 0.15),
    (0.20, 0.33, 0.52),
    (0.30, 0.45, 0.33),
    (0.85, 0.80, 0.70),
    (0.80, 0.55, 0.15),
    (0.60, 0.62, 0.65),
    (0.42, 0.30, 0.45),
)
METAL: Colour = (0.45, 0.47, 0.50)
BLACK: Colour = (0.16, 0.16, 0.18)


@dataclasses.dataclass(frozen=True)
class Proportions:
    """What a chair's parts share: half width, half depth, seat height, thickness, back height, lean, colours."""

    w: float
    d: float
    seat: float
    thick: float
    top: float
    lean: float
    rod: float
    frame: Colour
    cover: Colour

    @classmethod
    def draw(cls, rng: np.random.Generator) -> Proportions:
        """Proportions of one chair."""
        frame, cover = rng.choice(len(PALETTE), size=2, replace=False)
        return cls(
            w=rng.uniform(0.20, 0.26),
            d=rng.uniform(0.19, 0.25),
            seat=rng.uniform(0.40, 0.50),
            thick=rng.uniform(0.03, 0.06),
            top=rng.uniform(0.80, 1.10),
            lean=rng.uniform(0.03, 0.13),
            rod=rng.uniform(0.016, 0.026),
            frame=PALETTE[frame],
            cover=PALETTE[cover],
        )

    @property
    def below(self) -> float:
        """Height of the underside of the seat."""
        return self.seat - self.thick

    def behind(self, z: float) -> float:
        """y of the middle of the leaning back at a height."""
        return self.d - 0.03 + self.lean * (z - self.seat) / max(self.top - self.seat, 0.1)


# -- ways to stand --------------------------------------------------------------------------------------------
def square_legs(p: Proportions) -> list[Solid]:
    """Four square legs and a rail under the seat."""
    r, x, y = 1.15 * p.rod, p.w - 0.03, p.d - 0.03
    legs = [
        bar((sx * x, sy * y, p.below), (sx * x, sy * y, 0), (r, r), p.frame)
        for sx in (-1, 1)
        for sy in (-1, 1)
    ]
    rails = [box((-x, sy * y - 0.01, p.below - 0.06), (x, sy * y + 0.01, p.below), p.frame) for sy in (-1, 1)]
    return legs + rails


def splayed_legs(p: Proportions) -> list[Solid]:
    """Four round legs that lean outwards and taper, with stretchers."""
    x, y, r = 0.6 * p.w, 0.6 * p.d, 1.2 * p.rod
    found = [
        bar((sx * x, sy * y, p.below), (sx * 1.15 * p.w, sy * 1.15 * p.d, 0), (r, r), p.frame, 0.55, 6)
        for sx in (-1, 1)
        for sy in (-1, 1)
    ]
    share = 0.62
    sx, sy = x + share * (1.15 * p.w - x), y + share * (1.15 * p.d - y)
    z = p.below * (1 - share)
    return [
        *found,
        *[bar((s * sx, -sy, z), (s * sx, sy, z), (0.010, 0.010), p.frame) for s in (-1, 1)],
        bar((-sx, 0, z), (sx, 0, z), (0.010, 0.010), p.frame),
    ]


def cantilever(p: Proportions) -> list[Solid]:
    """A metal tube: front posts, runners on the floor, nothing behind."""
    r, x, y = 0.8 * p.rod, p.w - 0.015, p.d - 0.01
    found = []
    for s in (-1, 1):
        found += [
            bar((s * x, -y, p.below), (s * x, -y, 0), (r, r), METAL, 1.0, 6),
            bar((s * x, -y, r), (s * x, y + 0.04, r), (r, r), METAL, 1.0, 6),
            bar((s * x, -y, p.below), (s * x, y, p.below), (r, r), METAL, 1.0, 6),
        ]
    return [*found, bar((-x, y + 0.04, r), (x, y + 0.04, r), (r, r), METAL, 1.0, 6)]


def swivel(p: Proportions) -> list[Solid]:
    """A column on five feet with castors."""
    found = [
        disc((0, 0), (0.028, 0.022), (0.09, p.below), METAL, 8),
        disc((0, 0), (0.05, 0.04), (0.06, 0.12), BLACK, 8),
    ]
    for turn in np.radians([-90, -18, 54, 126, 198]):
        tip = 0.27 * np.array([np.cos(turn), np.sin(turn)])
        found += [
            bar((0, 0, 0.10), (*tip, 0.055), (0.026, 0.018), BLACK, 0.6),
            disc(tip, (0.03, 0.03), (0.0, 0.05), BLACK, 6),
        ]
    return found


def pedestal(p: Proportions) -> list[Solid]:
    """A column that widens into a disc."""
    return [
        disc((0, 0), (0.22, 0.20), (0.0, 0.025), p.frame, 16),
        disc((0, 0), (0.12, 0.03), (0.025, 0.09), p.frame, 12),
        disc((0, 0), (0.03, 0.03), (0.09, 0.75 * p.below), p.frame, 8),
        disc((0, 0), (0.03, 0.10), (0.75 * p.below, p.below), p.frame, 12),
    ]


def crossed_legs(p: Proportions) -> list[Solid]:
    """A folding chair: two bars crossing on each side."""
    found = []
    for s in (-1, 1):
        x = s * (p.w - 0.02)
        found += [
            bar((x, -p.d + 0.02, p.below), (x, p.d + 0.05, 0), (0.012, 0.024), p.frame),
            bar((x, p.d - 0.02, p.below), (x, -p.d - 0.05, 0), (0.012, 0.024), p.frame),
        ]
    ends = [
        bar((-p.w, sy * (p.d + 0.04), 0.03), (p.w, sy * (p.d + 0.04), 0.03), (0.012, 0.012), p.frame)
        for sy in (-1, 1)
    ]
    return found + ends


def rockers(p: Proportions) -> list[Solid]:
    """Four legs on two curved runners."""
    x, y = p.w - 0.03, p.d - 0.02
    found = []
    for s in (-1, 1):
        heights = [0.13, 0.045, 0.012, 0.045, 0.15]
        places = np.linspace(-y - 0.14, y + 0.18, 5)
        for k in range(4):
            found.append(
                bar(
                    (s * x, places[k], heights[k]),
                    (s * x, places[k + 1], heights[k + 1]),
                    (0.016, 0.016),
                    p.frame,
                )
            )
        found += [
            bar((s * x, sy * y, p.below), (s * x, sy * y, 0.03), (p.rod, p.rod), p.frame) for sy in (-1, 1)
        ]
    return found


# -- backs ----------------------------------------------------------------------------------------------------
def posts(p: Proportions, top: float) -> list[Solid]:
    """The two uprights of a back."""
    return [
        bar(
            (s * (p.w - 0.03), p.behind(p.seat), p.seat - 0.02),
            (s * (p.w - 0.03), p.behind(top), top),
            (p.rod, p.rod),
            p.frame,
        )
        for s in (-1, 1)
    ]


def rail(p: Proportions, low: float, high: float, colour: Colour, half: float = 0.014) -> Solid:
    """A board across the back between two heights."""
    x = p.w - 0.01
    plans = [
        np.array([[-x, y - half], [x, y - half], [-x, y + half], [x, y + half]])
        for y in (p.behind(low), p.behind(high))
    ]
    return slab(plans[0], plans[1], (low, high), colour)


def spindles(p: Proportions) -> list[Solid]:
    """Thin upright rods under a top rail."""
    found = [*posts(p, p.top), rail(p, p.top - 0.07, p.top, p.frame)]
    for x in np.linspace(-p.w + 0.08, p.w - 0.08, 4):
        found.append(
            bar((x, p.behind(p.seat), p.seat), (x, p.behind(p.top), p.top - 0.06), (0.012, 0.012), p.frame)
        )
    return found


def ladder(p: Proportions) -> list[Solid]:
    """Boards across two posts."""
    gap = (p.top - p.seat) / 4
    boards = [rail(p, p.seat + k * gap + 0.42 * gap, p.seat + (k + 1) * gap, p.cover) for k in range(1, 4)]
    return posts(p, p.top - 0.01) + boards


def panel(p: Proportions) -> list[Solid]:
    """One leaning board from the seat upwards."""
    return [rail(p, p.seat + 0.01, p.top - 0.06, p.cover, 0.02)]


def tub(p: Proportions) -> list[Solid]:
    """A wall around back and sides that falls towards the front."""
    top = min(p.top, 0.86)
    tops = top - (top - p.seat - 0.14) * np.linspace(-1, 1, 15) ** 2
    return arc_wall((0, -0.02), (p.w, p.d), np.radians([-12, 192]), p.seat - 0.05, list(tops), p.cover)


def splat(p: Proportions) -> list[Solid]:
    """One wide upright board between two posts, under a crest that overhangs."""
    y0, y1 = p.behind(p.seat), p.behind(p.top)
    plans = [
        np.array([[-x, y - 0.01], [x, y - 0.01], [-x, y + 0.01], [x, y + 0.01]])
        for x, y in ((0.05, y0), (0.08, y1))
    ]
    crest = bar((-p.w - 0.03, y1, p.top), (p.w + 0.03, y1, p.top), (0.022, 0.035), p.frame)
    return [*posts(p, p.top), slab(plans[0], plans[1], (p.seat, p.top), p.cover), crest]


def upholstered(p: Proportions) -> list[Solid]:
    """A thick low back on two short bars."""
    low, high = p.seat + 0.10, min(p.top, p.seat + 0.42)
    short = [
        bar(
            (s * 0.10, p.d - 0.02, p.seat - 0.02),
            (s * 0.10, p.behind(low) + 0.02, low + 0.03),
            (0.012, 0.012),
            METAL,
        )
        for s in (-1, 1)
    ]
    y0, y1, x = p.behind(low), p.behind(high), p.w - 0.01
    middle = high - 0.07

    def plan(y: float, x: float, half: float) -> np.ndarray:
        return np.array([[-x, y - half], [x, y - half], [-x, y + half], [x, y + half]])

    ym = y0 + (y1 - y0) * (middle - low) / (high - low)
    return [
        *short,
        slab(plan(y0, x, 0.035), plan(ym, x, 0.035), (low, middle), p.cover),
        slab(plan(ym, x, 0.035), plan(y1, 0.72 * x, 0.02), (middle, high), p.cover),
    ]


def lattice(p: Proportions) -> list[Solid]:
    """Two boards crossing between posts and two rails."""
    low, high = p.seat + 0.09, p.top - 0.05
    x = p.w - 0.04
    cross = [
        bar((s * x, p.behind(low), low), (-s * x, p.behind(high), high), (0.018, 0.008), p.cover)
        for s in (-1, 1)
    ]
    return [*posts(p, p.top), rail(p, high, p.top, p.frame), rail(p, p.seat + 0.06, low, p.frame), *cross]


# -- seats and arms -------------------------------------------------------------------------------------------
def board_seat(p: Proportions) -> list[Solid]:
    """A flat board."""
    return [box((-p.w, -p.d, p.below), (p.w, p.d, p.seat), p.cover)]


def round_seat(p: Proportions) -> list[Solid]:
    """A disc."""
    return [disc((0, 0), (0.92 * p.w, p.w), (p.below, p.seat), p.cover)]


def soft_seat(p: Proportions) -> list[Solid]:
    """A frame with a cushion."""
    z = p.seat - 0.01
    soft = cushion((-p.w + 0.01, -p.d + 0.01, z), (p.w - 0.01, p.d - 0.03, z + 0.07), 0.035, p.cover)
    return [box((-p.w, -p.d, p.below), (p.w, p.d, z), p.frame), *soft]


def wedge_seat(p: Proportions) -> list[Solid]:
    """A board that is wider in front."""
    plan = np.array([[-1.1 * p.w, -p.d], [1.1 * p.w, -p.d], [-0.85 * p.w, p.d], [0.85 * p.w, p.d]])
    return [slab(plan, plan, (p.below, p.seat), p.cover)]


def no_arms(p: Proportions) -> list[Solid]:
    """Nothing."""
    return []


def one_arm(p: Proportions, side: int, length: float = 1.0) -> list[Solid]:
    """A bar on one side, on a post."""
    z, x = p.seat + 0.20, side * (p.w + 0.01)
    front = -length * p.d + 0.03
    return [
        bar((x, front - 0.02, z), (x, p.behind(z) + 0.01, z), (0.022, 0.014), p.frame),
        bar((x, front + 0.02, p.seat - 0.03), (x, front + 0.02, z), (0.014, 0.014), p.frame),
    ]


def two_arms(p: Proportions) -> list[Solid]:
    """A bar on both sides."""
    return one_arm(p, -1) + one_arm(p, 1)


def tablet(p: Proportions) -> list[Solid]:
    """A writing board on the right side only."""
    z = p.seat + 0.21
    return [*one_arm(p, 1, 0.5), box((0.06, -p.d - 0.10, z), (p.w + 0.05, -0.02, z + 0.022), p.frame)]


def short_arms(p: Proportions) -> list[Solid]:
    """Half-length bars on both sides."""
    return one_arm(p, -1, 0.25) + one_arm(p, 1, 0.25)


Maker = Callable[[Proportions], list[Solid]]
BASES: tuple[Maker, ...] = (square_legs, splayed_legs, cantilever, swivel, pedestal, crossed_legs, rockers)
BACKS: tuple[Maker, ...] = (spindles, ladder, panel, tub, splat, upholstered, lattice)
SEATS: tuple[Maker, ...] = (board_seat, soft_seat, wedge_seat, board_seat, round_seat)
ARMS: tuple[Maker, ...] = (no_arms, two_arms, no_arms, tablet, no_arms, short_arms, no_arms)
CHAIRS = len(BASES) * len(BACKS)


def chair(number: int, seed: int = 0) -> list[Solid]:
    """The solids of chair ``number`` of 0 .. 48, in no order."""
    base, back = divmod(number, len(BACKS))
    p = Proportions.draw(np.random.default_rng([seed, number]))
    seat = SEATS[(2 * base + 3 * back) % len(SEATS)]
    arms = no_arms if BACKS[back] is tub else ARMS[(base + 2 * back) % len(ARMS)]
    return [*BASES[base](p), *seat(p), *BACKS[back](p), *arms(p)]
