"""Compiled work on the touched rows of large tables: finding, fetching, writing back. Nothing else lives here."""
