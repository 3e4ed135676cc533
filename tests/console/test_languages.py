"""Each page in each language: no text of ours is left in English on it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.utils import translation

from tests.console import walking
from tests.console.test_rights import things  # noqa: F401 - a fixture
from tests.console.test_translations import STEPS
from tests.console.walking import Walk
from tests.house.test_catalogues import LANGUAGES, catalogue, translations
from tests.support.data import Users
from tests.support.declared import Declared

pytestmark = [
    pytest.mark.usefixtures("transactional_db", "trail"),
    pytest.mark.more("a walk past every page for each language"),
]


@pytest.fixture(params=LANGUAGES)
def language(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def walk(
    request: pytest.FixtureRequest, users: Users, flights: Any, declared: Declared, monkeypatch: pytest.MonkeyPatch,
    settings: Any, language: str,
) -> Iterator[Walk]:  # fmt: skip
    settings.MCP = {**settings.MCP, "SELF_SERVICE": ["read"], "TRY_AS": True, "BASE_URL": "http://testserver"}
    made = Walk(monkeypatch, users, request.getfixturevalue("things"))
    walking.set_up(made, declared)
    with translation.override(translation.to_language(language)):
        yield made
    made.close()


def test_no_text_of_ours_is_left_in_english(walk: Walk, language: str) -> None:
    english = {
        entry.msgid: entry
        for entry in catalogue(language)
        if entry.msgctxt is None and not entry.msgid_plural and len(entry.msgid) > 12 and "%" not in entry.msgid
        and entry.msgid not in translations(entry)
    }  # fmt: skip
    ours = {text for entry in catalogue(language) for text in translations(entry)}
    for step in STEPS:
        step(walk)

    read = walk.texts()

    assert {text: what for text, what in read.items() if text in english} == {}
    assert sum(text in ours for text in read) > 300
