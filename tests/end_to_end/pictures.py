"""The pictures of the documentation: taken of pages that the tests open, and held later against what these show.

``make pictures`` takes them again, and notes the words of each page in ``pictures.json``: its headings, labels, heads
of columns and buttons. Rows, numbers and dates are left out, since they differ from run to run.
"""

from __future__ import annotations

import json
import os
import re
from io import BytesIO
from pathlib import Path

import django
from PIL import Image
from playwright.sync_api import Page

from tests.support.pages import ROOT

FOLDER = ROOT / "docs/pictures"
#: Name of a picture without its theme → how wide the page is.
WIDTHS = {"consent": 360} | dict.fromkeys(
    (
        *("boards", "endpoint", "overview", "tools", "tool", "answer", "models", "model", "prompts", "preview"),
        *("tokens", "new-token", "token", "sees", "activity", "live", "totals", "credential", "connections", "paused"),
        *("chart", "saving", "roll", "revoke", "pause", "own-token"),
        *("deciding-inbox", "deciding-change-record", "deciding-change-rows", "own-whole", "own-change"),
    ),
    1280,
)
THEMES = ("light", "dark")
#: The pages look like those of this Django.
_DJANGO = (5, 2)
_WORDS = Path(__file__).with_name("pictures.json")
_NAMED = re.compile(rf"(.+)-({'|'.join(THEMES)})-(\d+)")
#: Numbers, and the last characters of a token.
_DIFFERS = re.compile(r"…\w{4}\b|\d+")
_SAID = "h1, h2, h3, legend, label, thead th, button, input[type=submit]"
_TEXTS = "parts => parts.map(part => part.value || part.textContent)"
_COLOURS = 64


def hold(page: Page, name: str) -> None:
    """Fail where a picture of the page, called as ``keep`` calls it, shows other words than the page.

    With PICTURES set, take the picture instead.
    """
    named = _NAMED.fullmatch(name)
    if named is None or WIDTHS.get(named[1]) != int(named[3]) or django.VERSION[:2] != _DJANGO:
        return
    picture = f"{named[1]}-{named[2]}"
    said = _said(page)
    noted = json.loads(_WORDS.read_text())
    if os.environ.get("PICTURES"):
        _take(page, FOLDER / f"{picture}.png")
        _WORDS.write_text(json.dumps({**noted, picture: said}, indent=1, sort_keys=True) + "\n")
    else:
        assert noted.get(picture) == said, f"docs/pictures/{picture}.png shows an older page: make pictures"


def _said(page: Page) -> str:
    texts = page.locator(_SAID).evaluate_all(_TEXTS)
    return " · ".join(sorted({" ".join(_DIFFERS.sub("0", text).split()) for text in texts}))


def _take(page: Page, path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    picture = Image.open(BytesIO(page.screenshot()))
    picture.quantize(_COLOURS).save(path, optimize=True)
