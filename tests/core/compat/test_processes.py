"""The end of a process."""

from __future__ import annotations

import subprocess
import sys

_ASKING = """
from concurrent.futures import ThreadPoolExecutor
from mcp_django.core.compat.processes import before_threads_end

threads = ThreadPoolExecutor(1)
threads.submit(int).result()  # Python 3.12.1 starts no thread any more then.
before_threads_end(lambda: print(threads.submit(int, "1").result(), flush=True))
"""

_FORKING = """
import multiprocessing
from mcp_django.core.compat.processes import at_exit_of_children

class Owner: pass

def main():
    print("child", flush=True)

owner = Owner()
at_exit_of_children(owner, lambda: print("exit", flush=True))
child = multiprocessing.get_context("fork").Process(target=main)
child.start()
child.join()
print("parent", flush=True)
"""


def _run(script: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""
    return done.stdout.split()


def test_before_threads_end_they_still_work() -> None:
    assert _run(_ASKING) == ["1"]


def test_at_exit_of_children_is_called_in_each_and_not_in_the_parent() -> None:
    assert _run(_FORKING) == ["child", "exit", "parent"]
