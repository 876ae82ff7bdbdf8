"""Sphinx configuration. `make docs` builds with warnings as errors and without a network."""

from dtmgp import __version__

project = "dtmgp"
author = "The dtmgp developers"
project_copyright = "2026, The dtmgp developers"
release = __version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = f"dtmgp {release}"

myst_enable_extensions = ["dollarmath", "amsmath", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # shapes are written in the docstrings
autosummary_generate = False
napoleon_google_docstring = True
napoleon_numpy_docstring = True

sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "remove_config_comments": True,
    "min_reported_time": 1,
    "show_signature": False,
}


def escape_bars(_app, _what, _name, _obj, _options, lines):
    """Docstrings write |x| for absolute values; reStructuredText would take that for a substitution."""
    for i, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            parts = line.split("``")  # every second part is a literal
            lines[i] = "``".join(p if k % 2 else p.replace("|", r"\|") for k, p in enumerate(parts))


def setup(app):
    app.connect("autodoc-process-docstring", escape_bars, priority=900)
