"""Makes the same change twice from the same rows, by a browser and as an agent, and compares all that came of it."""

from __future__ import annotations

import datetime
import re
import shutil
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from django.apps import apps
from django.contrib.admin import AdminSite, helpers, options
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import quote
from django.contrib.contenttypes.fields import GenericForeignKey
from django.contrib.contenttypes.models import ContentType
from django.core.cache import cache
from django.db import models, transaction
from django.db.models.fields.files import FieldFile
from django.urls import reverse
from django.utils import timezone

from mcp_django.bridge.sites import MCPSite
from tests.bridge.writes.lab import driving
from tests.bridge.writes.lab.browser import Browser, Typed
from tests.bridge.writes.lab.recording import Recording

Model = type[models.Model]
#: The words by which the history names an agent.
_AGENT = re.compile(r"\s*\(?[Bb]y (an )?agent .*")

#: Functions of forms that answer a question, and are asked again and again.
_WITHOUT_EFFECT = (".has_changed", ".is_valid", ".hand_clean_DELETE")


class LabSite(AdminSite):
    """Its pages have no list of all models, for which a page asks each ModelAdmin about permissions."""

    def get_app_list(self, request: Any, app_label: str | None = None) -> list[Any]:
        return []


@dataclass
class Change:
    """One change, in the words of an agent and as a person types it."""

    model: Model
    #: The row that is changed; None makes a new one.
    row: models.Model | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    rows: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    #: By the names of the inputs, where they are not those of the values.
    typed: Typed | None = None


@dataclass
class Outcome:
    """What is there after a change, with new keys and the present time as words, so that two outcomes are alike."""

    rows: dict[str, list[dict[str, Any]]]
    log: list[dict[str, Any]]
    files: dict[str, bytes]
    signals: Counter[str] = field(default_factory=Counter)
    #: How often each function ran: as the page was opened, and as it was sent.
    opening: Counter[str] = field(default_factory=Counter)
    writing: Counter[str] = field(default_factory=Counter)

    def of(self, model: Model) -> list[dict[str, Any]]:
        return self.rows[model._meta.label_lower]


