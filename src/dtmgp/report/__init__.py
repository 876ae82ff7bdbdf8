"""One self-contained HTML page about a fitted model (extra ``report``): tables, plotly figures, a live profiler.

`write` puts the page together; `accuracy`, `figures`, `facts` and `surrogate` compute its parts; `assets` holds its
HTML, CSS and JavaScript. Numbers come from `dtmgp.analysis`: nothing statistical may live here.
"""

from dtmgp.report.write import write_report

__all__ = ["write_report"]
