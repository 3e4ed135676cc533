"""The forms in HTML: what a browser sends of them untouched, and what could be filled in."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser

#: Elements without an end tag (HTML, section 13.1.2).
_VOID = frozenset((
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr",
))  # fmt: skip
#: Elements whose texts are no sentences of the page: they name rows, or belong to its controls.
_NO_TEXT = frozenset((
    "a", "button", "datalist", "dd", "dl", "label", "legend", "li", "nav", "ol", "option", "script", "select", "style",
    "table", "template", "textarea", "title", "ul",
))  # fmt: skip
_NO_TEXT_CLASSES = frozenset(("breadcrumbs", "errornote", "help", "helptext", "readonly"))
#: The scripts that every page of the admin has.
_OF_ADMIN = "admin/js/"
#: Elements whose content is no part of the page.
_INERT = ("script", "style", "template")
_BUTTON_TYPES = frozenset(("button", "image", "reset", "submit"))
#: Inputs of one line: line breaks are taken out of their values (HTML, section 4.10.5.1).
_LINES = frozenset(("email", "password", "search", "tel", "text", "url"))
_NUMBER = re.compile(r"-?(\d+(\.\d+)?|\.\d+)([eE][-+]?\d+)?")

Attributes = Mapping[str, str]


@dataclass
class Control:
    """All that a form has under one name."""

    name: str
    #: The type of an input, or "select" or "textarea": of what people see, if anything.
    kind: str = "hidden"
    #: What is sent if nobody touches it: of hidden inputs, and of what people see.
    hidden: list[str] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)
    #: What can be chosen: value → label.
    options: dict[str, str] = field(default_factory=dict)
    #: How many inputs people see.
    count: int = 0
    is_multiple: bool = False
    is_required: bool = False
    label: str = ""
    #: The id of each input that people see, with the value that it stands for.
    ids: list[tuple[str, str]] = field(default_factory=list)

    @property
    def is_list(self) -> bool:
        """Whether several values can be sent of it."""
        return self.is_multiple or (self.kind == "checkbox" and self.count > 1)

    @property
    def is_flag(self) -> bool:
        """Whether it is one checkbox."""
        return self.kind == "checkbox" and self.count == 1

    def call(self, value: str, text: str) -> None:
        """Give it a label: that of one of several choices names the choice."""
        is_choice = self.kind == "radio" or (self.kind == "checkbox" and self.count > 1)
        if is_choice and value in self.options:
            self.options[value] = self.options[value] or text
        else:
            self.label = self.label or text


@dataclass(frozen=True)
class Button:
    """What sends a form. Without a name nothing is sent of it."""

    name: str
    value: str
    label: str
    #: Where it sends the form, if not where the form says.
    action: str | None = None


class Form:
    """One form. What reads the page tells it what belongs to it."""

    def __init__(self) -> None:
        self.id = ""
        self.action = ""
        self.method = "get"
        self.is_multipart = False
        self.controls: dict[str, Control] = {}
        self.buttons: list[Button] = []
        #: What it says is wrong: the id of the control, or an empty text, and the words.
        self.errors: list[tuple[str, str]] = []

    @property
    def seen(self) -> Iterator[Control]:
        """The controls that people see."""
        return (one for one in self.controls.values() if one.count)

    @property
    def values(self) -> dict[str, list[str]]:
        """What a browser sends if nobody touches it: names and values, without files and buttons."""
        return {one.name: [*one.hidden, *one.sent] for one in self.controls.values() if one.hidden or one.sent}

    def begin(self, attrs: Attributes) -> None:
        self.id, self.action = attrs.get("id", ""), attrs.get("action", "").strip()
        self.method = attrs.get("method", "get").strip().lower()
        self.is_multipart = attrs.get("enctype", "").strip().lower() == "multipart/form-data"

    def add_input(self, attrs: Attributes) -> Control:
        kind, value = attrs.get("type", "text").lower(), attrs.get("value", "")
        if kind == "hidden":
            control = self.controls.setdefault(attrs["name"], Control(attrs["name"]))
            control.hidden.append(value)
            return control
        if kind in ("checkbox", "radio"):
            value = attrs.get("value", "on")
        control = self._add(attrs, kind, value)
        if kind in ("checkbox", "radio"):
            control.options.setdefault(value, "")
            if "checked" in attrs:
                control.sent = [value] if kind == "radio" else [*control.sent, value]
        elif kind == "number":
            control.sent.append(value if _NUMBER.fullmatch(value) else "")
        elif kind in _LINES:
            value = value.replace("\r", "").replace("\n", "")
            control.sent.append(value.strip() if kind in ("email", "url") else value)
        elif kind != "file":
            control.sent.append(value)
        return control

    def add_text(self, attrs: Attributes, text: str) -> Control:
        control = self._add(attrs, "textarea", "")
        control.sent.append(text.removeprefix("\n"))
        return control

    def add_select(self, attrs: Attributes, options: list[tuple[Attributes, str]]) -> Control:
        control = self._add(attrs, "select", "")
        control.is_multiple = "multiple" in attrs
        valued = [(found.get("value", text), text, found) for found, text in options]
        open_ = [(value, text) for value, text, found in valued if "disabled" not in found]
        control.options |= dict(open_)
        chosen = [(value, found) for value, _, found in valued if "selected" in found]
        if not control.is_multiple and not chosen:
            control.sent += [value for value, _ in open_[:1]]
        else:
            chosen = chosen if control.is_multiple else chosen[-1:]
            control.sent += [value for value, found in chosen if "disabled" not in found]
        return control

    def _add(self, attrs: Attributes, kind: str, value: str) -> Control:
        control = self.controls.setdefault(attrs["name"], Control(attrs["name"]))
        control.kind = kind
        control.count += 1
        control.is_required = control.is_required or "required" in attrs
        control.ids.append((attrs.get("id", ""), value))
        return control


class _Reading:
    """The text of an element that is open."""

    def __init__(self, attrs: Attributes) -> None:
        self.attrs = attrs
        self.parts: list[str] = []
        #: The options of a select.
        self.options: list[_Reading] = []
        #: The controls within a label, each with the value that it stands for.
        self.controls: list[tuple[Control, str]] = []

    @property
    def line(self) -> str:
        return " ".join("".join(self.parts).split())


class Page(HTMLParser):
    """A page: its forms, its heading, and the sentences on it that are about no row and no control."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self.has_script = False
        self.title = ""
        self.sentences: list[str] = []
        #: How many controls there are, also those that are not sent.
        self.count = 0
        self._form: Form | None = None
        #: Forms by their ids, since a control may name one that stands elsewhere.
        self._by_id: dict[str, Form] = {}
        #: The open elements: a tag, whether texts in it are no sentences, and whether it disables what is in it.
        self._open: list[tuple[str, bool, bool]] = []
        self._tags: Counter[str] = Counter()
        self._hiding = self._disabling = 0
        #: The texts that are being read, by the tag of their element.
        self._reading: dict[str, _Reading] = {}
        #: The ids of the open lists of errors.
        self._lists: list[str] = []
        self._labels: dict[str, str] = {}
        self.feed(html)
        self.close()
        for control in (control for form in self.forms for control in form.controls.values()):
            for name, value in control.ids:
                if text := self._labels.get(name):
                    control.call(value, text)

    @property
    def posted(self) -> list[Form]:
        """The forms that are sent by POST, without those that every page of an admin has."""
        return [one for one in self.forms if one.method == "post" and one.id != "logout-form" and not _is_language(one)]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        classes = found.get("class", "").split()
        if tag not in _VOID:
            self._begin(tag, found, hides=tag in _NO_TEXT or not _NO_TEXT_CLASSES.isdisjoint(classes))
        if tag == "script" and _OF_ADMIN not in found.get("src", "") and found.get("type") != "application/json":
            self.has_script = True
        if self._tags["template"]:
            return
        match tag:
            case "form" if self._form is None:
                self._form = self._form_named(found)
                self._form.begin(found)
                self.forms.append(self._form)
            case "input":
                self._input(found)
            case "option" if "select" in self._reading:
                disabled = {"disabled": ""} if self._disabling else {}
                self._reading["select"].options.append(_Reading({**found, **disabled}))
            case "select" | "textarea" | "button" | "label" | "h1":
                disabled = {"disabled": ""} if self._disabling else {}
                self._reading[tag] = _Reading({**found, **disabled})
            case "ul" if "errorlist" in classes:
                self._lists.append(found.get("id", "").removesuffix("_error"))
            case "li" if self._lists:
                self._reading[tag] = _Reading(found)
            case "p" if not self._hiding:
                self._reading[tag] = _Reading(found)

    def handle_endtag(self, tag: str) -> None:
        reading = self._reading.pop(tag, None)
        if reading is not None:
            self._read(tag, reading)
        if tag == "form" and not self._tags["template"]:
            self._form = None
        elif tag == "ul" and self._lists:
            self._lists.pop()
        if self._tags[tag]:
            self._end(tag)

    def handle_data(self, data: str) -> None:
        if any(self._tags[tag] for tag in _INERT):
            return
        if "textarea" in self._reading:
            self._reading["textarea"].parts.append(data)
        elif "select" in self._reading:
            for option in self._reading["select"].options[-1:]:
                option.parts.append(data)
        else:
            for tag, reading in self._reading.items():
                if tag != "p" or not self._hiding:
                    reading.parts.append(data)

    def _begin(self, tag: str, attrs: Attributes, *, hides: bool) -> None:
        disables = tag in ("fieldset", "optgroup") and "disabled" in attrs
        self._open.append((tag, hides, disables))
        self._tags[tag] += 1
        self._hiding += hides
        self._disabling += disables

    def _end(self, tag: str) -> None:
        """End the element, and those in it that nobody has ended."""
        while self._open:
            name, hides, disables = self._open.pop()
            self._tags[name] -= 1
            self._hiding -= hides
            self._disabling -= disables
            if name == tag:
                return

    def _read(self, tag: str, reading: _Reading) -> None:
        """The text of an element is complete."""
        match tag:
            case "textarea":
                if (form := self._form_of(reading.attrs)) is not None:
                    self._label(form.add_text(reading.attrs, "".join(reading.parts)))
            case "select":
                if (form := self._form_of(reading.attrs)) is not None:
                    options = [(option.attrs, option.line) for option in reading.options]
                    self._label(form.add_select(reading.attrs, options))
            case "button":
                self._button(reading.attrs, reading.line)
            case "label":
                text = reading.line.rstrip(":")
                if reading.attrs.get("for"):
                    self._labels[reading.attrs["for"]] = text
                for control, value in reading.controls if text else ():
                    control.call(value, text)
            case "h1":
                self.title = self.title or reading.line
            case "li" if self._form is not None and self._lists:
                self._form.errors.append((self._lists[-1], reading.line))
            case "p" if reading.line:
                self.sentences.append(reading.line)

    def _form_named(self, attrs: Attributes) -> Form:
        return self._by_id.setdefault(attrs["id"], Form()) if attrs.get("id") else Form()

    def _form_of(self, attrs: Attributes) -> Form | None:
        """The form that sends a control; None if none does."""
        self.count += 1
        return self._owner(attrs) if attrs.get("name") and "disabled" not in attrs and not self._disabling else None

    def _owner(self, attrs: Attributes) -> Form | None:
        return self._form_named({"id": attrs["form"]}) if attrs.get("form") else self._form

    def _input(self, attrs: Attributes) -> None:
        kind = attrs.get("type", "text").lower()
        if kind in _BUTTON_TYPES:
            self._button({**attrs, "type": kind}, attrs.get("value") or attrs.get("alt") or "Submit")
        elif (form := self._form_of(attrs)) is not None:
            control = form.add_input(attrs)
            if kind != "hidden":
                self._label(control, attrs.get("value", "on"))

    def _label(self, control: Control, value: str = "") -> None:
        """A label around a control names it, once its text is complete."""
        if "label" in self._reading:
            self._reading["label"].controls.append((control, value))

    def _button(self, attrs: Attributes, label: str) -> None:
        form, kind = self._owner(attrs), attrs.get("type", "submit").lower()
        if form is None or kind in ("button", "reset") or "disabled" in attrs or self._disabling:
            return
        if attrs.get("formmethod", "post").lower() == "post":
            name = "" if kind == "image" else attrs.get("name", "")
            form.buttons.append(Button(name, attrs.get("value", ""), label, attrs.get("formaction")))


def _is_language(form: Form) -> bool:
    """Whether the form chooses the language of the site, by Django's own view."""
    return "language" in form.controls and form.action.rstrip("/").endswith("setlang")
