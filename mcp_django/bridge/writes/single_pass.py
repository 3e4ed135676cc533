"""Sends the form of a row in one pass of the admin's view: nobody opens its page before.

The view is sent nothing. Where it makes its form, an unbound one of the same class is made first, and written as a
browser would, with the values that are given; that is what the view is sent then. So it is with each formset. Every
hook runs that runs when a browser saves, in its order.

Code of the project that reads the data before they are there, or that sees the page and not what is sent, would notice:
for that the page is opened first, as a browser does. See ``sending``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from copy import copy, deepcopy
from datetime import date, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db.models.fields.files import FieldFile

from mcp_django.bridge.resources.fields.errors import Mistakes
from mcp_django.bridge.writes import filling, pages, states
from mcp_django.bridge.writes.exact_forms import made_by, read_exactly
from mcp_django.bridge.writes.fields import WritableInline, add_inline
from mcp_django.bridge.writes.filling import Given, GivenForm
from mcp_django.bridge.writes.form_data import FormData
from mcp_django.bridge.writes.late_data import Late, TooEarly
from mcp_django.bridge.writes.opening import GivenRow, Opened, WhenFilled, check_asks_something, fill_slugs, form_of
from mcp_django.bridge.writes.pages import FormPage
from mcp_django.bridge.writes.restoring import LostPrecision
from mcp_django.core.compat.requests import copy_of

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin


#: Hooks that decide what a page is, and those that see it: what a project does there may change what a browser sends.
_OF_PAGES = (
    "add_view", "change_view", "changeform_view", "_changeform_view", "render_change_form", "get_inline_formsets",
    "_create_formsets",
)  # fmt: skip
#: Hooks that see formsets.
_OF_FORMSETS = (
    "get_formsets_with_inlines", "get_formset_kwargs", "save_related", "save_formset", "construct_change_message",
)  # fmt: skip

#: What a formset is made with where a form is sent, and not where a page is shown.
_SENT = ("data", "files", "save_as_new")

#: Types of values that nobody changes in place.
_WITHOUT_PARTS = (str, bytes, int, float, Decimal, date, time, timedelta, UUID, type(None))


def is_possible(admin: ModelAdmin[Any]) -> bool:
    """Whether the view of a ModelAdmin can be sent its form without a page that was opened before."""
    return _are_of_django(admin, _OF_PAGES)


def can_leave_out(admin: ModelAdmin[Any]) -> bool:
    """Whether no hook of a ModelAdmin would miss a formset of which nothing is asked."""
    return _are_of_django(admin, _OF_FORMSETS)


class Filling:
    """Fills the form of one row, or of a new one, and its formsets, while the view makes them."""

    opened: Opened

    def __init__(self, row: GivenRow, when_filled: WhenFilled, *, leaves_out: bool) -> None:
        """``when_filled`` is called before anything is validated. ``leaves_out``: see ``can_leave_out``."""
        self._row, self._when_filled = row, when_filled
        self._leaves_out = leaves_out and not row.rows
        self._mistakes = Mistakes()
        self.late = Late()
        self._inlines: dict[str, WritableInline] = {}
        self._number_of_formsets = 0

    @property
    def shown_inlines(self) -> Mapping[str, WritableInline]:
        """The inlines whose rows are a part of the row's state: none, where they may be left out."""
        return {} if self._leaves_out else self._inlines

    # Called by the hooks of the twin.

    def fill_form(
        self, twin: Any, request: Any, shown: Iterable[Any], form_class: Any, *sent: Any, **rest: Any
    ) -> None:
        """Write what a browser would send of the page's own form. Called before the view binds it."""
        if self.late.is_begun or not any(map(self.late.is_part, sent)):
            return
        obj = rest.get("instance")
        if obj is None:
            form = form_class(initial=twin.get_changeform_initial_data(request))
        else:
            # What it does to its instance must not be done twice to the row.
            form = form_class(instance=_apart(obj))
        read_exactly(form)
        page = FormPage(form, pages.names_of(form, shown, twin.get_readonly_fields(request, obj)))
        main = form_of(page, self._row.rights, self._row.key)
        given = Given(GivenForm(main, "values"))
        with self._mistakes:
            given.main.values = filling.read_values(main, self._row.values, "values")
        filled = list(fill_slugs(main, given)) if self._row.key is None else []
        self.opened = Opened(page, main, self._inlines, given, filled=filled)
        written = FormData()
        filling.write_form(written, form, page.names, given.main.values, main.fields)
        self.late.write(written)
        twin.mcp_run.lost_precision = LostPrecision(given)

    def formset_class(self, twin: Any, request: Any, formset_class: Any, inline: Any) -> Any:
        """The class of a formset, of which what a browser would send is written before the view binds it."""

        def make(*args: Any, **kwargs: Any) -> Any:
            if self.late.is_part(kwargs.get("data")):
                self._fill_formset(twin, request, formset_class, inline, kwargs)
            return formset_class(*args, **kwargs)

        return made_by(make, formset_class)

    def leaves_out_formsets(self, twin: Any, request: Any, obj: Any) -> bool:
        """Whether no formset is needed: Django's own leave alone what nobody has named."""
        if not self._leaves_out or not self.late.is_begun:
            return False
        return all(map(_is_plain, twin.get_inline_instances(request, None if self._row.key is None else obj)))

    def end(self, formsets: list[Any]) -> None:
        """All forms are made. Raises InvalidQuery with all that cannot be read, and what ``when_filled`` raises."""
        if not self.late.is_begun or len(formsets) != self._number_of_formsets:
            raise TooEarly
        opened = self.opened
        for name in self._row.rows:
            with self._mistakes:
                filling.check_known(name, self._inlines)
        self._mistakes.raise_any()
        check_asks_something(self._row, opened)
        if self._row.key is not None:
            opened.before = states.of_page(opened.page, self.shown_inlines)
        self.late.end()
        self._when_filled(opened)
        # It tells whether there are hidden rows, so it is asked once the new values are counted.
        filling.check_room(self._inlines, opened.given)

    def _fill_formset(
        self, twin: Any, request: Any, formset_class: Any, inline: Any, made_with: Mapping[str, Any]
    ) -> None:
        self._number_of_formsets += 1
        opened = self.opened
        obj = None if self._row.key is None else made_with.get("instance")
        formset = unbound(formset_class, made_with, opened.page.form.instance)
        shown = inline_as_shown(twin, request, obj, formset, inline)
        opened.page.inlines.append(shown)
        known, given = add_inline(self._inlines, shown, opened.main.rights), opened.given
        if known is not None and known.name in self._row.rows:
            with self._mistakes:
                given.rows[known.name] = filling.read_rows(known, self._row.rows[known.name])
        written = FormData()
        filling.write_inline(written, shown, () if known is None else given.rows.get(known.name, ()))
        self.late.write(written, shown.formset.prefix)


