from __future__ import annotations

from importlib import import_module
from typing import Any

from django.apps import AppConfig
from django.db import connection
from django.db.models.signals import post_migrate


class ShopConfig(AppConfig):
    name = "tests.projects.packages.shop"
    label = "shop"

    def ready(self) -> None:
        post_migrate.connect(_make_views, sender=self)


def _make_views(**kwargs: Any) -> None:
    """Views and functions of hordak are in its migrations alone, and tables are made from the models."""
    migration = import_module("hordak.migrations.0052_amount_to_debit_credit_sql").Migration
    with connection.cursor() as cursor:
        for operation in migration.operations:
            if operation.sql.strip().lower().startswith("create"):
                cursor.execute(operation.sql)
