"""Cells of CSV files that spreadsheets open: none of them runs as a formula."""

from __future__ import annotations

import re

#: How a text begins that a spreadsheet runs as a formula, also in the wide signs of East Asian scripts (OWASP, CSV
#: injection). Spaces before it are skipped.
_FORMULA = re.compile(r" *[=+\-@\t\r\n\0\uff1d\uff0b\uff0d\uff20]")
#: A negative number is no formula.
_NEGATIVE = re.compile(r"-[0-9]+(\.[0-9]+)?(E[+-]?[0-9]+)?", re.ASCII)


def spreadsheet_safe(text: str) -> str:
    """The text of a cell, with an apostrophe before what a spreadsheet would run. It shows the rest as it is."""
    return f"'{text}" if _FORMULA.match(text) and not _NEGATIVE.fullmatch(text) else text
