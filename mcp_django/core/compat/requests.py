"""Requests that no handler of Django has made, copies of their users, form data, and the parts of responses."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from django.contrib.messages.storage.base import BaseStorage, Message
from django.db import models
from django.http import HttpRequest, QueryDict
from django.http.response import HttpResponseBase
from django.utils.functional import cached_property
from django.utils.http import parse_header_parameters

#: The attributes that Django's own constructor sets, without those that are made when a hook reads them.
_MADE_LATE = ("GET", "POST", "COOKIES", "FILES")
_BLANK = {name: value for name, value in vars(HttpRequest()).items() if name not in _MADE_LATE}


class _MessageList(BaseStorage):
    """Keeps the messages of an action's ``message_user`` in memory, so that the agent gets them. It stores nothing.

    Django documents ``_get`` and ``_store`` for custom storages.
    """

    def _get(self, *args: Any, **kwargs: Any) -> tuple[list[Message], bool]:
        return [], True

    def _store(self, messages: Iterable[Message], response: Any, *args: Any, **kwargs: Any) -> list[Message]:
        return []


class BareRequest(HttpRequest):
    """A request with an empty body that counts as read, a given scheme, and messages that stay in memory.

    Private: what ``HttpRequest.__init__`` sets; ``_read_started`` and ``_body``; ``_get_scheme``; ``_messages``, where
    django.contrib.messages looks for its storage. Seen with: Django 5.2, 6.0, 6.1. Public way: ``HttpRequest()``, which
    makes four dictionaries for each message of a client, has the scheme http, and cannot hold messages for a user.
    """

    def __init__(self, scheme: str) -> None:
        # Django's constructor is not called: each message needs a request, and there is nothing to parse.
        self.__dict__.update(_BLANK)
        self._mcp_scheme = scheme
        self._read_started = True
        self._body = b""

    def _get_scheme(self) -> str:
        return self._mcp_scheme

    @cached_property
    def _messages(self) -> _MessageList:
        return _MessageList(self)


def without_csrf(request: HttpRequest) -> None:
    """Let views accept the request without a CSRF token: it does not come from a page in a browser.

    Private: ``HttpRequest._dont_enforce_csrf_checks``. Seen with: Django 5.2, 6.0, 6.1. Public way: ``csrf_exempt``,
    which decorates a view and not a request.
    """
    request._dont_enforce_csrf_checks = True  # type: ignore[attr-defined]


def freeze(data: QueryDict) -> None:
    """Make form data immutable, as that of a request is.

    Private: ``QueryDict._mutable``. Seen with: Django 5.2, 6.0, 6.1. Public way: ``QueryDict(text)``, which refuses
    more than DATA_UPLOAD_MAX_NUMBER_FIELDS values.
    """
    data._mutable = False


def disposition_of(response: HttpResponseBase) -> dict[str, str]:
    """The parameters of Content-Disposition. ``filename*`` goes before ``filename`` (RFC 6266, section 4.3).

    Private: ``django.utils.http.parse_header_parameters``. Seen with: Django 5.2, 6.0, 6.1. Public way: the email
    package, which takes ``filename`` where both are there.
    """
    try:
        return parse_header_parameters(response.headers.get("Content-Disposition", ""))[1]
    except (ValueError, LookupError):  # The encoding is unknown, or the value is not in it.
        return {}


def close_resources(response: HttpResponseBase) -> None:
    """Close the resources of a response, without the signal that would close this thread's database connections.

    Private: ``HttpResponseBase._resource_closers``. Seen with: Django 5.2, 6.0, 6.1. Public way: ``close()``, which
    sends ``request_finished``.
    """
    closers: Any = response._resource_closers  # type: ignore[attr-defined]
    for closer in closers:
        closer()


def copy_of(user: Any) -> Any:
    """A copy of a user, as ``copy.copy`` makes it: attributes that are set on it are not set on the original.

    Private: ``Model._state`` and its ``fields_cache``; which methods of ``Model`` make a copy. Seen with: Django 5.2,
    6.0, 6.1. Public way: ``copy.copy``, which takes twice as long, since Django prepares a model for pickling.
    """
    cls: Any = type(user)
    if not _is_copied_by_django(cls):
        return copy.copy(user)
    made = cls.__new__(cls)
    values = made.__dict__
    values.update(user.__dict__)
    state = values["_state"] = copy.copy(user._state)
    state.fields_cache = state.fields_cache.copy()
    return made


@lru_cache(maxsize=16)
def _is_copied_by_django(cls: Any) -> bool:
    """Whether it is a model, and neither the class nor its parents have their own way to be copied."""
    names = ("__reduce__", "__getstate__", "__setstate__")
    return (
        issubclass(cls, models.Model)
        and not any("__slots__" in vars(parent) or hasattr(parent, "__copy__") for parent in cls.__mro__)
        and cls.__reduce_ex__ is object.__reduce_ex__
        and all(getattr(cls, name) is getattr(models.Model, name) for name in names)
    )


def asking_module(depth: int) -> str:
    """The name of the module whose code asks, so many calls above; empty where that is not known.

    Private: ``sys._getframe``. Seen with: CPython 3.11 to 3.14. Public way: ``inspect.stack``, which is slow: it reads
    the source of each caller.
    """
    return str(sys._getframe(depth + 1).f_globals.get("__name__", ""))
