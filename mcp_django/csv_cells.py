"""Cells of CSV files that spreadsheets open: none of them runs as a formula."""

from __future__ import annotations

#: With one of these at the beginning, a spreadsheet takes a text for a formula. It skips tabs and line ends
#: before it, and takes the wide signs of East Asian scripts too.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\0", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def spreadsheet_safe(text: str) -> str:
    """The text of a cell, with an apostrophe before what a spreadsheet would run. It shows the rest as it is."""
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA) else text
