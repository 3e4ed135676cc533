"""Compares what was given for the forms of a page with what they have read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ValidationError

from mcp_django.bridge.resources.fields.errors import InvalidQuery, Mistakes
from mcp_django.bridge.writes import values
from mcp_django.exceptions import ToolError
from mcp_django.types import JSON

if TYPE_CHECKING:
    from mcp_django.bridge.writes.filling import Given
    from mcp_django.bridge.writes.twin import ViewRun


def adjustments(given: Given, run: ViewRun) -> list[JSON]:
    """``{"field", "note"}`` of each value that the forms read differently. Raises ToolError for what is lost."""
    mistakes, found = Mistakes(), list[JSON]()
    forms = {str(form.prefix): form for formset in run.formsets for form in formset.forms}
    for one in given.forms:
        form = run.form if one.index is None else forms.get(str(one.form.form.prefix))
        for name, value in one.values.items() if form is not None else ():
            with mistakes:
                found += _adjusted(f"{one.place}.{name}", one.form.fields[name], form, value)
    if mistakes.errors:
        raise ToolError("The form of the admin would store something else. Nothing was changed.", mistakes.errors)
    return found


def _adjusted(place: str, known: Any, form: Any, value: Any) -> Iterator[JSON]:
    try:
        said = values.adjustment(replace(known, bound=form[known.name]), value)
    except ValidationError as error:
        raise InvalidQuery.one(place, f"{error.messages[0]}.") from None
    if said is not None:
        yield {"field": place, "note": said}
