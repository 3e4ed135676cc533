"""What an agent may see and fill in of a form on a page. All else is sent as the page has it.

The controls of the HTML are what is sent. The forms of Django that were made for the page say which of them belong
together, what their values are, and of which column or row they are.
"""

from __future__ import annotations

import copy
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from django import forms
from django.core.exceptions import ValidationError
from django.forms.models import BaseModelForm

from mcp_django.access.permissions import check_scopes
from mcp_django.bridge.changes.shown_values import model_field
from mcp_django.bridge.declared.secrets import gives_rights
from mcp_django.bridge.resources.fields.choices import as_text
from mcp_django.bridge.resources.policy import visible_rows
from mcp_django.bridge.writes import access, filling
from mcp_django.bridge.writes.fields import WritableForm
from mcp_django.bridge.writes.form_data import FormData
from mcp_django.core.db.interrupts import was_interrupted
from mcp_django.exceptions import ToolError
from mcp_django.exchange.scopes import READ

if TYPE_CHECKING:
    from django.db.models import Model

    from mcp_django.bridge.declared.options import Operation
    from mcp_django.bridge.resources.policy.policy import ModelRights
    from mcp_django.bridge.writes.fields import WritableField
    from mcp_django.bridge.writes.markup import Control, Form
    from mcp_django.core.types import AnyField

logger = logging.getLogger("mcp_django")

#: Controls of the list itself, which say what acts on which rows.
OF_LIST = frozenset(("_selected_action", "action", "csrfmiddlewaretoken", "index", "select_across"))
#: The number of a form among several, and of a part among those of one field.
_PLACE = re.compile(r".*-\d+-|_\d+$")
#: Rows among the choices of a field that are looked at.
_MAX_ROWS = 1_000
_OF_HTML: Mapping[str, type[forms.Field]] = {
    "date": forms.DateField,
    "datetime-local": forms.DateTimeField,
    "file": forms.FileField,
    "number": forms.DecimalField,
    "time": forms.TimeField,
}


@dataclass(frozen=True)
class Slot:
    """One field that the agent may fill in, with the controls that are sent of it."""

    name: str
    controls: Sequence[Control]
    field: WritableField
    rights: ModelRights
    #: What can be chosen, by its value: those of the options that the agent may know.
    choices: Mapping[str, str]

    @property
    def control(self) -> Control:
        return self.controls[0]

    @property
    def is_required(self) -> bool:
        """Whether it must be filled in, as the form says, or else the page."""
        return not self.control.is_flag and (self.field.bound.field.required or self.control.is_required)

    @property
    def is_choice(self) -> bool:
        """Whether its values are some of those that the page offers, and no rows."""
        control = self.control
        return bool(control.options) and not control.is_flag and len(self.controls) == 1 and self.field.related is None

    def fill(self, value: Any, data: FormData) -> None:
        """Write what the agent gives. Raises ValidationError."""
        control = self.control
        if control.is_flag:
            if not isinstance(value, bool):
                raise ValidationError("must be true or false")
            data.add(control.name, *(list(control.options) if value else ()))
        elif self.is_choice:
            if control.is_list and not isinstance(value, list):
                raise ValidationError("must be a list")
            data.add(control.name, *map(self._chosen, value if control.is_list else [value]))
        else:
            form, name = self.field.bound.form, self.field.name
            read = filling.read_value(self.field, value, self.rights.rights)
            filling.write_form(data, form, [name], {name: read})

    def takes(self, data: FormData) -> bool:
        """Whether the field of the form takes what was written, whatever else is sent."""
        bound = self.field.bound
        if isinstance(bound.field, forms.FileField):
            return True
        try:
            bound.field.clean(bound.field.widget.value_from_datadict(data.post(), data.files, bound.html_name))
        except ValidationError:
            return False
        return True

    def _chosen(self, given: Any) -> str:
        """The value of a choice that is named by its value, or by its label. Raises ValidationError."""
        text = as_text(given)
        by_label = [value for value, label in self.choices.items() if label == text]
        if text in self.choices:
            return text
        if len(by_label) != 1:
            raise ValidationError("is none of the choices")
        return by_label[0]


