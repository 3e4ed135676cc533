"""The executor of thread-sensitive calls."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

from asgiref.sync import sync_to_async

from mcp_django.compat.sync_to_async import use_executor


def test_thread_sensitive_calls_run_in_the_executor_also_those_of_a_task() -> None:
    async def main(executor: ThreadPoolExecutor) -> list[str]:
        use_executor(executor)
        name = sync_to_async(lambda: threading.current_thread().name)
        return [await name(), await asyncio.create_task(name())]  # type: ignore[arg-type]

    with ThreadPoolExecutor(1, thread_name_prefix="ours") as executor:
        assert asyncio.run(main(executor)) == ["ours_0", "ours_0"]
