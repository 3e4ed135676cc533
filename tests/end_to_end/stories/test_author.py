"""The test kit in a project outside of this repository, under pytest and under unittest."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.end_to_end.example_shop import write_shop
from tests.end_to_end.projects import install, start_project
from tests.end_to_end.servers import ROOT, Project
from tests.support import forkserver

SECONDS = 250

#: It is run without the plugin of pytest-django, which would import Django.
WITHOUT_DJANGO = """
import sys


def imported():
    return sorted({name.partition(".")[0] for name in sys.modules} & {"django", "mcp_django", "asgiref", "channels"})


def test_the_plugin_is_there_and_has_imported_nothing(request):
    assert request.config.pluginmanager.has_plugin("mcp_django")
    assert "pytest_mcp_django" in sys.modules
    assert imported() == []


def test_what_has_settings_may_use_the_fixture(request, monkeypatch):
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "no_such_settings")
    try:
        request.getfixturevalue("mcp_client")
    except ImportError as error:
        assert "no_such_settings" in str(error)
    assert "django" in imported()
"""

#: Django's own TestCase with the fixture, as pytest runs it with and without pytest-django.
UNDER_BOTH = """
import pytest
from django.contrib.auth.models import User
from django.test import TestCase, TransactionTestCase

from mcp_django.models import Tool

from .models import Order


class Closing:
    @pytest.fixture(autouse=True)
    def _make_clients(self, mcp_client):
        self.mcp_client = mcp_client

    def test_the_switch_of_a_client_is_written_nowhere(self):
        boss, order = User.objects.create_superuser("boss"), Order.objects.create(number="A1", total=1, email="a@b.de")

        client = self.mcp_client(boss, switched_on=["shop_order_close"])
        client.call("shop_order_close", ids=[order.pk])

        self.assertEqual(Order.objects.get().status, "closed")
        self.assertFalse(Tool.objects.filter(name="shop_order_close", enabled=True).exists())
        self.assertNotIn("shop_order_close", [tool["name"] for tool in self.mcp_client(boss).list_tools()])


class InATransaction(Closing, TestCase):
    pass


class WithoutATransaction(Closing, TransactionTestCase):
    pass
"""

#: The kit without pytest.
UNDER_UNITTEST = """
import traceback
from unittest import mock

from django.contrib.auth.models import User
from django.test import TestCase, TransactionTestCase

from mcp_django.exceptions import ToolError
from mcp_django.models import Tool
from mcp_django.test import MCPClient, ProtocolError

from .models import Order


class Kit:
    def setUp(self):
        self.boss = User.objects.create_superuser("boss")
        self.order = Order.objects.create(number="A1", total=1, email="a@b.de")

    def test_an_action_is_switched_on_for_one_client(self):
        with MCPClient(self.boss, switched_on=["shop_order_close"]) as client, MCPClient(self.boss) as other:
            client.call("shop_order_close", ids=[self.order.pk])
            with self.assertRaises(ProtocolError) as refused:
                other.call("shop_order_close", ids=[self.order.pk])

        self.assertEqual(Order.objects.get().status, "closed")
        self.assertEqual(refused.exception.true_reason, "shop_order_close is switched off.")
        self.assertFalse(Tool.objects.filter(name="shop_order_close", enabled=True).exists())
        with self.assertRaisesMessage(ValueError, "Did you mean shop_order_close?"):
            MCPClient(self.boss, switched_on=["shop_order_closed"])

    def test_an_exception_of_an_action_is_raised(self):
        def save(*args, **options):
            raise ZeroDivisionError

        with mock.patch.object(Order, "save", save):
            with MCPClient(self.boss, switched_on=["shop_order_close"]) as client:
                try:
                    client.call("shop_order_close", ids=[self.order.pk])
                except ZeroDivisionError as error:
                    frames = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
            with MCPClient(self.boss, switched_on=["shop_order_close"], raise_exceptions=False) as client:
                with self.assertRaisesMessage(ToolError, "shop_order_close failed") as told:
                    client.call("shop_order_close", ids=[self.order.pk])

        self.assertEqual(frames[-2:], ["close", "save"])
        self.assertEqual(told.exception.true_reason, "ZeroDivisionError")


class InATransaction(Kit, TestCase):
    pass


class WithoutATransaction(Kit, TransactionTestCase):
    pass
"""

#: What pytest-django does, for a project that does without it.
WITHOUT_PYTEST_DJANGO = """
import django
import pytest
from django.test.utils import setup_databases, setup_test_environment, teardown_databases

django.setup()


@pytest.fixture(scope="session", autouse=True)
def _databases():
    setup_test_environment()
    made = setup_databases(verbosity=0, interactive=False)
    yield
    teardown_databases(made, verbosity=0)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package as an installation has it: its modules, and the entry points of pyproject.toml."""
    folder = tmp_path_factory.mktemp("installed")
    for name in ("mcp_django", "pytest_mcp_django.py"):
        (folder / name).symlink_to(ROOT / name)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines = [f"{name} = {module}" for name, module in project["entry-points"]["pytest11"].items()]
    (info / "entry_points.txt").write_text("\n".join(["[pytest11]", *lines, ""]))
    return folder


@pytest.fixture(scope="module")
def shop(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The shop of the documentation with its tests."""
    project = start_project(tmp_path_factory.mktemp("shop"))
    project.variables = {"PYTHONPATH": str(installed), "DJANGO_SETTINGS_MODULE": "project.settings"}
    install(project)
    write_shop(project)
    (project.folder / "shop/test_both.py").write_text(UNDER_BOTH)
    (project.folder / "shop/test_unit.py").write_text(UNDER_UNITTEST)
    project.manage("makemigrations", "shop")
    return project


def run(folder: Path, environment: dict[str, str], *arguments: str) -> str:
    """The output of pytest, whose tests must pass."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", folder, *arguments]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=SECONDS
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_plugin_imports_nothing_of_django_before_a_fixture_is_used(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "test_nothing.py").write_text(WITHOUT_DJANGO)
    environment = {**Project(tmp_path, "", tmp_path).environment, "PYTHONPATH": str(installed)}

    assert "2 passed" in run(tmp_path, environment, "-p", "no:django", "-p", "no:xdist")


def test_the_examples_of_the_documentation_pass_under_pytest_django(shop: Project) -> None:
    said = run(shop.folder, shop.environment, "shop/test_agents.py", "shop/test_both.py")

    assert "5 passed" in said


def test_the_fixture_needs_no_pytest_django(shop: Project) -> None:
    (shop.folder / "conftest.py").write_text(WITHOUT_PYTEST_DJANGO)
    try:
        said = run(shop.folder, shop.environment, "-p", "no:django", "shop/test_both.py")
    finally:
        (shop.folder / "conftest.py").unlink()

    assert "2 passed" in said


def test_the_kit_and_the_example_of_the_documentation_pass_under_unittest(shop: Project) -> None:
    command = ["manage.py", "test", "shop.tests", "shop.test_unit"]
    done = forkserver.run(command, cwd=shop.folder, env=shop.environment)

    assert done.returncode == 0, done.stdout + done.stderr
    # Those of docs/testing.md, and the two of each class here.
    assert "Ran 10 tests" in done.stderr
