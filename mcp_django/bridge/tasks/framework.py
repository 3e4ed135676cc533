"""Django's tasks framework, which runs our tasks. Django has it from 6.0 on, and the package django-tasks before."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.checks import ERROR
from django.core.signals import setting_changed

from mcp_django.conf import get_conf
from mcp_django.core.middleware_policy import socket_problem

if TYPE_CHECKING:
    from mcp_django.exchange.site import Site

logger = logging.getLogger("mcp_django")


def load_job() -> Any:
    """The job that workers run. It stands above this package, so ``apps`` replaces this function when it is ready."""
    raise ImportError("mcp_django is not in INSTALLED_APPS")


#: Pairs of a backend and a queue that were found to be usable.
_usable: set[tuple[str, str]] = set()


def problem(site: Site) -> str | None:
    """The reason why no task can run on the site, with the remedy. None if tasks can run."""
    conf = get_conf()
    backend = (conf.TASK_BACKEND, conf.TASK_QUEUE)
    if backend not in _usable:
        if (found := _backend_problem(*backend)) is not None:
            return found
        _usable.add(backend)
    return socket_problem(site.has_call_context, "A task")


def can_run(site: Site) -> bool:
    """Whether tasks can run on the site. If they cannot, the log has the reason once."""
    found = problem(site)
    if found is not None:
        _warn(site.name, found)
    return found is None


def is_offered(site: Site) -> bool:
    """Whether the site has tools that may become tasks, and tasks can run."""
    return any(tool.task for tool in site.tools.values()) and can_run(site)


def enqueue(key: str) -> None:
    """Put a task into the queue. A failure is logged, and the next request for the task tries again."""
    conf = get_conf()
    try:
        load_job().using(backend=conf.TASK_BACKEND, queue_name=conf.TASK_QUEUE).enqueue(key)
    except Exception:
        logger.exception("The backend %s could not enqueue a task", conf.TASK_BACKEND)


def _backend_problem(alias: str, queue: str) -> str | None:
    if not hasattr(settings, "TASKS"):
        return (
            "The setting TASKS is missing. Install mcp_django with its extra tasks, and configure a backend in TASKS."
        )
    try:
        backend = load_job().using(backend=alias, queue_name=queue).get_backend()
        errors = [message for message in backend.check() if message.level >= ERROR]
    except ImportError as error:
        return f"{error}. Install mcp_django with its extra tasks."
    except Exception as error:  # noqa: BLE001 - each backend has its own errors for wrong settings
        return f"The backend {alias!r} of TASKS cannot be used: {error}"
    return f"{errors[0].msg}. {errors[0].hint or ''}".strip() if errors else None


@lru_cache(maxsize=32)
def _warn(site_name: str, found: str) -> None:
    logger.warning("Tools of the site %s cannot run as tasks: %s", site_name, found)


def _forget(*, setting: str, **_: Any) -> None:
    if setting in ("MCP", "TASKS", "INSTALLED_APPS"):
        _usable.clear()
        _warn.cache_clear()


setting_changed.connect(_forget)
