"""What the endpoint shows a user: asked with its own tools, as an agent would."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from django.db import models

from mcp_django.bridge.sites import MCPSite
from mcp_django.test import MCPClient, ProtocolError

_PAGE = 100


@dataclass
class Answered:
    """What the endpoint shows a user of one model."""

    #: Names of the columns of a page, and of those that a page has only when they are named.
    columns: set[str] = field(default_factory=set)
    #: The keys of the rows, as text.
    keys: set[str] = field(default_factory=set)
    #: The names in the record of each row.
    records: dict[str, set[str]] = field(default_factory=dict)
    #: The model that each relation to many rows leads to.
    relations: dict[str, str] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    def names_of(self, key: str) -> set[str]:
        return (self.columns if key in self.keys else set()) | self.records.get(key, set())


class Agent:
    """A client of a site, as a user."""

    def __init__(self, site: MCPSite, user: Any) -> None:
        self.client = MCPClient(user, ["read"], site=site, raise_exceptions=False)
        #: All that was ever answered, as text.
        self.seen: list[str] = []

    def models(self) -> set[str]:
        """The labels of the models that describe_models lists."""
        listed = self._ask("describe_models") or {}
        pages = [listed, *(self._ask("describe_models", app=app) for app in listed.get("apps", ()))]
        return {label for page in pages for label in page.get("models", ())}

    def look_at(self, model: type[models.Model], keys: list[str]) -> Answered | None:
        """What is answered about a model, with the records of these rows; None if there is no such model."""
        label = f"{model._meta.app_label.lower()}.{model._meta.model_name}"
        described = self._ask("describe_models", model=label)
        if described is None:
            return None
        found = Answered(relations=dict(described.get("relations", {})))
        named = [*described["fields"], *described.get("computed", ())]
        for asked in ({}, *({"fields": named[at : at + 10]} for at in range(0, len(named), 10))):
            page = self._ask("find_records", model=label, limit=_PAGE, **asked)
            if page is None:
                found.failed.append(f"{label}: {self.refused}")
                continue
            found.columns.update(page["columns"])
            found.keys.update(str(row[0]) for row in page["rows"])
        for key in {*keys, *found.keys}:
            record = self._ask("get_record", model=label, id=key)
            if record is not None:
                found.records[key] = set(record)
        return found

    def related(self, model: type[models.Model], relation: str, names: list[str]) -> set[str]:
        """Those of the names that the rows have to which a relation leads."""
        label = f"{model._meta.app_label.lower()}.{model._meta.model_name}"
        paths = {name: f"{relation}__{name}" for name in names}
        return {
            name
            for name, path in paths.items()
            if self._ask("find_records", model=label, limit=_PAGE, fields=[path]) is not None
        }

    def _ask(self, tool: str, **arguments: Any) -> Any:
        try:
            result = self.client.call(tool, raise_on_error=False, **arguments)
        except ProtocolError as error:
            if error.reason != "TOOL_NOT_FOUND":  # There is none for users who may see no model.
                raise
            self.refused = str(error)
            return None
        if result.is_error:
            self.refused = result.text
            return None
        self.seen.append(json.dumps(result.structured))
        return result.structured
