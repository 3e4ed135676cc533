"""The job that workers import by its path. This module is imported only if a tasks framework is installed."""

from __future__ import annotations

from mcp_django.conf import get_conf

try:
    from django.tasks import task
except ImportError:
    from django_tasks import task  # type: ignore[no-redef]


@task(backend=get_conf().TASK_BACKEND, queue_name=get_conf().TASK_QUEUE)
def run_task(key: str) -> None:
    """Run a task, if it is still queued."""
    from mcp_django.server.background import run

    run(key)
