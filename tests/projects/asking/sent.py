"""Compares what is sent of the pages of actions with what Chromium sends of the same pages, filled in alike."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.projects.submitted import comparable

#: Fills in the controls of one of the forms, presses a button, and returns names and values without files.
_SENDS = """([html, at, filled, pressed]) => {
    const form = new DOMParser().parseFromString(html, "text/html").forms[at];
    for (const [name, values] of Object.entries(filled)) {
        const left = [...values];
        for (const one of [...form.elements].filter(one => one.name === name && one.type !== "hidden")) {
            if (one.tagName === "SELECT")
                [...one.options].forEach(option => option.selected = values.includes(option.value));
            else if (["checkbox", "radio"].includes(one.type)) one.checked = values.includes(one.value);
            else if (one.type !== "file") one.value = left.shift() ?? "";
        }
    }
    const buttons = [...form.querySelectorAll("button, input[type=submit]")];
    const button = buttons.find(one => pressed && one.name === pressed[0] && one.value === pressed[1]);
    return [...new FormData(form, button)].filter(([, value]) => typeof value === "string");
}"""


@dataclass(frozen=True)
class Sent:
    """One answer to a page: the page, which of its forms, and what was sent."""

    html: str
    form: int
    #: Of the controls that were filled in, all that was sent.
    filled: Mapping[str, Sequence[str]]
    button: tuple[str, str] | None
    values: Mapping[str, Sequence[str]]


@contextmanager
def recorded() -> Iterator[list[Sent]]:
    """All that is sent within the block of pages that were shown."""
    from mcp_django.bridge.browser import browsing

    found: list[Sent] = []
    shown: list[tuple[str, Any]] = []
    pages: Any = browsing.Page

    class Page(pages):  # type: ignore[misc]
        def __init__(self, html: str) -> None:
            super().__init__(html)
            shown.append((html, self))

    submit, send = browsing.Browser._submit, browsing.Browser._send
    pressing: list[Any] = []

    def submitting(self: Any, slots: Any, answer: Any, place: str) -> Any:
        pressing[:] = [slots.form, browsing._button(slots.form, answer.get("button"), place)]
        return submit(self, slots, answer, place)

    def sending(self: Any, sent: Any, data: Any, url: str) -> Any:
        if pressing:
            form, button = pressing
            pressing.clear()
            html, page = next(one for one in reversed(shown) if form in one[1].forms)
            untouched = form.values
            filled = {name: values for name, values in sent.items() if values != untouched.get(name)}
            hidden = {name: form.controls[name].hidden for name in filled if name in form.controls}
            filled = {name: values[len(hidden[name]) :] for name, values in filled.items() if name in hidden}
            filled |= {name: [] for name in untouched.keys() - sent.keys()}
            named = (button.name, button.value) if button is not None and button.name else None
            found.append(Sent(html, page.forms.index(form), filled, named, {k: [*v] for k, v in sent.items() if v}))
        return send(self, sent, data, url)

    browsing.Page, browsing.Browser._submit, browsing.Browser._send = Page, submitting, sending  # type: ignore
    try:
        yield found
    finally:
        browsing.Page, browsing.Browser._submit, browsing.Browser._send = pages, submit, send  # type: ignore


def differing(found: Sequence[Sent]) -> list[str]:
    """The answers of which Chromium sends something else, in words. Raises LookupError where there is no Chromium."""
    from playwright.sync_api import sync_playwright

    executable = shutil.which("chromium")
    if executable is None:
        raise LookupError("Chromium is missing: apt-get install chromium")
    told = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        page = browser.new_page()
        for number, one in enumerate(found):
            sent: dict[str, list[str]] = {}
            for name, value in page.evaluate(_SENDS, [one.html, one.form, one.filled, one.button]):
                sent.setdefault(name, []).append(value)
            ours, theirs = comparable({k: [*v] for k, v in one.values.items()}), comparable(sent)
            names = {name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name)}
            told += [f"answer {number}: {name}: {ours.get(name)} here, {theirs.get(name)} in Chromium"
                     for name in sorted(names)]  # fmt: skip
        browser.close()
    return told