class Slots:
    """What the agent may fill in of a form, by the names that it knows."""

    def __init__(self, form: Form, made: Sequence[Any], rights: ModelRights, *, is_approved: bool = False) -> None:
        self.form = form
        self._rights = rights
        #: Name → the names of its controls, and the form and the field that it is, whether it is open or not.
        self._parts: dict[str, tuple[list[Control], Any, str]] = {}
        self._owners: dict[int, ModelRights | None] = {}
        #: The forms that stand for controls of which only the HTML is known.
        self._of_html: set[int] = set()
        self._collect(made)
        self.open: dict[str, Slot] = {}
        for name in self._parts:
            slot = self._slot(name)
            if slot is not None:
                self.open[name] = slot
        self._close_beside_closed()
        self._check_rights(is_approved=is_approved)
        self._check_required()

    @property
    def forms(self) -> Iterator[Any]:
        """The forms that stand on the page, each once."""
        return iter({id(form): form for _, form, _ in self._parts.values()}.values())

    def name_of(self, form: Any, field: str) -> str | None:
        """The name by which the agent knows a field of a form; None if it does not."""
        return next((name for name in self.open if self._parts[name][1:] == (form, field)), None)

    def named_by_id(self, html_id: str) -> str | None:
        """The same by the id of a control."""
        found = (name for name, slot in self.open.items() for one in slot.controls if (html_id, "") in one.ids)
        return next(found, None) if html_id else None

    def check_writes(self) -> None:
        """Raises InsufficientScope and ToolError where the form holds columns that the agent may not write at all."""
        for owner, operation in self._written():
            if access.may_write(owner, operation):
                continue
            check_scopes(owner.rights.request, partial(_may_write_now, type(owner.rights), owner, operation))
            may_user = access.may_write(owner, operation, scope=READ)
            why = "a token may do with the scope write" if may_user else "agents may not do (writable of a ModelMCP)"
            raise ToolError(
                f"A person must finish this action: with its page one can {operation} {owner.label}, which {why}. "
                "Nothing was changed."
            )

    def check_kept(self, stored: Iterable[Model]) -> None:
        """Raises ToolError where the page would write another value than a row has into what the agent may not write.

        A form may hold a row as it was, to which a person goes back: also columns that do not stand on the page.
        """
        rows, own = {row.pk: row for row in stored}, self._rights
        declared = own.ask_hook("get_write_fields", ())
        for form in self.forms:
            row = rows.get(form.instance.pk) if isinstance(form, BaseModelForm) else None
            if row is None or not isinstance(form.instance, own.model):
                continue
            for column in row._meta.concrete_fields:
                differs = vars(form.instance).get(column.attname) != vars(row).get(column.attname)
                is_hidden = own.own_column(column.name) is None or (declared is None and gives_rights(column))
                is_kept = is_hidden or (declared is not None and column.name not in declared)
                if differs and is_kept and not getattr(column, "auto_now", False):
                    raise ToolError(
                        "A person must finish this action: its page changes what agents may not write. "
                        "Nothing was changed."
                    )

    def withheld(self) -> dict[str, list[str]]:
        """What is sent of controls in which columns are chosen: without those that the agent may not read."""
        found = {}
        for controls, form, field in self._parts.values():
            control, owner = controls[0], self._owner(form)
            if owner is None or self._column(owner.model, form, field) is not None:
                continue  # The column itself stays as the page has it.
            if control.is_flag and self._names_hidden(*_endings(control.name)):
                found[control.name] = [*control.hidden]
            elif control.is_list:
                kept = [one for one in control.sent if not self._names_hidden(one, control.options.get(one, ""))]
                found |= {control.name: [*control.hidden, *kept]} if kept != control.sent else {}
        return found

    def refused(self, names: Iterable[str], data: FormData) -> Iterator[tuple[str, str]]:
        """Which of these fields the forms of the page do not take with all that is sent, and why.

        Such a form is made of what is sent alone. Where that does not do, or takes the value, the page decides.
        """
        for name in names:
            _controls, form, field = self._parts[name]
            given = {"instance": copy.copy(form.instance)} if isinstance(form, BaseModelForm) else {}
            try:
                made = type(form)(data.post(), data.files, prefix=form.prefix, **given)
                errors = list(made.errors.get(field, ()))
            except Exception:
                if was_interrupted():
                    raise
                logger.debug("The form of %s cannot be made of what is sent", name, exc_info=True)
                continue
            if errors:
                yield name, "; ".join(one.rstrip(".") for one in errors)

    # Which controls are of which field.

    def _collect(self, made: Sequence[Any]) -> None:
        seen = {control.name: control for control in self.form.seen if control.name not in OF_LIST}
        taken: set[str] = set()
        # The last one counts: a page may make a form, and then the same again with what was sent.
        for form in reversed(made):
            for field in form.fields:
                name = form.add_prefix(field)
                names = [one for one in _sent_names(form.fields[field].widget, name) if one in seen]
                if names and taken.isdisjoint(names):
                    taken.update(names)
                    self._parts[name] = [seen[one] for one in names], form, field
        for name in seen.keys() - taken:
            self._parts[name] = [seen[name]], _form_of(seen[name]), name
            self._of_html.add(id(self._parts[name][1]))
        order = {control: number for number, control in enumerate(seen)}
        self._parts = dict(sorted(self._parts.items(), key=lambda part: order[part[1][0][0].name]))

    def _owner(self, form: Any) -> ModelRights | None:
        """The rights on the model whose columns the fields of a form are; None where the agent has none."""
        if id(form) not in self._owners:
            own = self._rights
            model = form._meta.model if isinstance(form, BaseModelForm) else own.model
            self._owners[id(form)] = own if model is own.model else own.rights.of_model(model)
        return self._owners[id(form)]

    def _written(self) -> Iterator[tuple[ModelRights, Operation]]:
        """The models whose columns are among the controls, and what is done with their rows."""
        for _, form, field in self._parts.values():
            owner = self._owner(form)
            column = None if owner is None else self._column(owner.model, form, field)
            if owner is not None and column is not None and not column.primary_key:
                adds = isinstance(form, BaseModelForm) and form.instance._state.adding and owner is not self._rights
                yield owner, "create" if adds else "update"

    # What is open.

    def _slot(self, name: str) -> Slot | None:
        controls, form, field = self._parts[name]
        owner, control = self._owner(form), controls[0]
        if owner is None or control.kind == "password":
            return None
        if self._column(owner.model, form, field) is None and self._names_hidden(*_endings(control.name)):
            return None
        if control.kind == "file" and not self.form.is_multipart:
            return None
        found = self._field(owner, form, field)
        if found is None:
            return None
        choices = self._choices(control, found)
        return Slot(name, controls, found, owner, choices)

    def _field(self, owner: ModelRights, form: Any, field: str) -> WritableField | None:
        """The field, if the agent may fill it in."""
        column = self._column(owner.model, form, field)
        if column is not None and column.primary_key:
            return None
        # What write_fields names are columns; the page of an action asks for more.
        is_limited = column is not None or isinstance(form, BaseModelForm)
        declared = owner.ask_hook("get_write_fields", ()) if is_limited else None
        if column is None or column.name == field:
            found = WritableForm(form, [field], owner, declared).fields.get(field)
            is_plain = found is not None and found.related is None and not isinstance(form, BaseModelForm)
            # A form of the page's own may ask for other values than the column has.
            return replace(found, field=None) if found is not None and is_plain else found
        # A column under a name of the page's own.
        is_open = owner.own_column(column.name) is not None and (declared is None or column.name in declared)
        return WritableForm(form, [field], owner).fields.get(field) if is_open and not column.is_relation else None

    def _column(self, model: Any, form: Any, field: str) -> AnyField | None:
        """The column that a field fills. Of a control that is of no known form, the name may hold a number."""
        found = model_field(model, field)
        return found if found is not None or id(form) not in self._of_html else model_field(model, _bare(field))

    def _choices(self, control: Control, field: WritableField) -> Mapping[str, str]:
        if control.is_flag:
            return {}
        if field.related is not None:
            return dict.fromkeys(_visible(field, [value for value in control.options if value][:_MAX_ROWS]), "")
        if field.field is not None:
            return control.options
        return {value: label for value, label in control.options.items() if not self._names_hidden(value, label)}

    def _close_beside_closed(self) -> None:
        """Close what says what becomes of a column that the agent may not fill in, as ``set_cost`` beside ``cost``."""
        columns: dict[str, bool] = {}
        for name, (_, form, field) in self._parts.items():
            owner = self._owner(form)
            column = None if owner is None else self._column(owner.model, form, field)
            if column is not None:
                columns[name] = name in self.open
        closed = {_bare(name) for name, is_open in columns.items() if not is_open}
        for name in self.open.keys() - columns.keys():
            if not closed.isdisjoint(_endings(name)):
                del self.open[name]

    def _names_hidden(self, *names: str) -> bool:
        """Whether one of the names is that of a column that the agent may not read, or that says what users may do."""
        own = self._rights
        columns = filter(None, (model_field(own.model, name) for name in names))
        return any(
            (own.own_column(one.name) is None and one.name not in own.relations) or gives_rights(one) for one in columns
        )

    # What nobody but a person may send.

    def _check_rights(self, *, is_approved: bool) -> None:
        """Raises ToolError where the form holds a column that says what users may do.

        The one place that decides of them: an agent may send such a form where other people approve its answers, and
        write_fields names each such column on it.
        """
        opened = {one.name for slot in self.open.values() for one in slot.controls} if is_approved else set()
        for name, form, field in self._all():
            model = form._meta.model if isinstance(form, BaseModelForm) else self._rights.model
            column = self._column(model, form, field)
            if column is not None and gives_rights(column) and name not in opened:
                raise ToolError(
                    "A person must finish this action: its page says what users may do. Nothing was changed."
                )

    def _all(self) -> Iterator[tuple[str, Any, str]]:
        """Every control of the form, also those that nobody sees, as the form and the field that it is."""
        for controls, form, field in self._parts.values():
            yield from ((one.name, form, field) for one in controls)
        for name in self.form.controls.keys() - OF_LIST:
            yield name, None, _bare(name)

    def _check_required(self) -> None:
        """Raises ToolError where something must be filled in that the agent may not fill in."""
        for name, (controls, form, field) in self._parts.items():
            control = controls[0]
            required = form.fields[field].required or control.is_required
            if name not in self.open and required and not any(filter(None, control.sent)):
                raise ToolError(
                    "A person must finish this action: its page asks for something that agents may not fill in. "
                    "Nothing was changed."
                )


