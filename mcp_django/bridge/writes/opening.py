"""Opens the form of a row, or of a new one, with what of it an agent may fill in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django.utils.text import slugify

from mcp_django.bridge.resources.fields.errors import InvalidQuery
from mcp_django.bridge.writes import access, filling, form_errors, pages, states
from mcp_django.bridge.writes.fields import WritableForm, WritableInline, inlines_of
from mcp_django.bridge.writes.form_errors import refusals
from mcp_django.exceptions import ToolError
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.bridge.resources.policy.policy import ModelRights
    from mcp_django.bridge.writes.filling import Given
    from mcp_django.bridge.writes.pages import FormPage
    from mcp_django.bridge.writes.states import State


@dataclass(frozen=True)
class GivenRow:
    """What an agent gives for a row, or without a key for a new one."""

    #: What may be read of the row.
    rights: ModelRights
    key: Any
    values: JSON
    #: Rows of inlines, by the names of these.
    rows: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Opened:
    """The form of a row, or of a new one, with what an agent gives for it."""

    page: FormPage
    main: WritableForm
    inlines: Mapping[str, WritableInline]
    given: Given
    #: The row as its form shows it; None for a new one.
    before: State | None = None
    #: What the scripts of the page would fill in.
    filled: list[JSON] = field(default_factory=list)


#: Is called with a form once all that is given for it is read, and before anything is validated.
WhenFilled = Callable[[Opened], object]


def check_asks_something(row: GivenRow, opened: Opened) -> None:
    """Raises InvalidQuery for a row that is there, and of which nothing is asked."""
    if row.key is not None and not row.values and not any(opened.given.rows.values()):
        names = list(opened.main.fields)
        raise InvalidQuery.one("values", f"give at least one of {', '.join(names[:20])}.")


def open_and_read(row: GivenRow) -> Opened:
    """Open the page and read what is given for it. Raises InvalidQuery and ToolError."""
    page, main, inlines = open_form(row.rights, row.key)
    if row.key is not None and "update" in page.refused:
        raise ToolError(form_errors.FORBIDDEN, reason="NO_PERMISSION")
    given = filling.read(main, inlines, row.values, row.rows)
    filled = list(fill_slugs(main, given)) if row.key is None else []
    opened = Opened(page, main, inlines, given, filled=filled)
    check_asks_something(row, opened)
    if row.key is not None:
        opened.before = states.of_page(page, inlines)
    return opened


def open_form(rights: ModelRights, key: Any) -> tuple[FormPage, WritableForm, Mapping[str, WritableInline]]:
    """The page of a row, or of a new one, and what of it may be filled in. Raises ToolError."""
    request = rights.rights.request
    with refusals(rights, [key]):
        page = pages.open_page(access.admin_of(rights), request, key)
    main = form_of(page, rights, key)
    return page, main, inlines_of(page, main.rights)


def form_of(page: FormPage, rights: ModelRights, key: Any) -> WritableForm:
    """What of the page's own form may be filled in."""
    if key is None:
        # The view has asked the project, without a row, what the form of a new one shows.
        rights = rights.of_new_row(page.names)
    return WritableForm(page.form, page.names, rights, rights.ask_hook("get_write_fields", ()))


def fill_slugs(main: WritableForm, given: Given) -> Iterator[JSON]:
    """Fill in the slugs of a new row that nobody has named, as a script of the page does (``prepopulated_fields``)."""
    named, request = given.main.values, main.rights.rights.request
    for name, sources in access.admin_of(main.rights).get_prepopulated_fields(request, None).items():
        slug = main.fields.get(name)
        if slug is None or name in named or slug.bound.initial:
            continue
        form_field: Any = slug.bound.field
        words = " ".join(str(named[source]) for source in sources if named.get(source))
        text = slugify(words, allow_unicode=getattr(form_field, "allow_unicode", False))
        if made := text[: getattr(form_field, "max_length", None)].strip("-"):
            named[name] = made
            yield {"field": f"values.{name}", "note": f"filled in as the page does: {made!r:.100}"}
