"""Studies that produce the tables and figures of the documentation, each one function that writes a small CSV.

Lives here: what is measured and how; `results` (files with their origin), `figures` (drawn from those files only).
May not live here: anything that the library itself needs.
"""
