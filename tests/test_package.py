"""What is released: a wheel and a source distribution, with all that the package is made of, and nothing else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.end_to_end.wheels import Built, build

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="module")
def metadata(built: Built) -> Message:
    [name] = [name for name in ZipFile(built.wheel).namelist() if name.endswith(".dist-info/METADATA")]
    return message_from_bytes(ZipFile(built.wheel).read(name))


def test_both_hold_every_file_of_the_package_and_neither_tests_nor_benchmarks(built: Built) -> None:
    files = {str(path.relative_to(built.source)) for path in built.source.rglob("mcp_django/**/*") if path.is_file()}
    files.add("pytest_mcp_django.py")

    in_wheel = set(ZipFile(built.wheel).namelist())
    with tarfile.open(built.sdist) as packed:
        in_sdist = {name.partition("/")[2] for name in packed.getnames()}

    assert files - in_sdist == set()
    # The translations are there as programs read them.
    assert {name for name in in_wheel if ".dist-info/" not in name} == {one for one in files if not one.endswith(".po")}
    assert in_sdist - files == {"LICENSE", "PKG-INFO", "pyproject.toml", "README.md"}
    assert {Path(name).name for name in in_wheel - files} == {
        "METADATA",
        "WHEEL",
        "RECORD",
        "entry_points.txt",
        "LICENSE",
    }
    # Of each kind that a build leaves out easily, one.
    for kind in ("asks.html", "console.css", "zh_Hans/LC_MESSAGES/django.mo", "py.typed"):
        assert any(name.endswith(kind) for name in files), kind


def test_the_same_sources_give_the_same_bytes_at_another_time_and_place(built: Built, tmp_path: Path) -> None:
    before = os.umask(0o077)

    try:
        again = build(tmp_path)
    finally:
        os.umask(before)

    assert again.wheel.read_bytes() == built.wheel.read_bytes()
    assert again.sdist.read_bytes() == built.sdist.read_bytes()


def test_an_index_accepts_both(built: Built) -> None:
    command = [sys.executable, "-m", "twine", "check", "--strict", built.wheel, built.sdist]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_readme_can_be_read_where_there_is_no_repository_around_it(metadata: Message) -> None:
    text = metadata.get_payload()

    assert text.startswith("# django-admin-mcp-server\n\nThe Django app `mcp_django`")
    assert [to for to in re.findall(r"\]\(([^)]*)\)", text) if not to.startswith("https://")] == []
    assert "<img" not in text and "![" not in text and "compares before and after" not in text


def test_pytest_finds_its_fixtures_and_an_index_its_licence(built: Built, metadata: Message) -> None:
    [entry_points] = [name for name in ZipFile(built.wheel).namelist() if name.endswith("entry_points.txt")]

    assert "[pytest11]\nmcp_django = pytest_mcp_django\n" in ZipFile(built.wheel).read(entry_points).decode()
    assert (metadata["License-Expression"], metadata["License-File"]) == ("BSD-3-Clause", "LICENSE")