@dataclass
class Laboratory:
    """An admin and the endpoint over it, with what is compared after a change."""

    site: MCPSite
    user: Any
    media: Path
    #: The apps whose rows are compared.
    app_labels: Sequence[str] = ("lab",)
    #: Folders of further code whose calls are counted.
    folders: Sequence[str] = ()
    #: Functions that are not compared by how often they ran.
    uncounted: frozenset[str] = frozenset()
    #: Whether a preview may write what is rolled back.
    previews_may_write: bool = False
    #: How many changes were made in a single pass, and how many needed their page before.
    single: Counter[bool] = field(default_factory=Counter)

    def same(self, model: Model, row: models.Model | None = None, **given: Any) -> Outcome:
        """Make the change in both ways. Fails where they differ, or where nothing was written."""
        change, browser, before = Change(model, row, **given), self.browser, _Before.now(self)
        person = self._outcome(before, lambda: self._by_person(browser, change))
        agent = self._compared(before, person, lambda: self._by_agent(change))
        self._in_a_single_pass(before, person, change)
        return agent

    def _in_a_single_pass(self, before: _Before, person: Outcome, change: Change) -> None:
        """Make the change as one of many is made. Fails where it differs from what a person has made."""
        alone = self._outcome(before, lambda: self._by_sender(change))
        _assert_same_result(alone, person)
        self.single[alone.opening == Counter()] += 1
        most = person.opening + person.writing
        for name, count in person.writing.items():
            if not _is_of_django(name) and not name.endswith(_WITHOUT_EFFECT) and name not in self.uncounted:
                calls = alone.opening[name] + alone.writing[name]
                assert count <= calls <= most[name], f"{name}: {calls} times, by a person {count} to {most[name]}"

    def same_deletion(self, *rows: models.Model) -> Outcome:
        """Delete the rows in both ways. Fails where they differ."""
        browser, model = self.browser, type(rows[0])
        url, keys = self.url(model, "changelist"), [row.pk for row in rows]
        if len(rows) == 1:
            person = partial(browser.delete, self.url(model, "delete", keys[0]))
        else:
            person = partial(browser.delete_selected, url, keys)
        return self._same(person, partial(self._deleted_by_agent, rows))

    def _same(self, by_person: Callable[[], object], by_agent: Callable[[], object]) -> Outcome:
        before = _Before.now(self)
        return self._compared(before, self._outcome(before, by_person), by_agent)

    def _compared(self, before: _Before, person: Outcome, by_agent: Callable[[], object]) -> Outcome:
        agent = self._outcome(before, by_agent)
        _assert_same_result(agent, person)
        _assert_alike("calls of the page", self._counted(agent.opening), self._counted(person.opening))
        _assert_alike("calls of the sent form", self._counted(agent.writing), self._counted(person.writing))
        assert (agent.rows, agent.files) != (before.rows, before.files), "nothing was written"
        return agent

    def refused(self, model: Model, row: models.Model | None = None, **given: Any) -> driving.Refusal:
        """What the agent is told of a change that is refused. Fails if it is made, or if anything was written."""
        before, change = _Before.now(self), Change(model, row, **given)
        told, alone = (_refusal_of(partial(act, change)) for act in (self._by_agent, self._by_sender))
        assert alone.errors == told.errors
        after = before.outcome(self)
        assert not after.log
        assert after.rows == before.rows
        assert after.files == before.files
        return told

    def everything(self) -> tuple[Any, ...]:
        """All rows, files and entries of the history."""
        now = _Before.now(self)
        return now.rows, now.files, now.log

    def _counted(self, calls: Counter[str]) -> dict[str, int]:
        return {
            name: count
            for name, count in calls.items()
            if name not in self.uncounted and not name.endswith(_WITHOUT_EFFECT)
        }

    def _outcome(self, before: _Before, act: Callable[[], object]) -> Outcome:
        cache.clear()  # Of rows that were rolled back.
        with transaction.atomic():
            with Recording(self.folders) as recorded:
                act()
            found = before.outcome(self)
            found.opening, found.writing = recorded.opening.calls, recorded.writing.calls
            found.signals = recorded.writing.signals
            transaction.set_rollback(True)
        before.put_files_back(self.media)
        others = [view.signals for view in recorded.views if view is not recorded.writing]
        if self.previews_may_write:
            others = []
        assert not any([recorded.outside, *others]), "signals were sent by more than the view that writes"
        return found

    def _by_person(self, browser: Browser, change: Change) -> None:
        typed = change.typed if change.typed is not None else change.values
        page = ("add",) if change.row is None else ("change", change.row.pk)
        browser.save(self.url(change.model, *page), typed)

    def _by_agent(self, change: Change) -> None:
        given = {"values": dict(change.values), "rows": {name: list(rows) for name, rows in change.rows.items()}}
        if change.row is None:
            driving.apply(self.site, self.user, "create", model=change.model._meta.label_lower, **given)
        else:
            key = str(change.row.pk)
            driving.apply(self.site, self.user, "update", model=change.model._meta.label_lower, id=key, **given)

    def _by_sender(self, change: Change) -> None:
        given = {"values": dict(change.values), "rows": {name: list(rows) for name, rows in change.rows.items()}}
        label, key = change.model._meta.label_lower, None if change.row is None else str(change.row.pk)
        with transaction.atomic():
            driving.send(self.site, self.user, label, key, writes=True, **given)

    def _deleted_by_agent(self, rows: Sequence[models.Model]) -> None:
        label, ids = rows[0]._meta.label_lower, [str(row.pk) for row in rows]
        driving.apply(self.site, self.user, "delete", model=label, ids=ids)

    @cached_property
    def browser(self) -> Browser:
        return Browser(self.user)

    def url(self, model: Model, page: str, *key: Any) -> str:
        [admin_site] = self.site.admin_sites
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}"
        return reverse(name, args=[quote(one) for one in key], current_app=admin_site.name)


@dataclass
class _Before:
    """What was there before a change."""

    keys: dict[Model, set[Any]]
    log: set[Any]
    rows: dict[str, list[dict[str, Any]]]
    files: dict[str, bytes]
    time: datetime.datetime

    @classmethod
    def now(cls, lab: Laboratory) -> _Before:
        keys = {model: set(model._base_manager.values_list("pk", flat=True)) for model in _tables(lab.app_labels)}
        # Widgets have no room for less than a second.
        time = timezone.now().replace(microsecond=0)
        made = cls(keys, set(LogEntry.objects.values_list("pk", flat=True)), {}, _files(lab.media), time)
        made.rows = made._rows()
        return made

    def outcome(self, lab: Laboratory) -> Outcome:
        return Outcome(self._rows(), self._log(), _files(lab.media))

    def put_files_back(self, media: Path) -> None:
        shutil.rmtree(media, ignore_errors=True)
        for name, content in self.files.items():
            path = media / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def _rows(self) -> dict[str, list[dict[str, Any]]]:
        names = _Names(self)
        return {model._meta.label_lower: list(names.rows_of(model)) for model in self.keys}

    def _log(self) -> list[dict[str, Any]]:
        """The new entries of the history, in the order of their rows."""
        names = _Names(self)
        found = [
            {
                "user": entry.user_id,
                "action": entry.action_flag,
                "model": str(entry.content_type),
                "key": names.of_text(entry.content_type, entry.object_id),
                "row": entry.object_repr,
                "message": _AGENT.sub("", entry.get_change_message()),
            }
            for entry in LogEntry.objects.exclude(pk__in=self.log).select_related("content_type")
        ]
        return sorted(found, key=lambda entry: str(entry["key"]))


