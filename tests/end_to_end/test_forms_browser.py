"""What the pages of actions send in Chromium is what is sent of them here."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from django import forms
from django.contrib.admin.widgets import AdminSplitDateTime, FilteredSelectMultiple
from django.template import engines
from playwright.sync_api import Browser

from mcp_django.bridge.writes.markup import Page
from tests.projects.submitted import comparable
from tests.projects.test_submitted import SENT

pytestmark = pytest.mark.more("a page in the browser")

CHOICES = [("Colours", [("r", "red"), ("b", "blue & green")]), ("", "none"), ("x", "  spaced   out ")]
#: Names and values, without the files, as a browser writes them into a request.
SENDS = """html => [...new FormData(new DOMParser().parseFromString(html, "text/html").forms[0])]
    .filter(([, value]) => typeof value === "string")"""


class Everything(forms.Form):
    text = forms.CharField(initial='a "quoted" <b> & more')
    area = forms.CharField(widget=forms.Textarea, initial="\n one\n\ntwo ")
    number = forms.DecimalField(initial="1.50")
    localized = forms.DecimalField(initial=1.5, localize=True)
    flag = forms.BooleanField(initial=True)
    no_flag = forms.BooleanField()
    null = forms.NullBooleanField()
    one = forms.ChoiceField(choices=CHOICES, initial="b")
    unchosen = forms.ChoiceField(choices=CHOICES)
    radio = forms.ChoiceField(choices=CHOICES[1:], widget=forms.RadioSelect, initial="x")
    many = forms.MultipleChoiceField(choices=CHOICES, initial=["r", "x"])
    boxes = forms.MultipleChoiceField(choices=CHOICES, widget=forms.CheckboxSelectMultiple, initial=["b"])
    both = forms.MultipleChoiceField(choices=CHOICES, widget=FilteredSelectMultiple("x", False), initial=["b"])
    day = forms.DateField(initial=datetime.date(2026, 1, 31), widget=forms.DateInput({"type": "date"}))
    parts = forms.DateField(initial=datetime.date(2026, 1, 31), widget=forms.SelectDateWidget)
    moment = forms.SplitDateTimeField(initial=datetime.datetime(2026, 1, 31, 5), widget=AdminSplitDateTime)
    mail = forms.EmailField(initial=" a@example.com ")
    link = forms.URLField(initial=" https://example.com/ ", assume_scheme="https")
    hidden = forms.CharField(widget=forms.HiddenInput, initial="a\nb")
    disabled = forms.CharField(disabled=True, initial="x")
    file = forms.FileField()
    password = forms.CharField(widget=forms.PasswordInput)


def test_chromium_sends_the_same_of_a_page_that_nobody_has_touched(browser: Browser) -> None:
    rendered = engines["django"].from_string("{{ form.as_div }}").render({"form": Everything()})
    markups = [rendered, *(markup for markup, _ in SENT)]
    pages = [f'<form id="order_form" method="post">{markup}</form>' for markup in markups]
    page = browser.new_page()

    sent = [_collected(page.evaluate(SENDS, html)) for html in pages]

    assert [comparable(Page(html).posted[0].values) for html in pages] == sent
    assert len(sent[0]) >= 20


def _collected(pairs: list[list[str]]) -> Any:
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return comparable(found)
