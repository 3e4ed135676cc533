"""What a pause holds of its agents: tasks, changes that wait, and the files that those need.

None of it expires during the pause. When that ends, each expires later by the time that it has lasted; after two pauses
at the same time, by the time of both.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import models, router
from django.db.models import Exists, F, OuterRef, Q, Value
from django.db.models.functions import Concat
from django.utils import timezone

from mcp_django.models import Change, Grant, Restriction, Task, Upload

_Kind = Restriction.Kind
#: Rows that expire later by one statement.
_AT_ONCE = 500


def held(pauses: models.QuerySet[Restriction] | None = None) -> Exists:
    """Whether a pause, or one of ``pauses``, stops the agent of a task or a change: a condition for ``filter``."""
    found = Restriction.objects.pauses() if pauses is None else pauses
    apps = Grant.objects.filter(pk=OuterRef(OuterRef("grant_id"))).values("client")
    stops = (
        Q(kind=_Kind.ALL)
        | Q(kind=_Kind.USER, owner=OuterRef("principal_key"))
        | Q(kind=_Kind.TOKEN, name=OuterRef("line"))
        | Q(kind=_Kind.APP, name__in=apps)
    )
    is_here = Q(site="") | Q(site=OuterRef("site"))
    # What had expired before the pause stays so.
    is_in_time = Q(at__lt=OuterRef("expires_at"))
    # As ``Principal.key`` names a user.
    return Exists(found.order_by().alias(owner=Concat(Value("user:"), "name")).filter(is_here, is_in_time, stops))


def held_files(pauses: models.QuerySet[Restriction] | None = None) -> Q:
    """As ``held``, for uploads: whether their agent has a task or a change that is held, and may need them."""
    same = {name: OuterRef(name) for name in ("site", "principal_key", "line")}
    tasks = Task.objects.filter(held(pauses), **same)
    changes = Change.objects.filter(_waits(), held(pauses), **same)
    return Q(Exists(tasks)) | Q(Exists(changes))


def is_held(row: Task | Change) -> bool:
    """Whether a pause holds the task or the change now."""
    rows: models.QuerySet[Any] = type(row)._base_manager.using(router.db_for_write(type(row)))
    return rows.filter(held(), pk=row.pk).exists()


def give_time_back(pause: Restriction, using: str) -> None:
    """Let what a pause has held expire later, by the length of the pause, whose row is about to be deleted."""
    ending = Restriction.objects.using(using).pauses().filter(pk=pause.pk)
    for at in ending.values_list("at", flat=True):
        length = max(timezone.now() - at, timedelta())
        # A file that its client has deleted has expired, even if the storage has it still.
        _put_off(Upload, held_files(ending) & Q(expires_at__gt=at), length)
        _put_off(Task, Q(held(ending)), length)
        _put_off(Change, _waits() & Q(held(ending)), length)


def _waits() -> Q:
    """Of changes: those that wait, also again after a run that is gone."""
    gone = Q(state=Change.State.WRITING, lease_until__lte=timezone.now())
    return Q(state=Change.State.WAITING) | gone


def _put_off(model: type[models.Model], which: Q, by: timedelta) -> None:
    rows = model._base_manager.using(router.db_for_write(model))
    # By their keys, since MariaDB locks each row that an UPDATE looks at, and would wait for the runs of others.
    keys = list(rows.filter(which).order_by("pk").values_list("pk", flat=True))
    for first in range(0, len(keys), _AT_ONCE):
        rows.filter(pk__in=keys[first : first + _AT_ONCE]).update(expires_at=F("expires_at") + by)
