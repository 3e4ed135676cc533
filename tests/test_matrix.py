from __future__ import annotations

import sys
import tomllib
import warnings
from pathlib import Path
from typing import Any

import pytest

from mcp_django.checks.settings import NEWEST_DJANGO
from tests.matrix import PAIRS, ROOT, Pair, interpreter, requirements

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT: dict[str, Any] = PYPROJECT["project"]
HERE = "{}.{}".format(*sys.version_info)


def classified(topic: str) -> list[str]:
    """The versions with two numbers that the classifiers name of a topic."""
    versions = [name.removeprefix(f"{topic} :: ") for name in PROJECT["classifiers"] if name.startswith(f"{topic} :: ")]
    return [version for version in versions if "." in version]


def test_the_classifiers_name_what_is_tested() -> None:
    assert classified("Programming Language :: Python") == [pair.python for pair in PAIRS]
    assert classified("Framework :: Django") == list(dict.fromkeys(pair.series for pair in PAIRS))


def test_the_check_warns_above_the_newest_django_that_is_tested() -> None:
    assert ".".join(map(str, NEWEST_DJANGO)) == PAIRS[-1].series


def test_the_oldest_pair_is_the_main_environment_and_what_the_package_asks_for() -> None:
    [django] = [name for name in PROJECT["dependencies"] if name.startswith("django>")]

    assert f"Django=={PAIRS[0].django}" in (ROOT / "requirements.txt").read_text().splitlines()
    assert PROJECT["requires-python"] == f">={PAIRS[0].python}"
    assert django.startswith(f"django>={PAIRS[0].series}.")
    assert "<" not in django


def test_a_pair_has_the_pins_of_the_main_environment_with_its_own_django() -> None:
    main = requirements(PAIRS[0]).splitlines()
    newest = requirements(PAIRS[-1]).splitlines()

    assert {line.partition("==")[0] for line in set(main) ^ set(newest)} == {"Django", "django-tasks"}
    assert [line for line in newest if line.startswith("Django==")] == [f"Django=={PAIRS[-1].django}"]
    assert "pytest-django" in {line.partition("==")[0] for line in newest}


def test_a_pair_is_here_only_with_its_python_and_its_django() -> None:
    import django

    assert Pair(HERE, django.__version__).is_here
    assert not Pair(HERE, "5.1.1").is_here
    assert not Pair("3.9", django.__version__).is_here


def test_an_interpreter_of_pyenv_is_found_where_its_shim_stands_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shim = tmp_path / f"python{HERE}"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    for name in (f"{HERE}.2", f"{HERE}.10", f"{HERE}.11t"):
        (tmp_path / "versions" / name / "bin").mkdir(parents=True)
        (tmp_path / "versions" / name / "bin" / "python").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))

    assert interpreter(HERE) == str(tmp_path / "versions" / f"{HERE}.10" / "bin" / "python")


def test_an_interpreter_of_another_version_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "versions/3.9.1/bin").mkdir(parents=True)
    (tmp_path / "versions/3.9.1/bin/python").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))

    assert interpreter("3.9") is None
    assert interpreter("3.8") is None


class RemovedSomeDayWarning(PendingDeprecationWarning):
    """As Django has one for each of its versions."""


def warn_in(module: str, category: type[Warning]) -> None:
    warnings.warn_explicit("This goes away.", category, f"{module}.py", 1, module=module)


@pytest.mark.parametrize("module", ["mcp_django", "mcp_django.bridge.tools.actions", "demo_project.urls", "tests.shop"])
@pytest.mark.parametrize("category", [DeprecationWarning, PendingDeprecationWarning, RemovedSomeDayWarning])
def test_a_deprecation_warning_of_our_own_modules_is_an_error(module: str, category: type[Warning]) -> None:
    with pytest.raises(category):
        warn_in(module, category)


@pytest.mark.filterwarnings("ignore:This goes away.")
@pytest.mark.parametrize("module", ["mcp_django_other", "rest_framework.fields", "other.mcp_django"])
def test_a_deprecation_warning_of_other_modules_is_none_of_ours(module: str) -> None:
    warn_in(module, DeprecationWarning)
