"""Requests that no handler of Django's has made, and what its responses and URL patterns hold."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

from django.contrib.messages.storage.base import BaseStorage, Message
from django.http import HttpRequest, QueryDict
from django.http.response import HttpResponseBase

#: What Django's own constructor sets, but for what is made when a hook asks for it.
_MADE_LATE = ("GET", "POST", "COOKIES", "FILES")
_BLANK = {name: value for name, value in vars(HttpRequest()).items() if name not in _MADE_LATE}


class _MessageList(BaseStorage):
    """Keeps what an action says by ``message_user``, so that it can be told to the agent; stores nothing.

    ``_get`` and ``_store`` are what Django documents for a storage of one's own.
    """

    def _get(self, *args: Any, **kwargs: Any) -> tuple[list[Message], bool]:
        return [], True

    def _store(self, messages: Iterable[Message], response: Any, *args: Any, **kwargs: Any) -> list[Message]:
        return []


class BareRequest(HttpRequest):
    """A request whose body was read already, with its own scheme, and messages that stay in memory.

    Private: what ``HttpRequest.__init__`` sets; ``_read_started`` and ``_body``; ``_get_scheme``; ``_messages``, where
    django.contrib.messages looks for its storage. Seen with: Django 5.2, 6.0, 6.1. Public way: ``HttpRequest()``, which
    makes four dictionaries for each message, whose scheme is http, and to which no messages can be added.
    """

    def __init__(self, scheme: str) -> None:
        # Not Django's own: there is one for each message, and what it would parse is empty.
        self.__dict__.update(_BLANK)
        self._mcp_scheme = scheme
        self._read_started = True
        self._body = b""

    def _get_scheme(self) -> str:
        return self._mcp_scheme

    @cached_property
    def _messages(self) -> _MessageList:
        return _MessageList(self)


def freeze(data: QueryDict) -> None:
    """Let form data refuse changes, as those of a request do.

    Private: ``QueryDict._mutable``. Seen with: Django 5.2, 6.0, 6.1. Public way: ``QueryDict(text)``, which refuses
    more than DATA_UPLOAD_MAX_NUMBER_FIELDS values.
    """
    data._mutable = False


def close_resources(response: HttpResponseBase) -> None:
    """End what the response holds open, without the end of a request, which would close this thread's connections.

    Private: ``HttpResponseBase._resource_closers``. Seen with: Django 5.2, 6.0, 6.1. Public way: ``close()``, which
    sends ``request_finished``.
    """
    closers: Any = response._resource_closers  # type: ignore[attr-defined]
    for closer in closers:
        closer()
