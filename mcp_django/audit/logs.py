"""Log records and signals of the lines that were written, only where somebody listens."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from mcp_django.audit.signals import call_recorded
from mcp_django.protocol.jsonrpc import encode

if TYPE_CHECKING:
    from mcp_django.audit.lines import Line

logger = logging.getLogger("mcp_django.audit")
_errors = logging.getLogger("mcp_django")
#: The names of columns in ``extra`` begin with it, since logging has a ``name`` of its own.
PREFIX = "mcp_"


class JSONFormatter(logging.Formatter):
    """Formats a record of the logger ``mcp_django.audit`` as one line of JSON, with the columns that are not empty."""

    def format(self, record: logging.LogRecord) -> str:
        shown: dict[str, Any] = {"logger": record.name, "level": record.levelname, "message": record.getMessage()}
        for name, value in vars(record).items():
            if name.startswith(PREFIX) and value not in ("", None):
                shown[name.removeprefix(PREFIX)] = value
        return encode(shown).decode()


def publish(lines: Iterable[Line]) -> None:
    """Log the lines and send the signal of each, where somebody listens. Raises nothing."""
    is_logged, is_heard = logger.isEnabledFor(logging.INFO), bool(call_recorded.receivers)
    if not is_logged and not is_heard:
        return
    # LOGGING names the formatter above, and Django reads it before there are models.
    from mcp_django.audit.lines import as_dict
    from mcp_django.models import Call

    for one in lines:
        columns = as_dict(one)
        if is_logged:
            said = [columns["kind"], columns["name"] or columns["uri"] or columns["method"], columns["outcome"]]
            extra = {f"{PREFIX}{name}": value for name, value in columns.items()}
            logger.info("%s %s: %s", *said, extra={**extra, f"{PREFIX}at": columns["at"].isoformat()})
        if is_heard:
            for receiver, answer in call_recorded.send_robust(Call, call=columns):
                if isinstance(answer, Exception):
                    _errors.error("A receiver of call_recorded failed: %r", receiver, exc_info=answer)
