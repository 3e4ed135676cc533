"""How the audit trail is read: by user, token and record, and in pages that cost the same wherever they begin."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q

#: Lines that one statement reads, so that a long list is neither held in memory nor read in one transaction.
PAGE = 2_000
#: The greatest value of a BigAutoField.
_MAX_ID = 2**63 - 1
#: By whether the newest come first.
_ORDERS: Mapping[bool, tuple[str, str]] = {False: ("at", "pk"), True: ("-at", "-pk")}
#: A longer key of a user is cut to MAX_USER_ID characters, the last of which are _MARK digits of its hash.
MAX_USER_ID, _MARK = 64, 16
#: Digits of the hash of a session's id.
MAX_SESSION = 16


def user_id(key: Any) -> str:
    """A user's primary key as the trail has it: no two keys become one."""
    text = str(key)
    if len(text) <= MAX_USER_ID:
        return text
    mark = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:_MARK]
    return f"{text[: MAX_USER_ID - _MARK - 1]}…{mark}"


def session_mark(key: str) -> str:
    """What the trail has of a session's id, by which nobody can use the session; empty where there is none."""
    return hashlib.sha256(key.encode("utf-8", "backslashreplace")).hexdigest()[:MAX_SESSION] if key else ""


class CallQuerySet(models.QuerySet[Any]):
    """Lines of the audit trail."""

    def of_user(self, id_or_name: str) -> CallQuerySet:
        """The calls of a user, who may have been deleted. An id is tried first, since an index finds it."""
        key = user_id(id_or_name)
        if _is_user_id(id_or_name) or self.model._base_manager.using(self.db).filter(user_id=key).exists():
            return self.filter(user_id=key)
        users = get_user_model()
        # Users may have changed their names since.
        present = users._base_manager.filter(**{users.USERNAME_FIELD: id_or_name}).values_list("pk", flat=True)
        return self.filter(Q(user_name=id_or_name) | Q(user_id__in=[user_id(key) for key in present]))

    def of_token(self, id_or_name: str) -> CallQuerySet:
        """The calls with a token, which may have been deleted. Digits are an id."""
        digits = id_or_name.isascii() and id_or_name.isdigit() and len(id_or_name) < 20
        if digits and int(id_or_name) <= _MAX_ID:
            return self.filter(token_id=int(id_or_name))
        return self.filter(token_name=id_or_name)

    def of_credential(self, call: Any) -> CallQuerySet:
        """What agents did with the credential of a call: a token with those that succeeded it, or the grants of an app.

        Without a token: what the user's agents did without one. The index of users finds them.
        """
        own = self.filter(user_id=call.user_id, kind__in=self.model.BY_AGENTS)
        # Lines of an older version have no lineage.
        older = Q(lineage="", token_id=call.token_id)
        return own.filter(Q(lineage=call.lineage) | older if call.lineage else older)

    def beyond(self, call: Any, *, newest_first: bool = False) -> CallQuerySet:
        """The lines after one in the order of time, or before it, those nearest to it first."""
        return self.filter(_beyond(call, newest_first)).order_by(*_ORDERS[newest_first])

    def of_record(self, model: str, key: str) -> CallQuerySet:
        """The calls that changed a row: ``of_record("flights.flight", "17")``."""
        return self.filter(model=model.lower(), keys__contains=f" {_as_written(key)} ")

    def pages(self, *, newest_first: bool = False) -> Iterator[list[Any]]:
        """All lines in the order of time, a page at a time, each read by a statement of its own."""
        ordered = self.order_by(*_ORDERS[newest_first])
        page = list(ordered[:PAGE])
        while page:
            yield page
            page = list(ordered.filter(_beyond(page[-1], newest_first))[:PAGE]) if len(page) == PAGE else []


#: What a person may narrow the trail by → how the value is looked for.
FILTERS: Mapping[str, Callable[[CallQuerySet, str], CallQuerySet]] = {
    "user": CallQuerySet.of_user,
    "token": CallQuerySet.of_token,
    "client": lambda calls, value: calls.filter(Q(client_name=value) | Q(client_id=value)),
    "kind": lambda calls, value: calls.filter(kind=value),
    "outcome": lambda calls, value: calls.filter(outcome=value),
    "tool": lambda calls, value: calls.filter(name=value),
    "model": lambda calls, value: calls.filter(model=value.lower()),
    "reason": lambda calls, value: calls.filter(reason=value),
}


def _is_user_id(text: str) -> bool:
    users = get_user_model()
    try:
        return users._base_manager.filter(pk=text).exists()
    except (ValueError, ValidationError):
        return False


def _as_written(key: str) -> str:
    """A key as the trail has it: UUIDs in their canonical text."""
    try:
        return str(uuid.UUID(key))
    except ValueError:
        return key


def _beyond(call: Any, newest_first: bool) -> Q:
    """The lines after one. In this form, which begins with an AND, every database uses the index of the time."""
    if newest_first:
        return Q(at__lte=call.at) & (Q(at__lt=call.at) | Q(pk__lt=call.pk))
    return Q(at__gte=call.at) & (Q(at__gt=call.at) | Q(pk__gt=call.pk))
