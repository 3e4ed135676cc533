"""The app that the documentation shows, file by file, with what its pages leave out."""

from __future__ import annotations

from tests.end_to_end.projects import replace
from tests.end_to_end.servers import Project
from tests.support.pages import additions, files

ORDERS = """
from shop.models import Order
Order.objects.create(number="A1", email="a@example.com", total="100.00")
Order.objects.create(number="A2", email="b@example.com", total="40.00", status="closed")
Order.objects.create(number="A3", email="c@example.com", total="60.00", status="closed", archived=True)
from mcp_django.models import Tool
Tool.objects.filter(name__startswith="shop_").update(enabled=True)
"""


def write_shop(project: Project) -> None:
    shop = project.folder / "shop"
    shop.mkdir()
    for name, text in files("shop/").items():
        (project.folder / name).write_text(text)
    _write_additions(project)
    (shop / "__init__.py").touch()
    (shop / "migrations").mkdir()
    (shop / "migrations/__init__.py").touch()
    (shop / "tenants.py").write_text(
        "from contextlib import contextmanager\nfrom pathlib import Path\n\n\n"
        "@contextmanager\ndef tenant_of(user):\n"
        "    with Path(__file__).with_name('entered').open('a') as file:\n        file.write(f'{user}\\n')\n    yield\n"
    )
    replace(project.folder / "project/settings.py", "'mcp_django',\n", "'mcp_django',\n    'shop',\n")


def _write_additions(project: Project) -> None:
    """The lines that two pages add to the file that the README shows."""
    declarations = project.folder / "shop/mcp.py"
    more = additions("shop/mcp.py")
    import_line, class_line, attribute, *rest = [line for line in more["docs/models.md"].splitlines() if line]
    assert rest == ["    ..."]
    replace(declarations, "from .models import Order\n", f"from .models import Order\n{import_line}\n")
    replace(declarations, f"{class_line}\n", f"{class_line}\n{attribute}\n")
    with declarations.open("a") as file:
        file.write(f"\n{more['docs/tools.md']}")
