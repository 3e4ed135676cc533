"""What workers find by its path. Imported only where a tasks framework is installed."""

from __future__ import annotations

from mcp_django.conf import get_conf

try:
    from django.tasks import task
except ImportError:
    from django_tasks import task  # type: ignore[no-redef]


@task(backend=get_conf().TASK_BACKEND, queue_name=get_conf().TASK_QUEUE)
def run_task(key: str) -> None:
    """Run a task, if it still waits for that."""
    from mcp_django.server.background import run

    run(key)
