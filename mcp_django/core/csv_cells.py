"""Cells of CSV files that spreadsheets open: none of them runs as a formula."""

from __future__ import annotations

import re
import unicodedata

#: What a spreadsheet runs as a formula begins with one of these (OWASP, CSV injection), also in one of its other forms,
#: such as the full-width and the small ones of East Asian scripts.
_BEGINNINGS = frozenset("=+-@\t\r\n\0")
#: Categories of Unicode that a text may have before its first visible character: spaces, and what only formats.
_UNSEEN = frozenset({"Zs", "Zl", "Zp", "Cf"})
#: A negative number is no formula.
_NEGATIVE = re.compile(r"-[0-9]+(\.[0-9]+)?(E[+-]?[0-9]+)?", re.ASCII)


def spreadsheet_safe(text: str) -> str:
    """The text of a cell, with an apostrophe before what a spreadsheet would run. It shows the rest as it is."""
    return f"'{text}" if _is_formula(text) and not _NEGATIVE.fullmatch(text) else text


def _is_formula(text: str) -> bool:
    first = text[:1]
    if first.isascii() and first != " ":  # As nearly every cell begins.
        return first in _BEGINNINGS
    first = next((char for char in text if unicodedata.category(char) not in _UNSEEN), "")
    return unicodedata.normalize("NFKC", first)[:1] in _BEGINNINGS
