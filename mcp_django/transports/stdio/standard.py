"""The process's own stdin and stdout, taken out of everybody else's hands: they carry messages and nothing else."""

from __future__ import annotations

import io
import os
import sys
from typing import NamedTuple

_STDIN, _STDOUT, _STDERR = 0, 1, 2
#: With one of these, a person runs the command and wants to read what it prints.
_READ_BY_PEOPLE = {"-h", "--help", "--version"}


class Standard(NamedTuple):
    """Descriptors of the streams that the process was started with."""

    stdin: int
    stdout: int


_claimed: Standard | None = None


def claim() -> Standard:
    """Private descriptors of stdin and stdout.

    From now on whatever anybody prints goes to stderr (``print``, a log handler on ``sys.stdout``, a library in C, a
    child process), and so does text that was printed before and still lies in a buffer. Readers of stdin find it empty.
    """
    global _claimed  # noqa: PLW0603
    if _claimed is None:
        _claimed = Standard(os.dup(_STDIN), os.dup(_STDOUT))
        os.dup2(_STDERR, _STDOUT)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, _STDIN)
        os.close(nothing)
        if isinstance(sys.stdout, io.TextIOWrapper):
            # Flushes, and keeps later prints in their place among the lines of the log.
            sys.stdout.reconfigure(line_buffering=True)
            sys.stdout.flush()
    return _claimed


def claim_early(command: str) -> None:
    """Claim the streams already while Django is set up, in a process that was started for ``command``.

    The apps of a project may print when they are loaded, long before a command is.
    """
    if sys.argv[1:2] == [command] and _READ_BY_PEOPLE.isdisjoint(sys.argv):
        claim()
