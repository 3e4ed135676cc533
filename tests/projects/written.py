"""The outcomes of creating and changing rows: by an agent, and by a person who types the same into the admin's form."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Container, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from django.contrib.admin import ModelAdmin
from django.db import models
from django.urls import NoReverseMatch

from mcp_django.bridge.sites import MCPSite
from mcp_django.models import Change, Tool
from mcp_django.test import MCPClient, ProtocolError, ToolResult
from tests.projects.forms import one_way_of_writing, page_url, undone
from tests.projects.measure import NOT_MEASURED
from tests.projects.rendered import Browser
from tests.projects.rows import Factory, key_of
from tests.projects.submitted import Submission, submitted

#: Texts of the factory have a mark, in which this is the first letter. A row that is written has another one.
_MARK, _OTHER = "qz", "qy"
#: What is stored of a row, by its columns and links; or why it is refused: the names of fields, or a sentence.
Outcome = Mapping[str, Any] | frozenset[str]
#: The refusals of a person: there is no form, it fails, and it is saved without a row.
_NO_FORM, _FAILS, _NO_ROW = (frozenset([one]) for one in ("no form", "the page fails", "no row"))
_INLINES = frozenset(["the rows of inlines"])
#: What an agent is told of what is wrong beside the fields that it may write.
_ELSEWHERE = "values"


@dataclass
class Written:
    """The differences of one site: a row is copied, and a row gets other texts."""

    site: MCPSite
    user: Any
    factory: Factory
    #: How often each operation was tried.
    tried: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        [admin_site] = self.site.admin_sites
        self._client = Browser(admin_site, self.user).client
        self._agent = MCPClient(self.user, ["read", "write"], site=self.site, raise_exceptions=False)
        for name in ("describe_form", "create_record", "update_record"):
            Tool.objects.update_or_create(site=self.site.name, name=name, defaults={"enabled": True})

    def lines(self) -> Iterator[str]:
        with one_way_of_writing(), undone():
            # Those of the factory are no changes that anybody has proposed.
            Change.objects.all().delete()
            for model, admin in self.site.model_admins.items():
                row = next(iter(self.factory.rows_of(model)), None)
                is_measured = model._meta.app_label not in NOT_MEASURED and model._meta.label_lower in self.site.models
                if row is not None and is_measured:
                    yield from self._differences(admin, row)

    def _differences(self, admin: ModelAdmin[Any], row: models.Model) -> Iterator[str]:
        typed = self._page(admin, row) or {}
        for operation, place in (("create", None), ("update", row)):
            offered = self._values(admin, row, place)
            values = {name: value for name, value in (offered or {}).items() if _is_typed(name, typed)}
            if place is not None and offered is not None and not values:
                continue  # There is nothing that an agent may change.
            page = self._page(admin, place)
            # A person types what the agent gives.
            filled = {name: [_changed(one) for one in texts] for name, texts in typed.items() if _is_of(name, values)}
            with undone():
                person = self._by_person(admin, place, None if page is None else {**page, **filled})
            with undone():
                agent = self._by_agent(admin, operation, row, values)
            self.tried[operation] += 1
            self.tried[f"{operation} by both"] += not (isinstance(person, frozenset) or isinstance(agent, frozenset))
            for what in _differing(person, agent, values):
                yield f"{self.site.name} {admin.opts.label_lower}: {operation}: {what}"

    def _values(
        self, admin: ModelAdmin[Any], row: models.Model, place: models.Model | None
    ) -> Mapping[str, Any] | None:
        """What an agent reads of a row and may write into a form, with other texts; None where it is shown no form.

        ``place``: the row of the form.
        """
        model, key = {"model": admin.opts.label_lower}, {"id": key_of(row)}
        record, form = (
            self._ask("get_record", **model, **key),
            self._ask("describe_form", **model, **(key if place else {})),
        )
        if record.is_error or form.is_error or "fields" not in form.structured:
            return None
        written = form.structured["fields"]
        files = {one.name for one in row._meta.concrete_fields if isinstance(one, models.FileField)}
        found = {name: value for name, value in record.structured.items() if name in written and name not in files}
        return {name: _changed(value) for name, value in found.items() if value is not None}

    def _page(self, admin: ModelAdmin[Any], row: models.Model | None) -> Submission | None:
        """What a browser would send of the page; None where there is no form."""
        try:
            response = self._client.get(page_url(admin, row))
        except NoReverseMatch:
            return None
        return submitted(response.content.decode()) if response.status_code == HTTPStatus.OK else None

    def _by_person(self, admin: ModelAdmin[Any], row: models.Model | None, typed: Submission | None) -> Outcome:
        if typed is None:
            return _NO_FORM
        before = _keys(admin.model)
        response: Any = self._client.post(page_url(admin, row), typed)
        if response.status_code == HTTPStatus.FOUND:
            return _stored(admin.model, before, row)
        if response.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return _FAILS
        context = getattr(response, "context_data", None) or {}
        if "adminform" not in context:
            return _NO_FORM
        return frozenset(context["adminform"].form.errors) or _INLINES

    def _by_agent(
        self, admin: ModelAdmin[Any], operation: str, row: models.Model, values: Mapping[str, Any]
    ) -> Outcome:
        model, tool = admin.model, f"{operation}_record"
        given = {"model": admin.opts.label_lower, "values": values}
        if operation == "update":
            given["id"] = key_of(row)
        before = _keys(model)
        told = self._ask(tool, **given)
        if not told.is_error:
            told = self._ask(tool, **given, confirm=told.structured["confirm"])
        if not told.is_error:
            return _stored(model, before, row if operation == "update" else None)
        names = {error["field"].removeprefix("values.") for error in told.errors} or {told.text}
        return _INLINES if all(name.startswith("rows.") for name in names) else frozenset(names)

    def _ask(self, tool: str, **given: Any) -> ToolResult:
        try:
            return self._agent.call(tool, raise_on_error=False, **given)
        except ProtocolError as error:  # There is no such tool where nothing can be written.
            return ToolResult([{"type": "text", "text": error.message}], is_error=True)


def _changed(value: Any) -> Any:
    """The value with another mark in each text."""
    if isinstance(value, str):
        return value.replace(_MARK, _OTHER)
    if isinstance(value, list):
        return [_changed(one) for one in value]
    return {name: _changed(one) for name, one in value.items()} if isinstance(value, dict) else value


def _is_typed(name: str, typed: Submission) -> bool:
    """Whether the page has an input for a field, or for a part of it."""
    return any(_is_of(given, (name,)) for given in typed)


def _is_of(name: str, fields: Container[str]) -> bool:
    """Whether an input of the form is that of one of these fields, or of a part of it."""
    return name in fields or re.sub(r"_\d$", "", name) in fields


def _keys(model: type[models.Model]) -> list[Any]:
    """No set: a key may be an object that has no hash."""
    return list(model._base_manager.values_list("pk", flat=True))


def _stored(model: type[models.Model], before: Collection[Any], row: models.Model | None) -> Outcome:
    """The row, or the one that was not there before."""
    key = row.pk if row is not None else next((key for key in _keys(model) if key not in before), None)
    found = model._base_manager.filter(pk=key).first()
    if found is None:
        return _NO_ROW
    # What nobody types is made anew each time.
    columns = [one for one in found._meta.concrete_fields if one.editable and not one.primary_key]
    values = {one.attname: getattr(found, one.attname) for one in columns}
    links = {one.name: set(getattr(found, one.name).values_list("pk", flat=True)) for one in found._meta.many_to_many}
    return {**{name: str(value) for name, value in values.items()}, **links}


def _differing(person: Outcome, agent: Outcome, values: Mapping[str, Any]) -> Iterator[str]:
    """``values``: those that the agent gives, whose names it is told."""
    if isinstance(person, frozenset) and isinstance(agent, frozenset):
        if person in (_NO_FORM, _FAILS, _NO_ROW):
            return
        told = agent - {_ELSEWHERE}
        if told != person & {*values, *told} or not (told or _ELSEWHERE in agent):
            yield f"refused for {_names(agent)}, in a browser for {_names(person)}"
    elif isinstance(agent, frozenset):
        yield f"refused for {_names(agent)}, in a browser made"
    elif isinstance(person, frozenset):
        yield f"made, in a browser refused for {_names(person)}"
    else:
        names = [name for name in sorted(person.keys() | agent.keys()) if person.get(name) != agent.get(name)]
        yield from (f"{name} is stored otherwise" for name in names)


def _names(found: frozenset[str]) -> str:
    return ", ".join(sorted(found))
