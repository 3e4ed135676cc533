"""Emptying the test database after a test, but for what Django would only make again: that takes longest of all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from django.contrib.auth.management import create_permissions
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.management import create_contenttypes
from django.contrib.contenttypes.models import ContentType
from django.db import DEFAULT_DB_ALIAS
from django.db.models.signals import post_migrate

_MODELS = (Permission, ContentType)


class KeptRows:
    """The permissions and content types as ``migrate`` has made them, which a flush leaves alone.

    Those that a test has made go. If a test has deleted others, everything is done from then on as Django does it.
    """

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._last = {model: model.objects.order_by("-pk").values_list("pk", flat=True)[0] for model in _MODELS}
        self._count = self._count_now()
        self._is_whole = True
        self._flush = connection.ops.sql_flush
        connection.ops.sql_flush = self._sql_flush
        post_migrate.disconnect(dispatch_uid="django.contrib.auth.management.create_permissions")
        post_migrate.disconnect(create_contenttypes)
        for make in (create_permissions, create_contenttypes):
            post_migrate.connect(self._unless_kept(make), weak=False)

    def _count_now(self) -> list[int]:
        return [model.objects.filter(pk__lte=last).count() for model, last in self._last.items()]

    def _sql_flush(self, style: Any, tables: Sequence[str], **options: Any) -> list[str]:
        ContentType.objects.clear_cache()
        self._is_whole = self._is_whole and self._count_now() == self._count
        if not self._is_whole:
            return list(self._flush(style, tables, **options))
        kept = {model._meta.db_table: last for model, last in self._last.items()}
        quote = self._connection.ops.quote_name
        return [
            *self._flush(style, [table for table in tables if table not in kept], **options),
            *(f"DELETE FROM {quote(table)} WHERE {quote('id')} > {last}" for table, last in kept.items()),
        ]

    def _unless_kept(self, make: Callable[..., Any]) -> Callable[..., None]:
        def made(app_config: Any, using: str = DEFAULT_DB_ALIAS, **kwargs: Any) -> None:
            if using != self._connection.alias or not self._is_whole:
                make(app_config, using=using, **kwargs)

        return made
