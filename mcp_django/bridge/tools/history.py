"""Writes what an action has done to its rows into the admin's history, beside what people do there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.contrib.admin import ModelAdmin
from django.contrib.auth import get_user_model
from django.db import connections, models, router

from mcp_django.conf import get_conf
from mcp_django.core.db.bounds import BEFORE_STATEMENT
from mcp_django.core.db.column_paths import is_in
from mcp_django.core.hooks import call_hook, hook_of

if TYPE_CHECKING:
    from mcp_django.bridge.tools.action_rows import ChosenRows
    from mcp_django.exchange.requests import MCPRequest

_VERB = re.compile(rf"{BEFORE_STATEMENT.pattern}(\w*)", re.DOTALL)
#: The statements that delete no row. Before any other one, the rows are read.
_DELETE_NOTHING = frozenset(
    {"SELECT", "SHOW", "EXPLAIN", "PRAGMA", "SET", "VALUES", "INSERT", "UPDATE", "SAVEPOINT", "RELEASE", "ROLLBACK"}
)


@dataclass(frozen=True, slots=True)
class _LoggedRow:
    """A row as ``LogEntry.objects.log_actions`` reads it. Its text was made while the row was there."""

    pk: Any
    text: str
    _meta: Any

    def __str__(self) -> str:
        return self.text


class History:
    """The history of the rows of one call of an action.

    It watches the statements of the action. So it reads the texts of rows before they may be deleted, and knows whether
    the action writes history itself.
    """

    def __init__(
        self, admin: ModelAdmin[Any], request: MCPRequest, alias: str, message: str, *, is_kept: bool,
        logs_again: bool = False,
    ) -> None:  # fmt: skip
        self._admin, self._request, self._alias, self._message = admin, request, alias, message
        #: Whether rows are logged that the action has logged too, where its own entry names no agent.
        self._logs_again = logs_again
        #: The database of the history; none where no history is written.
        self.databases: tuple[str, ...] = ()
        self._chosen: ChosenRows
        #: Key → the row as it was before the first statement that may delete rows.
        self._before: dict[Any, tuple[models.Model, _LoggedRow]] | None = None
        #: The last entry before the first one that the action itself wrote.
        self._last_entry: int | None = None
        is_kept = is_kept and get_conf().LOG_ACTIONS and apps.is_installed("django.contrib.admin")
        if is_kept and _has_row(self._request.user):
            self.databases = (router.db_for_write(_log_entry()),)

    @contextmanager
    def watching(self, chosen: ChosenRows) -> Iterator[None]:
        """A context for the run of the action on the rows."""
        self._chosen = chosen
        with ExitStack() as wrappers:
            for name in {self._alias, *self.databases} if self.databases else ():
                wrappers.enter_context(connections[name].execute_wrapper(self))
            yield

    def write(self) -> None:
        """Log the rows that the action did not log itself, in its transaction: as changed, or as deleted if gone."""
        if not self.databases:
            return
        left = {row.pk: row for row in self._chosen.stored(self._alias)}
        logged = self._logged_by_action()
        keys = [key for key in self._chosen.keys if str(key) not in logged]
        self._log_changes([left[key] for key in keys if key in left])
        self._log_deletions([key for key in keys if key not in left])

    # Watching.

    def __call__(
        self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Mapping[str, Any]
    ) -> Any:
        # Drivers also take statements that are not strings.
        sql_text = sql if isinstance(sql, str) else str(sql)
        verb = _VERB.match(sql_text)[1].upper()  # type: ignore[index]
        if verb == "INSERT":
            if self._last_entry is None and _log_entry()._meta.db_table in sql_text:
                self._remember_last_entry()
        elif verb not in _DELETE_NOTHING and self._before is None:
            self._remember_rows()
        return execute(sql, params, many, context)

    def _remember_last_entry(self) -> None:
        self._last_entry = 0
        found = self._entries().aggregate(last=models.Max("pk"))
        self._last_entry = found["last"] or 0

    def _remember_rows(self) -> None:
        self._before = {}
        # The text is made now: it may name other rows, which may be deleted too.
        self._before = {row.pk: (row, _logged_row(row)) for row in self._chosen.stored(self._alias)}

    # Writing.

    def _entries(self) -> Any:
        return _log_entry().objects.using(self.databases[0]).order_by()

    def _logged_by_action(self) -> set[str | None]:
        """The keys of the rows that the action has logged itself, in any way."""
        if self._last_entry is None or self._logs_again:
            return set()
        from django.contrib.admin.models import LogEntry
        from django.contrib.contenttypes.models import ContentType

        kinds = {ContentType.objects.get_for_model(self._admin.model, each).pk for each in (False, True)}
        of_kinds = is_in(LogEntry._meta.get_field("content_type"), kinds)
        entries = self._entries().filter(of_kinds, pk__gt=self._last_entry, user_id=self._request.user.pk)
        return set(entries.values_list("object_id", flat=True))

    def _log_changes(self, rows: list[models.Model]) -> None:
        from django.contrib.admin.models import CHANGE

        if not self._has_hook("log_change"):
            self._log([_logged_row(row) for row in rows], CHANGE)
            return
        for row in rows:
            self._admin.log_change(self._request, row, self._message)

    def _log_deletions(self, keys: list[Any]) -> None:
        from django.contrib.admin.models import DELETION

        before = self._before or {}
        if self._has_hook("log_deletions") or self._has_hook("log_deletion"):
            known: Any = [before[key][0] for key in keys if key in before]
            keys = [key for key in keys if key not in before]
            if known:
                self._admin.log_deletions(self._request, known)
        opts = self._admin.model._meta
        unseen = {key: _LoggedRow(key, f"{opts.verbose_name} {key}", opts) for key in keys if key not in before}
        self._log([before[key][1] if key in before else unseen[key] for key in keys], DELETION)

    def _has_hook(self, name: str) -> bool:
        """Whether the project logs in its own way."""
        return hasattr(ModelAdmin, name) and hook_of(self._admin, name) is not getattr(ModelAdmin, name)

    def _log(self, rows: Any, flag: int) -> None:
        if rows:
            user: Any = self._request.user
            _log_entry().objects.log_actions(user.pk, rows, flag, self._message)


def _log_entry() -> Any:
    from django.contrib.admin.models import LogEntry

    return LogEntry


def _has_row(user: Any) -> bool:
    """Whether the user has a row in the database: each entry must name one."""
    return isinstance(user, get_user_model()) and user.pk is not None and not user._state.adding


def _logged_row(row: models.Model) -> _LoggedRow:
    text = call_hook(lambda: str(row), f"{row._meta.verbose_name} {row.pk}", row._meta.label, "__str__")
    return _LoggedRow(row.pk, text, row._meta)
