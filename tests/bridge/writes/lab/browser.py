"""A person with a browser: opens a page of the admin, fills its form in, and saves it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from http import HTTPStatus
from typing import Any

from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

#: What a person types into controls, by their names: a text, many choices, whether a box is ticked, a file.
Typed = Mapping[str, Any]

_BUTTONS = {"submit", "button", "image", "reset"}
_NEW_ROW = re.compile(r"(?P<prefix>.+?)-(?P<index>\d+)-(?P<name>.+)")


@dataclass
class Control:
    """An input, a select or a textarea of a form."""

    kind: str
    values: list[str] = field(default_factory=list)
    #: What can be chosen: of a select, a box or the buttons of a radio; None where any text can be typed.
    options: list[str] | None = None
    file: SimpleUploadedFile | None = None
    classes: str = ""

    def type(self, value: Any) -> None:
        match self.kind:
            case "file":
                self.file = value
            case "checkbox" if isinstance(value, bool):
                self.values = list(self.options or ())[:1] if value else []
            case _:
                self.values = list(map(str, value)) if isinstance(value, list) else [str(value)]
                # Options that are fetched while a person types, or before, are not in the page.
                if self.options and "admin-autocomplete" not in self.classes:
                    assert set(self.values) <= set(self.options), (self.values, self.options)


class Form(HTMLParser):
    """The form of a page of the admin, by the names of its controls."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.controls: dict[str, Control] = {}
        self.buttons: set[str] = set()
        self._is_inside = False
        self._select: tuple[str, Control, bool] | None = None
        self._options: list[tuple[str | None, bool, bool, list[str]]] = []
        self._textarea: tuple[str, list[str]] | None = None
        self.feed(html)
        assert self.controls, "the page has no form"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._is_inside = found.get("id", "").endswith("_form")
        if not self._is_inside:
            return
        name = found.get("name", "") if "disabled" not in found else ""
        match tag:
            case "input" if name:
                self._input(name, found)
            case "textarea" if name:
                self._textarea = name, []
            case "select":
                is_many = "multiple" in found
                kind = "multiple" if is_many else "select"
                self._select = name, Control(kind, classes=found.get("class", "")), is_many
                self._options = []
            case "option" if self._select is not None:
                self._options.append((found.get("value"), "selected" in found, "disabled" in found, []))

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._is_inside = False
        elif tag == "textarea" and self._textarea is not None:
            name, parts = self._textarea
            self.controls[name] = Control("text", ["".join(parts).removeprefix("\n")])
            self._textarea = None
        elif tag == "select" and self._select is not None:
            name, control, is_many = self._select
            options = [("".join(text).strip() if value is None else value, on) for value, on, off, text in self._options
                       if not off]  # fmt: skip
            control.options = [value for value, _ in options]
            chosen = [value for value, on in options if on]
            control.values = chosen if is_many else (chosen or control.options)[-1:] if chosen else control.options[:1]
            if name:
                self.controls[name] = control
            self._select = None

    def handle_data(self, data: str) -> None:
        if self._textarea is not None:
            self._textarea[1].append(data)
        elif self._select is not None and self._options:
            self._options[-1][3].append(data)

    def _input(self, name: str, found: Mapping[str, str]) -> None:
        kind, value = found.get("type", "text").lower(), found.get("value", "")
        if kind in _BUTTONS:
            self.buttons.add(name)
        elif kind in ("checkbox", "radio"):
            control = self.controls.setdefault(name, Control(kind, options=[]))
            value = found.get("value", "on")
            control.options = [*(control.options or ()), value]
            if "checked" in found:
                control.values = [*control.values, value] if kind == "checkbox" else [value]
        elif kind == "file":
            self.controls[name] = Control(kind)
        else:
            self.controls[name] = Control("text", [value])

    def type(self, typed: Typed) -> None:
        for name, value in typed.items():
            if name not in self.controls:
                self._add_row(name)
            self.controls[name].type(value)

    def _add_row(self, name: str) -> None:
        """What the link "Add another" does before a row is filled in."""
        found = _NEW_ROW.fullmatch(name)
        assert found is not None, f"{name} is not in the page: {', '.join(sorted(self.controls))}"
        prefix, index = found["prefix"], found["index"]
        total = self.controls[f"{prefix}-TOTAL_FORMS"]
        assert total.values == [index], f"{name} is not the next row after {total.values}"
        template = f"{prefix}-__prefix__-"
        for each, control in list(self.controls.items()):
            if each.startswith(template):
                copied = Control(control.kind, list(control.values), control.options, None, control.classes)
                self.controls[f"{prefix}-{index}-{each.removeprefix(template)}"] = copied
        total.values = [str(int(index) + 1)]
        assert name in self.controls, f"a new row has no {name}"

    def submitted(self, button: str = "_save") -> dict[str, Any]:
        assert button in self.buttons, f"the page has no button {button}"
        return {**dict(self._submitted()), button: "Save"}

    def _submitted(self) -> Iterator[tuple[str, Any]]:
        for name, control in self.controls.items():
            if control.kind == "file":
                if control.file is not None:
                    control.file.seek(0)
                    yield name, control.file
            elif control.values:
                # A browser ends lines with both characters.
                yield name, [re.sub(r"\r?\n", "\r\n", value) for value in control.values]


@dataclass
class Browser:
    """A browser in which a user is logged in."""

    user: Any

    def __post_init__(self) -> None:
        self.client = Client()
        self.client.force_login(self.user)

    def delete(self, url: str) -> Any:
        """Open the page that asks whether to delete a row, and agree."""
        self._open(url)
        return self.client.post(url, {"post": "yes"})

    def delete_selected(self, url: str, keys: Sequence[Any]) -> Any:
        """Tick rows on the page of all, choose to delete them, and agree."""
        self._open(url)
        chosen = {"action": "delete_selected", "_selected_action": list(map(str, keys))}
        asked: Any = self.client.post(url, chosen)
        assert asked.status_code == HTTPStatus.OK, "nobody is asked whether to delete them"
        return self.client.post(url, {**chosen, "post": "yes"})

    def save(self, url: str, typed: Typed) -> Any:
        """Open the page, fill its form in, and save it. Fails if the page shows errors."""
        form = Form(self._open(url))
        form.type(typed)
        saved: Any = self.client.post(url, form.submitted())
        if saved.status_code == HTTPStatus.OK:
            context = saved.context_data
            forms = [context["adminform"].form, *(one.formset for one in context["inline_admin_formsets"])]
            raise AssertionError(f"the page shows errors: {[one.errors for one in forms]}")
        return saved

    def _open(self, url: str) -> str:
        opened: Any = self.client.get(url)
        assert opened.status_code == HTTPStatus.OK, f"{url} answers {opened.status_code}"
        return str(opened.content.decode())
