"""Hears what leaves something behind: statements that write, files, mails, entries of a cache, and callbacks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, ClassVar

from django.core import mail
from django.core.cache.backends.locmem import LocMemCache
from django.core.files.storage import FileSystemStorage
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

_READING = re.compile(r"\W*(select|savepoint|release|rollback|explain|pragma|show|set)\b", re.IGNORECASE)


class Heard:
    """What was left behind, in words."""

    everything: ClassVar[list[str]] = []

    @classmethod
    def hear(cls, what: str) -> None:
        cls.everything.append(what)


class HeardStorage(FileSystemStorage):
    def save(self, name: Any, content: Any, max_length: Any = None) -> str:
        Heard.hear("a file was saved")
        return super().save(name, content, max_length)

    def delete(self, name: str) -> None:
        Heard.hear("a file was deleted")
        super().delete(name)


class HeardCache(LocMemCache):
    def set(self, *args: Any, **kwargs: Any) -> None:
        Heard.hear("the cache was written")
        super().set(*args, **kwargs)

    def add(self, *args: Any, **kwargs: Any) -> bool:
        Heard.hear("the cache was written")
        return super().add(*args, **kwargs)

    def incr(self, *args: Any, **kwargs: Any) -> int:
        Heard.hear("the cache was written")
        return super().incr(*args, **kwargs)


#: The settings with which files, mails and entries of a cache are heard.
SETTINGS: dict[str, Any] = {
    "STORAGES": {
        "default": {"BACKEND": "tests.bridge.writes.lab.tripwires.HeardStorage"},
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    },
    "CACHES": {"default": {"BACKEND": "tests.bridge.writes.lab.tripwires.HeardCache"}},
    # Django asks for it from 6.1 on.
    "MAILERS": {"default": {"BACKEND": "django.core.mail.backends.locmem.EmailBackend"}},
}


@contextmanager
def tripwires() -> Iterator[list[str]]:
    """A list of what is left behind within the block. What a savepoint of the block takes back is not."""
    Heard.everything = heard = []
    sent = len(mail.outbox)
    on_commit = BaseDatabaseWrapper.on_commit

    def hear_callback(self: Any, *args: Any, **kwargs: Any) -> None:
        heard.append("a callback waits for the commit")
        on_commit(self, *args, **kwargs)

    BaseDatabaseWrapper.on_commit = hear_callback  # type: ignore[method-assign]
    try:
        with ExitStack() as stack:
            for connection in connections.all():
                stack.enter_context(connection.execute_wrapper(_listening(connection, heard)))
            yield heard
    finally:
        BaseDatabaseWrapper.on_commit = on_commit  # type: ignore[method-assign]
    heard += ["a mail was sent"] * (len(mail.outbox) - sent)


def _listening(connection: Any, heard: list[str]) -> Callable[..., Any]:
    depth = len(connection.savepoint_ids)

    def execute(run: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if not _READING.match(sql) and len(connection.savepoint_ids) <= depth:
            heard.append(f"a statement has written: {sql[:100]}")
        return run(sql, params, many, context)

    return execute