def inline_as_shown(twin: Any, request: Any, obj: Any, formset: Any, inline: Any) -> pages.Inline:
    """An inline as the page of an object shows it, or that of a new one."""
    [shown] = twin.get_inline_formsets(request, [formset], [inline], obj)
    return pages.inline_of(shown)


def unbound(formset_class: Any, made_with: Mapping[str, Any], instance: Any) -> Any:
    """A formset as a page shows it. ``made_with``: what it is made with when a form is sent."""
    kept = {name: value for name, value in made_with.items() if name not in _SENT}
    again = {"queryset": kept["queryset"].all()} if "queryset" in kept else {}
    return formset_class(**{**kept, **again, "instance": instance})


def _apart(obj: Any) -> Any:
    """A copy of a row. What is done to its values is not done to those of the row."""
    made = copy_of(obj)
    for field in obj._meta.concrete_fields:
        value = vars(made).get(field.attname)
        if isinstance(value, FieldFile):
            value = vars(made)[field.attname] = copy(value)
            value.instance = made
        elif not isinstance(value, _WITHOUT_PARTS):
            with suppress(Exception):  # A class of a project may refuse it in any way.
                vars(made)[field.attname] = deepcopy(value)
    return made


def _are_of_django(owner: Any, names: Iterable[str]) -> bool:
    """Whether these hooks, of an object or of a class, are those of Django."""
    return all(_is_of_django(owner, name) for name in names)


def _is_of_django(owner: Any, name: str) -> bool:
    classes = owner.__mro__ if isinstance(owner, type) else type(owner).__mro__
    holder = next((cls for cls in classes if name in vars(cls)), None)
    if holder is None or (holder is not owner and name in vars(owner)):
        return False
    # A class that is made by a call has the module of its metaclass.
    home = sys.modules.get(holder.__module__)
    is_there = holder.__module__.startswith("django.") and getattr(home, holder.__name__, None) is holder
    # A project may have put its own into the class of Django.
    written = getattr(vars(holder)[name], "__globals__", {}).get("__name__", holder.__module__)
    return is_there and str(written).startswith("django.")


def _is_plain(inline: Any) -> bool:
    """Whether the formset of an inline does nothing to rows that nobody names, and asks for none."""
    is_djangos = _are_of_django(inline, ("get_formset", "formset", "form", "get_min_num"))
    return is_djangos and not inline.min_num and _are_of_django(inline.model, ("clean", "full_clean"))
