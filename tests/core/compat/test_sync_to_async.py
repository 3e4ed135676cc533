"""The executor of thread-sensitive calls."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

from asgiref.sync import async_to_sync, sync_to_async

from mcp_django.core.compat.sync_to_async import thread_sensitive_in


def name() -> str:
    return threading.current_thread().name


async def names(executor: ThreadPoolExecutor) -> list[str]:
    """Where calls run: in the block, in a task of it, in one that outlives it, and behind it."""
    go_on = asyncio.Event()

    async def later() -> str:
        await go_on.wait()
        return await sync_to_async(name)()

    with thread_sensitive_in(executor):
        found = [await sync_to_async(name)(), await asyncio.create_task(sync_to_async(name)())]  # type: ignore[arg-type]
        late = asyncio.create_task(later())
    go_on.set()
    return [*found, await late, await sync_to_async(name)()]


def test_thread_sensitive_calls_run_in_the_executor_also_those_of_tasks() -> None:
    with ThreadPoolExecutor(1, thread_name_prefix="ours") as executor:
        found = asyncio.run(names(executor))

    assert found[:3] == ["ours_0"] * 3
    assert found[3] != "ours_0"


def test_they_run_there_behind_async_to_sync_too() -> None:
    with ThreadPoolExecutor(1, thread_name_prefix="ours") as executor:
        found = async_to_sync(names)(executor)

    assert found == ["ours_0"] * 3 + [name()]
