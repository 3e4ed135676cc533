"""A form on a page as an agent reads it: what it asks, what can be chosen, and what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html import unescape
from itertools import islice
from typing import TYPE_CHECKING, Any

from django.utils.html import strip_tags
from django.utils.text import Truncator

from mcp_django.bridge.writes import values
from mcp_django.exceptions import FieldError, field_error
from mcp_django.protocol.names import title_of
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.bridge.browser.slots import Slot, Slots
    from mcp_django.bridge.writes.markup import Button, Form, Page

#: Choices of a field, and characters of the sentences of a page, of a help and of a value.
MAX_CHOICES = 20
_MAX_TEXT, _MAX_HELP, _MAX_VALUE = 500, 100, 100

_OF_PERSON = "the form refuses it because of a field that only a person can fill in."

Plain = Callable[[str], str]


def describe(page: Page, slots: Slots, plain: Plain) -> JSON:
    """What the page asks. ``plain`` takes out of a text what the agent may not read."""
    found: JSON = {"title": plain(page.title), "text": plain(text_of(page))}
    found["fields"] = {name: _slot(slot, plain) for name, slot in slots.open.items()}
    found["buttons"] = {key: plain(one.label) for key, one in buttons(slots.form).items()} if _are_many(slots) else {}
    return {name: value for name, value in found.items() if value}


def text_of(page: Page) -> str:
    """The sentences of a page."""
    return Truncator(" ".join(page.sentences)).chars(_MAX_TEXT)


def _are_many(slots: Slots) -> bool:
    return len(slots.form.buttons) > 1


def buttons(form: Form) -> dict[str, Button]:
    """The buttons that send the form, by the names that agents give: the button's, or else its label."""
    names = [one.name for one in form.buttons]
    found: dict[str, Button] = {}
    for one in form.buttons:
        found.setdefault(one.name if one.name and names.count(one.name) == 1 else one.label, one)
    return found


def _slot(slot: Slot, plain: Plain) -> JSON:
    field: Any = slot.field.bound.field
    described: JSON = _type(slot)
    if slot.is_choice:
        shown = {value: plain(label) for value, label in islice(slot.choices.items(), MAX_CHOICES)}
        is_plain = all(label in ("", value) for value, label in shown.items())
        described["choices"] = list(shown) if is_plain else shown
    elif slot.choices:
        described["choices"] = list(islice(slot.choices, MAX_CHOICES))
    if len(slot.choices) > MAX_CHOICES:
        described["more_choices"] = len(slot.choices) - MAX_CHOICES
    if slot.is_required:
        described["required"] = True
    described |= _value(slot, plain)
    label = slot.control.label or _text(field.label or "")
    described |= title_of(slot.name, plain(label))
    if slot.field.related is not None:
        described["model"] = slot.field.related.label
    if field.help_text:
        described["help"] = plain(Truncator(_text(field.help_text)).chars(_MAX_HELP))
    return described


def _type(slot: Slot) -> JSON:
    """The type of a value that is no text and no choice: "boolean", "date", "file", "list"."""
    control = slot.control
    if control.is_flag:
        return {"type": "boolean"}
    if control.is_list or slot.field.is_list:
        return {"type": "list"}
    if control.kind == "file":
        return {"type": "file"}
    if slot.is_choice:
        return {}
    kind = values.kind_in(slot.field)
    schema = {} if kind is None else kind.schema
    name = schema.get("format") or schema.get("type")
    name = name[0] if isinstance(name, list) else name
    return {} if name in (None, "string") or slot.field.related is not None else {"type": name}


def _value(slot: Slot, plain: Plain) -> JSON:
    """What is sent if the agent gives nothing, where that is something which it may read."""
    control, sent = slot.control, slot.control.sent
    if control.is_flag:
        return {"value": True} if sent else {}
    if slot.choices or slot.field.related is not None:
        known = [one for one in sent if one in slot.choices and one]
        value = known if control.is_list else next(iter(known), "")
    else:
        value = plain(Truncator(sent[0] if sent and len(slot.controls) == 1 else "").chars(_MAX_VALUE))
    return {"value": value} if value else {}


def _text(text: Any) -> str:
    return " ".join(unescape(strip_tags(str(text))).split())


# What is wrong.


def errors(slots: Slots, place: str, plain: Plain) -> list[FieldError]:
    """What the forms of the page say is wrong, by the names that the agent knows."""
    found = list(_errors(slots, place, plain))
    return [one for number, one in enumerate(found) if one not in found[:number]]


def _errors(slots: Slots, place: str, plain: Plain) -> Iterator[FieldError]:
    is_told = False
    for form in slots.forms:
        for field, wrong in form.errors.items() if form.is_bound else ():
            is_told = True
            name = None if field == "__all__" else slots.name_of(form, field)
            if name is None and field != "__all__":
                yield field_error(f"{place}.values", _OF_PERSON)
                continue
            for text in wrong:
                yield field_error(f"{place}.values" + (f".{name}" if name else ""), plain(_text(text)))
    if is_told:
        return
    for html_id, text in slots.form.errors:
        name = slots.named_by_id(html_id)
        yield field_error(f"{place}.values" + (f".{name}" if name else ""), plain(text))
