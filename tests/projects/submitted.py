"""What a browser submits of a rendered page of the admin that nobody has touched (HTML, section 4.10.21)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html.parser import HTMLParser

#: Names with their values. The order in which a browser sends the values of one name means nothing to the admin.
Submission = Mapping[str, list[str]]

_BUTTONS = {"submit", "button", "image", "reset", "file"}
#: Inputs without a value of their own kind: line breaks are taken out of them.
_LINES = {"text", "search", "tel", "password", "url", "email"}
_NUMBER = re.compile(r"-?(\d+(\.\d+)?|\.\d+)([eE][-+]?\d+)?")


class Submitted(HTMLParser):
    """Reads the form of a page: names and values, without files, buttons, and what protects from forgery."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.values: dict[str, list[str]] = {}
        #: The id of the form. The admin names it after the model, which may be that of a child of the row's.
        self.form_id = ""
        self._is_inside = False
        #: How many template elements are open, whose contents are in no form.
        self._templates = 0
        #: The select that is open: its attributes, and its options with their texts.
        self._select: dict[str, str] | None = None
        self._options: list[tuple[dict[str, str], list[str]]] = []
        self._is_group_disabled = False
        self._textarea: tuple[str, list[str]] | None = None
        self._radios: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        match tag:
            case "template":
                self._templates += 1
            case "form" if found.get("id", "").endswith("_form"):
                self._is_inside, self.form_id = True, found["id"]
            case "input" if self._is_sent(found):
                self._input(found)
            case "textarea" if self._is_sent(found):
                self._textarea = found["name"], []
            case "select":
                self._select, self._options = found, []
            case "optgroup":
                self._is_group_disabled = "disabled" in found
            case "option":
                disabled = {"disabled": ""} if self._is_group_disabled else {}
                self._options.append(({**found, **disabled}, []))

    def handle_endtag(self, tag: str) -> None:
        match tag:
            case "template":
                self._templates -= 1
            case "form":
                self._is_inside = False
            case "textarea" if self._textarea is not None:
                name, texts = self._textarea
                self._add(name, "".join(texts).removeprefix("\n"))
                self._textarea = None
            case "optgroup":
                self._is_group_disabled = False
            case "select" if self._select is not None:
                if self._is_sent(self._select):
                    self._add_options(self._select)
                self._select = None

    def handle_data(self, data: str) -> None:
        if self._textarea is not None:
            self._textarea[1].append(data)
        elif self._select is not None and self._options:
            self._options[-1][1].append(data)

    def _is_sent(self, found: Mapping[str, str]) -> bool:
        is_inside = found["form"] == self.form_id if "form" in found else self._is_inside
        return bool(is_inside and not self._templates and found.get("name") and "disabled" not in found)

    def _input(self, found: Mapping[str, str]) -> None:
        name, kind, value = found["name"], found.get("type", "text").lower(), found.get("value", "")
        if kind in _BUTTONS:
            return
        if kind in ("checkbox", "radio"):
            if "checked" not in found:
                return
            value = found.get("value", "on")
            if kind == "radio" and name in self._radios:
                del self.values[name]  # Checking one takes the mark of the other.
            self._radios |= {name} if kind == "radio" else set()
        elif kind == "number":
            value = value if _NUMBER.fullmatch(value) else ""
        elif kind in _LINES:
            value = value.replace("\r", "").replace("\n", "")
            value = value.strip() if kind in ("url", "email") else value
        self._add(name, value)

    def _add_options(self, select: Mapping[str, str]) -> None:
        chosen = [option for option in self._options if "selected" in option[0]]
        if "multiple" not in select:
            chosen = chosen[-1:] or [option for option in self._options if "disabled" not in option[0]][:1]
        for attrs, texts in chosen:
            if "disabled" not in attrs:
                self._add(select["name"], attrs.get("value", " ".join("".join(texts).split())))

    def _add(self, name: str, value: str) -> None:
        self.values.setdefault(name, []).append(value)


def submitted(html: str) -> Submission | None:
    """What is submitted of the form of a page, but for the rows that scripts copy; None if there is no form."""
    page = Submitted(html)
    if not page.form_id:
        return None
    names = page.values.keys() - {"csrfmiddlewaretoken"}
    return comparable({name: page.values[name] for name in names if "__prefix__" not in name})


def comparable(values: Mapping[str, list[str]]) -> Submission:
    """The values with one kind of line breaks, and in one order."""
    return {name: sorted("\n".join(re.split("\r\n|\r|\n", each)) for each in found) for name, found in values.items()}
