"""``MCP["AUDIT"] = "strict"``: a call that may change data is written down before it is made.

Its line is committed at once and outside of every transaction, so that no rollback and no end of the process undoes it.
Until its outcome is known, the line says "unknown".
"""

from __future__ import annotations

import logging
from typing import Any

from django.db import Error, connections

from mcp_django.audit import table
from mcp_django.audit.lines import Line, as_dict
from mcp_django.audit.logs import publish
from mcp_django.core.compat.connections import in_test_transaction
from mcp_django.models import Call

logger = logging.getLogger("mcp_django")


class NotWritten(Exception):
    """The line could not be written, so the call must not be made."""


def begin(intended: Line) -> Any:
    """Commit the line of a call that is about to be made, and return its primary key. Raises NotWritten."""
    connection = connections[table.database()]
    try:
        is_ours = connection.get_autocommit() and not connection.in_atomic_block
        if not is_ours and connection not in in_test_transaction():
            raise NotWritten("The connection is in a transaction that is not ours")
        return Call.objects.using(connection.alias).create(**as_dict(intended)).pk
    except Error as error:
        connection.close_if_unusable_or_obsolete()
        raise NotWritten("The database of the audit trail refused the line") from error


def end(key: Any, line: Line) -> None:
    """Write the outcome of the call. If that fails, its line goes on saying that the outcome is unknown."""
    try:
        Call.objects.using(table.database()).filter(pk=key).update(**as_dict(line))
    except Error:
        logger.exception("The outcome of a call could not be written; the audit trail calls it unknown")
        return
    publish([line])
