"""Chairs on a turntable: convex solids, 49 designs, a camera, a compiled rasteriser, and the simulator made of them."""

from dtmgp.simulators.rotated_chairs.simulator import RotatedChairs, grey

__all__ = ["RotatedChairs", "grey"]
