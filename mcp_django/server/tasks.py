"""tasks/get, tasks/update and tasks/cancel, and the start of a task (ext-tasks specification/draft/tasks.md)."""

from __future__ import annotations

from pydantic_core import SchemaValidator, core_schema

from mcp_django.bridge.tasks import task_answers, task_rows
from mcp_django.bridge.tasks.framework import is_offered
from mcp_django.bridge.tasks.shapes import detailed, task_json
from mcp_django.conf import get_conf
from mcp_django.exceptions import MissingCapability, field_error
from mcp_django.exchange.exchange import Exchange
from mcp_django.protocol.errors import InvalidParams
from mcp_django.protocol.extensions import TASKS_CAPABILITY
from mcp_django.protocol.types import JSON

_TASK_ID = core_schema.typed_dict_field(core_schema.str_schema(strict=True))
_ANSWERS = core_schema.typed_dict_field(core_schema.dict_schema(core_schema.str_schema(), core_schema.any_schema()))
TASK_PARAMS = SchemaValidator(core_schema.typed_dict_schema({"taskId": _TASK_ID}))
UPDATE_PARAMS = SchemaValidator(core_schema.typed_dict_schema({"taskId": _TASK_ID, "inputResponses": _ANSWERS}))


def create(exchange: Exchange) -> JSON:
    """The CreateTaskResult of a call that continues as a task. Raises LimitExceeded."""
    from mcp_django.server.background import cancelled_with

    with cancelled_with(exchange.cancellation):
        return {"resultType": "task", **task_json(task_rows.create(exchange))}


def get(exchange: Exchange) -> JSON:
    _check_capability(exchange)
    return detailed(task_rows.find(exchange.site, exchange.principal, exchange.params["taskId"]))


def update(exchange: Exchange) -> JSON:
    """Store answers to open questions, and ignore others. Raises InvalidParams for a value that answers nothing."""
    _check_capability(exchange)
    task = task_rows.find(exchange.site, exchange.principal, exchange.params["taskId"])
    given = exchange.params["inputResponses"]
    asked = {key: request for key, request in task_rows.open_questions(task).items() if key in given}
    for key, request in asked.items():
        task_answers.check_answer(key, request, given[key])
    task_rows.answer(task, {key: given[key] for key in asked})
    return {}


def cancel(exchange: Exchange) -> JSON:
    _check_capability(exchange)
    task_rows.cancel(task_rows.find(exchange.site, exchange.principal, exchange.params["taskId"]))
    return {}


def watched(exchange: Exchange, wanted: JSON) -> list[str]:
    """The tasks in a listen's filter that belong to the principal. Raises InvalidParams."""
    ids = wanted.get("taskIds")
    if ids is None or not is_offered(exchange.site):
        return []
    _check_capability(exchange)
    limit = get_conf().MAX_SUBSCRIPTIONS
    problem = ""
    if not isinstance(ids, list) or not all(isinstance(item, str) for item in ids):
        problem = "must be a list of strings"
    elif len(ids) > limit:
        problem = f"may name at most {limit} tasks (MAX_SUBSCRIPTIONS)"
    if problem:
        raise InvalidParams(f"taskIds {problem}.", [field_error("notifications.taskIds", problem, ids)])
    return [task.key for task in task_rows.find_all(exchange.site, exchange.principal, dict.fromkeys(ids))]


def _check_capability(exchange: Exchange) -> None:
    if not exchange.knows_tasks:
        raise MissingCapability(TASKS_CAPABILITY)
