"""Readable axis names and units from column names."""

from __future__ import annotations

import re

# Endings that can hardly be anything but a unit ("_min" is more often a minimum than minutes).
UNITS = {
    "ms": "ms",
    "kg": "kg",
    "mm": "mm",
    "cm": "cm",
    "km": "km",
    "hz": "Hz",
    "khz": "kHz",
    "kpa": "kPa",
    "mpa": "MPa",
    "usd": "USD",
    "eur": "EUR",
    "degc": "°C",
    "percent": "%",
    "pct": "%",
}
BRACKETS = re.compile(r"^(.*?)[\s_]*[\[(]([^\[\]()]+)[\])]$")


def split_unit(column: object) -> tuple[str, str]:
    """Name and unit of a column: ``name [unit]``, ``name (unit)`` or a well-known ending; "" if there is none.

    >>> split_unit("arrival_rate [1/h]"), split_unit("delay_ms"), split_unit("x0")
    (('arrival rate', '1/h'), ('delay', 'ms'), ('x0', ''))
    """
    text = str(column).strip()
    found = BRACKETS.match(text)
    unit = ""
    if found and found.group(1):
        text, unit = found.group(1), found.group(2).strip()
    else:
        stem, _, ending = text.rpartition("_")
        if stem and ending.lower() in UNITS:
            text, unit = stem, UNITS[ending.lower()]
    return re.sub(r"[_\s]+", " ", text).strip() or str(column), unit


def axis_label(column: object) -> str:
    """Name with its unit in brackets.

    >>> axis_label("service_rate (1/h)")
    'service rate [1/h]'
    """
    name, unit = split_unit(column)
    return f"{name} [{unit}]" if unit else name
