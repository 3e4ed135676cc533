"""Our questions to legacy clients over HTTP, whose answers may come to any process."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable
from datetime import timedelta

from django.db import IntegrityError, router
from django.utils import timezone
from pydantic_core import from_json

from mcp_django.conf import get_conf
from mcp_django.core.db.clearing import clear_away
from mcp_django.core.events.controls import ControlKind
from mcp_django.core.events.publisher import flush
from mcp_django.core.events.transaction import note_control
from mcp_django.models import OpenQuestion
from mcp_django.protocol.errors import SessionNotFound
from mcp_django.protocol.jsonrpc import RequestId, encode
from mcp_django.protocol.types import JSON

_PREFIX = "mcp_django-"


def open_questions(session_key: str, keys: Iterable[str]) -> dict[str, str]:
    """Store a question for each key before it is sent. Returns ``{key: id}``. Raises SessionNotFound."""
    now = timezone.now()
    clear_away(OpenQuestion.objects.filter(expires_at__lte=now))
    end = now + timedelta(seconds=get_conf().QUESTION_SECONDS)
    ids = {key: f"{_PREFIX}{secrets.token_urlsafe(16)}" for key in keys}
    try:
        OpenQuestion.objects.bulk_create(
            OpenQuestion(key=question_id, session_id=session_key, expires_at=end) for question_id in ids.values()
        )
    except IntegrityError:
        raise SessionNotFound from None  # The session ended while its request was answered.
    return ids


def answer_question(session_key: str, question_id: RequestId | None, response: JSON) -> None:
    """Keep a client's response for the process that waits for it. A response to no open question is dropped."""
    if not isinstance(question_id, str) or not question_id.startswith(_PREFIX) or not question_id.isprintable():
        return  # This is not one of our ids, and perhaps no text that a database accepts.
    open_ = OpenQuestion.objects.filter(pk=question_id, session=session_key, answer=None)
    if open_.filter(expires_at__gt=timezone.now()).update(answer=encode(response).decode()):
        note_control(router.db_for_write(OpenQuestion), ControlKind.QUESTION, question_id)
        flush()


def answered(question_ids: Collection[str]) -> set[str]:
    """The ids of the questions that were answered."""
    return set(OpenQuestion.objects.filter(pk__in=question_ids, answer__isnull=False).values_list("pk", flat=True))


def take_responses(question_ids: Collection[str]) -> dict[str, JSON]:
    """The responses that came, by id. It closes the questions: later responses are dropped."""
    rows = OpenQuestion.objects.filter(pk__in=question_ids)
    found = {key: from_json(answer) for key, answer in rows.values_list("pk", "answer") if answer is not None}
    rows.delete()
    return found
