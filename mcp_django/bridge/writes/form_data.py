"""What a browser would send of a form: each value as its widget writes it, under the names that its widget reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, tzinfo
from typing import Any

from django import forms
from django.contrib.admin.widgets import RelatedFieldWidgetWrapper
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.forms.boundfield import BoundField
from django.forms.models import ModelChoiceIterator
from django.forms.widgets import ChoiceWidget
from django.http import QueryDict
from django.utils.datastructures import MultiValueDict

from mcp_django.bridge.writes.exact_forms import moments_in
from mcp_django.bridge.writes.markup import Control, Page
from mcp_django.core.compat.requests import freeze

#: The methods of a widget that a project may override so that only the rendered widget tells what a browser sends.
_TELLING = ("render", "get_context", "value_from_datadict", "use_required_attribute")
_KNOWN_MODULES = ("django.forms.", "django.contrib.admin.", "django.contrib.postgres.", "django.contrib.auth.")


def is_disabled(bound: BoundField) -> bool:
    """Whether a browser sends nothing of the field."""
    return bool(bound.field.disabled or bound.field.widget.attrs.get("disabled"))


class FormData:
    """Names and values as a browser sends them, and files. Date-times are in ``zone``, in which the form reads them."""

    def __init__(self, zone: tzinfo = UTC) -> None:
        self._zone = zone
        self._values: dict[str, list[str]] = {}
        self.files: MultiValueDict[str, Any] = MultiValueDict()

    def add(self, name: str, *values: object) -> None:
        """Add values to a name; none of them adds nothing."""
        if values:
            self._values.setdefault(name, []).extend(map(str, values))

    def write(self, bound: BoundField, value: Any) -> None:
        """Write a value of a field, as its ``initial`` would be."""
        field = bound.field
        if is_disabled(bound):
            return
        with moments_in(self._zone, field):
            self._write(field.widget, bound.html_name, field.prepare_value(_option(field, value)))
            if field.show_hidden_initial:
                self._write(field.hidden_widget(), bound.html_initial_name, field.prepare_value(bound.initial))

    def post(self) -> QueryDict:
        """The data as ``request.POST`` has it."""
        data = QueryDict(mutable=True)
        for name, values in self._values.items():
            data.setlist(name, values)
        freeze(data)
        return data

    @property
    def values(self) -> Mapping[str, list[str]]:
        """Each name with its values, as texts."""
        return self._values

    def _write(self, widget: Any, name: str, value: Any) -> None:
        if isinstance(widget, RelatedFieldWidgetWrapper):
            widget = widget.widget
        if not _is_known(type(widget)):
            self._write_rendered(widget, name, value)
            return
        match widget:
            case forms.MultiWidget():
                parts = list(value if isinstance(value, list | tuple) else widget.decompress(value) or ())
                named: Any = widget.widgets_names  # type: ignore[attr-defined]
                for index, (part, suffix) in enumerate(zip(widget.widgets, named, strict=True)):
                    self._write(part, f"{name}{suffix}", parts[index] if index < len(parts) else None)
            case forms.SelectDateWidget():
                for unit, shown in widget.format_value(value).items():
                    self.add(f"{name}_{unit}", "" if shown is None else shown)
            case forms.FileInput():
                return  # Nothing: the file stays.
            case forms.CheckboxInput():
                if widget.check_test(value):
                    self.add(name, widget.format_value(value) or "on")
            case ChoiceWidget():
                # A list may be one choice of many: the widget would take it for several.
                is_one = isinstance(value, list | tuple) and not widget.allow_multiple_selected
                chosen = widget.format_value([value] if is_one else value)
                chosen = list(chosen) if isinstance(chosen, list | tuple | set) else [chosen]
                if widget.allow_multiple_selected:
                    self.add(name, *(one for one in chosen if one != ""))
                elif isinstance(widget, forms.Select) and chosen in ([], [""]):
                    self.add(name, _unchosen(widget.choices))
                else:
                    self.add(name, *(chosen[:1] or [""]))
            case forms.PasswordInput():
                self.add(name, "")
            # The format of the language may leave out seconds. Every language reads the ISO format too.
            case forms.DateTimeInput() | forms.TimeInput() if widget.format is None and _has_seconds(value):
                self.add(name, value)
            case _:
                text = widget.format_value(value)
                self.add(name, "" if text is None else text)

    def _write_rendered(self, widget: Any, name: str, value: Any) -> None:
        html = widget.render(name, value, attrs={"id": f"id_{name}"})
        [form] = Page(f"<form>{html}</form>").forms
        values, control = form.values, form.controls.get(name)
        if control is not None and _is_filled_by_script(control, html):
            values[name] = [str(one) for one in _each(value) if one is not None]
        for sent, each in values.items():
            self.add(sent, *each)


def _is_filled_by_script(control: Control, html: str) -> bool:
    """Whether a script fills it before anyone sees it."""
    match control.kind:
        case "select":
            return not control.options
        case "textarea":
            return "<script" in html and control.sent == [""]
    return False


def _each(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list | tuple | set | QuerySet) else [value]


def _option(field: Any, value: Any) -> Any:
    """The choice that stands for the value. A widget finds it by its text, and a value has several: 20 and 20.00."""
    if not isinstance(field, forms.TypedChoiceField) or value in field.empty_values:
        return value
    options = [option for option, _ in flat_choices(field.choices) if option not in field.empty_values]
    if str(value) in map(str, options):
        return value
    with suppress(ValueError, TypeError, ValidationError):
        return next((option for option in options if field.coerce(option) == value), value)
    return value


def _unchosen(choices: Any) -> str:
    """What a select sends in which nothing is chosen: its empty option, or else the first one."""
    values = ("" if value is None else str(value) for value, _ in flat_choices(choices))
    if isinstance(choices, ModelChoiceIterator):
        # The empty option is the first one, or there is none. There may be very many others.
        return next(values, "")
    found = list(values)
    return found[0] if found and "" not in found else ""


def flat_choices(choices: Any) -> Iterator[tuple[Any, Any]]:
    """The choices of a field, each as its value and its label, without their groups."""
    for value, label in choices:
        if isinstance(label, list | tuple):
            yield from flat_choices(label)
        else:
            yield value, label


def _is_known(cls: type[Any]) -> bool:
    """Whether what a browser sends of the widget follows from its ``format_value`` and ``decompress``."""
    return all(
        vars(base).keys().isdisjoint(_TELLING) or base.__module__.startswith(_KNOWN_MODULES)
        for base in cls.__mro__
        if base is not object
    )


def _has_seconds(value: Any) -> bool:
    return bool(getattr(value, "second", 0) or getattr(value, "microsecond", 0))
