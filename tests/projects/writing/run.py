"""Makes the same changes as a person and as an agent, by ModelAdmins of packages.

``python -m tests.projects.writing.run [WORD ...]`` runs all cases, or those whose names hold one of the words, in the
environment of the project. Each function of ``cases`` is a case of its own, whose rows are rolled back.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import traceback
import warnings
from importlib import import_module
from pathlib import Path

#: The apps whose rows are compared.
_COMPARED = ("studio", "reversion", "guardian")
#: The packages whose calls are counted, beside those of Django.
_PACKAGES = (
    "guardian", "import_export", "mptt", "nested_admin", "parler", "reversion", "simple_history", "treebeard",
)  # fmt: skip


def main() -> int:
    warnings.simplefilter("ignore")  # Those of the packages.
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PROJECT_FOLDER"] = folder
        os.environ["DJANGO_SETTINGS_MODULE"] = "tests.projects.writing.settings"
        import django
        from django.core.management import call_command

        django.setup()
        call_command("migrate", run_syncdb=True, verbosity=0)
        _begin()
        failed = [name for name in _names(sys.argv[1:]) if not _passes(name, Path(folder) / "media")]
        print(f"writing: {len(failed)} cases failed{': ' if failed else ''}{', '.join(failed)}", flush=True)
        return 1 if failed else 0


def _names(wanted: list[str]) -> list[str]:
    from tests.projects.writing import cases

    found = [name for name in vars(cases) if name.startswith("test_")]
    return [name for name in found if not wanted or any(part in name for part in wanted)]


def _begin() -> None:
    from django.contrib import admin
    from django.contrib.auth.models import User

    from mcp_django.models import Tool
    from tests.bridge.writes.lab import driving

    # Why a case fails is told.
    logging.getLogger("mcp_django").addHandler(logging.StreamHandler(sys.stdout))
    # The list of all models beside each page asks each ModelAdmin about permissions.
    admin.site.get_app_list = lambda *args, **kwargs: []  # type: ignore[method-assign]
    User.objects.create_superuser("root")
    Tool.objects.filter(site="mcp", name__in=driving.TOOLS).update(enabled=True)


def _passes(name: str, media: Path) -> bool:
    from django.contrib.auth.models import User
    from django.db import transaction

    from mcp_django import site
    from tests.bridge.writes.lab.comparing import Laboratory
    from tests.projects.writing import cases

    with transaction.atomic():
        lab = Laboratory(site, User.objects.get(username="root"), media, _COMPARED, _folders())
        try:
            getattr(cases, name)(lab)
        except Exception:  # noqa: BLE001 - it is reported
            if name in cases.CANNOT:
                print(f"{name}: fails as expected, since {cases.CANNOT[name]}", flush=True)
                return True
            print(f"{name} FAILED\n{traceback.format_exc()}", flush=True)
            return False
        finally:
            transaction.set_rollback(True)
    if name in cases.CANNOT:
        print(f"{name} FAILED: it works, so the reason why it cannot is out of date", flush=True)
    return name not in cases.CANNOT


def _folders() -> list[str]:
    return [str(Path(str(import_module(name).__file__)).parent) for name in _PACKAGES]


if __name__ == "__main__":
    sys.exit(main())
