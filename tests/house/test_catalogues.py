"""The catalogues: each text of the package in each language, and in Django's words where Django has the same text."""

from __future__ import annotations

import re
from functools import cache
from gettext import GNUTranslations
from pathlib import Path

import django
import polib
import pytest

from tests.house.test_texts import ROOT, messages

#: Code of Django → the name of the language.
LANGUAGES = {
    "de": "German", "es": "Spanish", "fr": "French", "ja": "Japanese", "pt_BR": "Brazilian Portuguese",
    "zh_Hans": "simplified Chinese",
}  # fmt: skip
#: Where Django's texts stand that a page of ours may stand beside.
OF_DJANGO = ("conf", *(f"contrib/{app}" for app in ("admin", "auth", "contenttypes", "sessions", "sites")))
#: What must be in a translation as it is in the text: values, tags, and what stands for a percent sign.
_FIXED = re.compile(r"%\(\w+\)[a-z]|%[sd%]|\{\w*\}|</?\w+[^>]*>")
_LETTERS = re.compile(r"[^\W\d_]{3,}")

pytestmark = pytest.mark.parametrize("language", LANGUAGES)


@cache
def catalogue(language: str) -> polib.POFile:
    return polib.pofile(str(ROOT / f"locale/{language}/LC_MESSAGES/django.po"))


def translations(entry: polib.POEntry) -> list[str]:
    return list(entry.msgstr_plural.values()) if entry.msgid_plural else [entry.msgstr]


def test_every_text_is_translated_and_nothing_else(language: str) -> None:
    found = catalogue(language)

    assert [entry.msgid for entry in found if entry.obsolete or entry.fuzzy or not all(translations(entry))] == []
    assert {
        (entry.msgctxt, text) for entry in found for text in (entry.msgid, entry.msgid_plural) if text
    } == messages()


def test_a_translation_has_every_form_the_values_and_the_tags_of_its_text(language: str) -> None:
    found = catalogue(language)
    forms = re.search(r"nplurals=(\d)", found.metadata["Plural-Forms"])
    assert forms is not None

    for entry in found:
        texts = [entry.msgid, entry.msgid_plural or entry.msgid]
        allowed = [sorted(_FIXED.findall(text)) for text in texts]
        for text in translations(entry):
            assert sorted(_FIXED.findall(text)) in allowed, (entry.msgid, text)
            assert (text[0] == " ", text[-1] == " ") == (texts[0][0] == " ", texts[0][-1] == " "), text
        assert len(translations(entry)) == (int(forms[1]) if entry.msgid_plural else 1), entry.msgid


def test_a_text_that_django_has_too_is_translated_as_django_does(language: str) -> None:
    """Of two catalogues with the same text, one counts for the whole site."""
    root = Path(django.__file__).parent
    theirs: dict[tuple[str | None, str], list[str]] = {}
    for place in reversed(OF_DJANGO):
        for entry in polib.pofile(str(root / place / f"locale/{language}/LC_MESSAGES/django.po")):
            if entry.translated():
                theirs[entry.msgctxt, entry.msgid] = translations(entry)

    shared = [entry for entry in catalogue(language) if (entry.msgctxt, entry.msgid) in theirs]

    assert len(shared) > 10
    for entry in shared:
        assert translations(entry) == theirs[entry.msgctxt, entry.msgid], entry.msgid


def test_the_compiled_catalogue_is_of_these_translations(language: str) -> None:
    compiled = polib.mofile(str(ROOT / f"locale/{language}/LC_MESSAGES/django.mo"))

    assert {(entry.msgctxt, entry.msgid): translations(entry) for entry in compiled} == {
        (entry.msgctxt, entry.msgid): translations(entry) for entry in catalogue(language)
    }


def test_each_form_of_a_number_is_found(language: str) -> None:
    with (ROOT / f"locale/{language}/LC_MESSAGES/django.mo").open("rb") as file:
        read = GNUTranslations(file)

    [entry] = [entry for entry in catalogue(language) if entry.msgid == "Read %d model"]
    for count in (0, 1, 2, 5, 1_000_000):
        assert read.ngettext(entry.msgid, entry.msgid_plural, count) in translations(entry)


def test_nothing_is_left_in_english_but_names(language: str) -> None:
    same = [
        entry.msgid
        for entry in catalogue(language)
        if entry.msgid in translations(entry) and len(_LETTERS.findall(_FIXED.sub(" ", entry.msgid))) > 3
    ]

    assert same == []
