"""Work of the project of which nothing is to stay in any database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from django.apps import apps
from django.db import DatabaseError, connections, router, transaction


def written_databases() -> dict[str, None]:
    """The databases to which models are written, in the order of the models."""
    return dict.fromkeys(router.db_for_write(model) for model in apps.get_models())


@contextmanager
def rolled_back() -> Iterator[None]:
    """Take back what is written within the block, also within a transaction, and forget what was to follow a commit.

    A database that cannot be reached is left out: nothing is written there.
    """
    with ExitStack() as transactions:
        for alias in written_databases():
            try:
                connections[alias].ensure_connection()
            except DatabaseError:
                continue
            transactions.enter_context(transaction.atomic(using=alias))
            transactions.callback(transaction.set_rollback, True, using=alias)
        yield