class _Names:
    """Words for what differs between two outcomes that are alike: keys of new rows, and the present time."""

    def __init__(self, before: _Before) -> None:
        self._before = before
        self._new: dict[Model, dict[Any, str]] = {}

    def of_key(self, model: Any, key: Any) -> Any:
        """The key of a row that was there, or ``new 0``, ``new 1`` in the order of their keys."""
        root = _root(model)
        if key is None or root not in self._before.keys or key in self._before.keys[root]:
            return key
        if root not in self._new:
            found = (
                root._base_manager.exclude(pk__in=self._before.keys[root]).order_by("pk").values_list("pk", flat=True)
            )
            self._new[root] = {each: f"new {number}" for number, each in enumerate(found)}
        return self._new[root].get(key, key)

    def of_text(self, content_type: ContentType | None, text: Any) -> Any:
        model = None if content_type is None else content_type.model_class()
        if model is None or text is None:
            return text
        return self.of_key(model, model._meta.pk.to_python(text))

    def rows_of(self, model: Model) -> Iterator[dict[str, Any]]:
        rows = [self._named(model, row) for row in model._base_manager.order_by("pk")]
        # The order in which links are made means nothing.
        yield from sorted(rows, key=repr) if model._meta.auto_created else rows

    def _named(self, model: Model, row: Any) -> dict[str, Any]:
        found = {one.attname: self._value(one, getattr(row, one.attname)) for one in model._meta.concrete_fields}
        if model._meta.auto_created:
            found.pop(model._meta.pk.attname)
        for one in model._meta.private_fields:
            if isinstance(one, GenericForeignKey):
                content_type = ContentType.objects.get_for_id(getattr(row, f"{one.ct_field}_id"))
                found[one.fk_field] = self.of_text(content_type, found[one.fk_field])
        return found

    def _value(self, field: Any, value: Any) -> Any:
        if field.primary_key and not field.is_relation:
            return self.of_key(field.model, value)
        if field.is_relation and field.target_field.primary_key:
            return self.of_key(field.related_model, value)
        if isinstance(value, FieldFile):
            return value.name
        if isinstance(value, datetime.datetime) and timezone.is_aware(value) and value >= self._before.time:
            return "now"
        if isinstance(value, str):
            return _AGENT.sub("", value)
        return "a new UUID" if isinstance(value, uuid.UUID) and field.has_default() else value


def _refusal_of(act: Callable[[], object]) -> driving.Refusal:
    try:
        act()
    except driving.Refusal as error:
        return error
    raise AssertionError("the change was made")


def _is_of_django(name: str) -> bool:
    """Whether a function is one of the classes of the admin."""
    return hasattr(options, name.partition(".")[0]) or hasattr(helpers, name.partition(".")[0])


def _assert_same_result(agent: Outcome, person: Outcome) -> None:
    _assert_alike("rows", agent.rows, person.rows)
    _assert_alike("files", agent.files, person.files)
    _assert_alike("history", dict(enumerate(agent.log)), dict(enumerate(person.log)))
    _assert_alike("signals", agent.signals, person.signals)


def _assert_alike(what: str, agent: Mapping[Any, Any], person: Mapping[Any, Any]) -> None:
    names = sorted(agent.keys() | person.keys())
    found = [name for name in names if agent.get(name) != person.get(name)]
    told = [f"{name}: {agent.get(name)!r} by an agent, {person.get(name)!r} by a person" for name in found]
    assert not told, "\n".join([f"different {what}:", *told])


def _root(model: Any) -> Model:
    """The table whose key the rows of a model have."""
    key = model._meta.concrete_model._meta.pk
    return _root(key.related_model) if key.is_relation else model._meta.concrete_model


def _tables(app_labels: Iterable[str]) -> list[Model]:
    found = [
        model for label in app_labels for model in apps.get_app_config(label).get_models(include_auto_created=True)
    ]
    return [model for model in found if not model._meta.proxy and model._meta.managed]


def _files(media: Path) -> dict[str, bytes]:
    return {str(path.relative_to(media)): path.read_bytes() for path in media.rglob("*") if path.is_file()}
