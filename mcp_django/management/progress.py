"""How far a command is, for a person who waits at a terminal."""

from __future__ import annotations

from django.core.management.base import BaseCommand


def show_progress(command: BaseCommand, text: str) -> None:
    """Overwrite the last line of a terminal; with an empty text, take it away."""
    if command.stderr.isatty():
        command.stderr.write(f"\r\x1b[K{text}", lambda line: line, ending="")
        command.stderr.flush()