def _may_write_now(rights: Any, owner: ModelRights, operation: Operation) -> bool:
    """Whether it would be allowed with more scopes. Rights are read anew: they depend on the scopes."""
    found = rights.of(owner.rights.site, owner.rights.request).of_label(owner.label)
    return found is not None and access.may_write(found, operation)


def _visible(field: WritableField, values: Iterable[str]) -> list[str]:
    """Those of the rows, by the values that a form has of them, that the agent may see."""
    related, wanted = field.related, list(values)
    if related is None or not wanted:
        return []
    try:
        pairs = {str(pk): str(value) for pk, value in _keys(related, field.key_name, wanted)}
    except (TypeError, ValueError, ValidationError):
        return []
    seen = visible_rows.visible_keys(related, list(pairs))
    shown = {value for pk, value in pairs.items() if pk in seen}
    return [value for value in wanted if value in shown]


def _keys(related: ModelRights, key_name: str, values: Sequence[str]) -> Iterable[tuple[Any, Any]]:
    return related.rows().filter(**{f"{key_name}__in": values}).values_list("pk", key_name)


def _sent_names(widget: Any, name: str) -> list[str]:
    """The names under which a widget sends a field."""
    widget = getattr(widget, "widget", widget)
    match widget:
        case forms.MultiWidget():
            named: Any = widget.widgets_names  # type: ignore[attr-defined]
            return [f"{name}{suffix}" for suffix in named]
        case forms.SelectDateWidget():
            return [f"{name}_{unit}" for unit in ("year", "month", "day")]
        case forms.ClearableFileInput():
            return [name, widget.clear_checkbox_name(name)]
    return [name]


def _form_of(control: Control) -> forms.Form:
    """A form for a control of which only the HTML is known."""
    made: Any = forms.Form()
    choices = list(control.options.items())
    if control.is_flag:
        made.fields[control.name] = forms.BooleanField(required=control.is_required)
    elif control.is_list:
        made.fields[control.name] = forms.MultipleChoiceField(choices=choices, required=control.is_required)
    elif control.kind in ("radio", "select"):
        made.fields[control.name] = forms.ChoiceField(choices=choices, required=control.is_required)
    else:
        cls = _OF_HTML.get(control.kind, forms.CharField)
        made.fields[control.name] = cls(required=control.is_required)
    return made  # type: ignore[no-any-return]


def _endings(name: str) -> Iterator[str]:
    """``cost_net`` and ``net`` of ``order_cost_net``: what a name may say of which column it is."""
    parts = name.rpartition("-")[2].split("_")
    return ("_".join(parts[number:]) for number in range(1, len(parts)))


def _bare(name: str) -> str:
    """The name of a control without its place among others."""
    return _PLACE.sub("", name)
