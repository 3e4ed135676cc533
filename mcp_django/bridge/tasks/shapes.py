"""Tasks as clients see them (ext-tasks specification/draft/tasks.md#tasks)."""

from __future__ import annotations

from datetime import UTC, datetime

from django.utils import timezone
from pydantic_core import from_json

from mcp_django.models import Task, TaskQuestion
from mcp_django.protocol.types import JSON

#: How often clients are asked to look at a task: the price of one look is a row read by its key.
_POLL_MS = 1_000

_STATUS = {
    Task.State.QUEUED: "working",
    Task.State.RUNNING: "working",
    Task.State.ASKING: "input_required",
    Task.State.COMPLETED: "completed",
    Task.State.FAILED: "failed",
    Task.State.CANCELLED: "cancelled",
}


def task_json(task: Task) -> JSON:
    """The Task of the specification, without the members that only some statuses have."""
    value: JSON = {
        "taskId": task.key,
        "status": _STATUS[Task.State(task.state)],
        "createdAt": _iso(task.created_at),
        "lastUpdatedAt": _iso(task.updated_at),
        "ttlMs": round((task.expires_at - task.created_at).total_seconds() * 1000),
        "pollIntervalMs": _POLL_MS,
    }
    return {**value, "statusMessage": task.message} if task.message else value


def detailed(task: Task) -> JSON:
    """The DetailedTask: a Task with its result, its error, or its open questions."""
    value = task_json(task)
    match task.state:
        case Task.State.COMPLETED:
            value["result"] = from_json(task.outcome)
        case Task.State.FAILED:
            value["error"] = from_json(task.outcome)
        case Task.State.ASKING:
            questions = TaskQuestion.objects.filter(task=task.key, answer=None).values_list("key", "request")
            value["inputRequests"] = {key: from_json(request) for key, request in questions}
            if not value["inputRequests"]:
                # The questions were answered after the task was read, and the task is about to run.
                return {**task_json(task), "status": "working"}
    return value


def _iso(moment: datetime) -> str:
    aware = moment if timezone.is_aware(moment) else timezone.make_aware(moment)
    return aware.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
