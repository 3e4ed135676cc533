"""System checks: problems in how the project uses mcp_django, each with its remedy.

They import any of the packages below them. So each module is imported once its checks run: most commands run none.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from django.core.checks import CheckMessage, Tags, register

#: Module and name of each check, with its tags and whether it is one of ``check --deploy``.
_CHECKS: tuple[tuple[str, str, tuple[str, ...], bool], ...] = (
    ("settings", "check_django", (), False),
    ("settings", "check_distributions", (), False),
    ("settings", "check_settings", (), False),
    ("bus", "check_bus", (), False),
    ("bus", "check_databases", (Tags.database,), False),
    ("sites", "check_sites", (), False),
    ("sites", "check_tenants", (), True),
)


def _register(module: str, name: str, tags: tuple[str, ...], deploy: bool) -> None:
    def check(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
        found: list[CheckMessage] = getattr(import_module(f"{__name__}.{module}"), name)(app_configs, **kwargs)
        return found

    register(check, *tags, "mcp_django", deploy=deploy)


for _check in _CHECKS:
    _register(*_check)
