"""The command of a release asks before it uploads, and refuses what is no release."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.conftest import need
from tests.support.pages import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.more("builds a release twice")]

FILES = ("pyproject.toml", "README.md", "SECURITY.md", "LICENSE", "Makefile", ".gitignore", "pytest_mcp_django.py")


class Index:
    """A package index of the test's own. It keeps the names of what it is given."""

    def __init__(self) -> None:
        given: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                given.extend(re.findall(rb'filename="([^"]+)"', body))  # type: ignore[arg-type]
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self.given = given
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/legacy/"


@pytest.fixture
def index() -> Iterator[Index]:
    made = Index()
    yield made
    made.server.shutdown()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The files of a release in a repository of their own, with the environment of this one."""
    need((ROOT / ".venv/test.stamp").exists(), "the environment of make test")
    made = tmp_path / "checkout"
    shutil.copytree(ROOT / "mcp_django", made / "mcp_django", ignore=shutil.ignore_patterns("__pycache__"))
    for name in (*FILES, *(path.name for path in ROOT.glob("requirements*.txt"))):
        shutil.copy2(ROOT / name, made)
    for name in (".ci/publish", "docs/changelog.md"):
        (made / name).parent.mkdir()
        shutil.copy2(ROOT / name, made / name)
    (made / ".venv").symlink_to(ROOT / ".venv")
    git(made, "init", "--quiet")
    commit(made)
    return made


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=tests", "-c", "user.email=tests@example.com")
    done = subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


def commit(folder: Path) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "A release")


def replace(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))
    commit(file.parent)


def publish(folder: Path, index: Index, typed: str) -> subprocess.CompletedProcess[str]:
    given = {"TWINE_REPOSITORY_URL": index.url, "TWINE_USERNAME": "__token__", "TWINE_PASSWORD": "none"}
    return subprocess.run(
        ["make", "--silent", "publish"], cwd=folder, env={**os.environ, **given}, input=typed, text=True,
        capture_output=True, check=False, timeout=280,
    )  # fmt: skip


def test_a_release_is_uploaded_once_its_version_was_typed(checkout: Path, index: Index) -> None:
    assert "no heading '## 0.1.0 (YYYY-MM-DD)'" in publish(checkout, index, "").stderr
    changelog = checkout / "docs/changelog.md"
    changelog.write_text(changelog.read_text().replace("## 0.1.0 (unreleased)", "## 0.1.0 (2026-12-24)"))
    assert "Commit or remove" in publish(checkout, index, "").stderr
    commit(checkout)
    assert "has no Source" in publish(checkout, index, "").stderr
    replace(checkout / "pyproject.toml", "[project.urls]", '[project.urls]\nSource = "https://example.org/source"')
    said = publish(checkout, index, "").stderr
    assert "README.md:" in said and "SECURITY.md:" in said
    replace(checkout / "README.md", "Until it is on PyPI", "Without an index")
    replace(checkout / "SECURITY.md", "Nothing has been released yet. ", "")

    refused = publish(checkout, index, "yes\n")
    assert refused.returncode != 0 and "Nothing was uploaded." in refused.stderr
    assert index.given == [] and git(checkout, "tag") == ""

    done = publish(checkout, index, "0.1.0\n")
    assert done.returncode == 0, done.stdout + done.stderr
    assert {bytes(name).split(b"-")[0] for name in index.given} == {b"django_admin_mcp_server"}
    assert len(index.given) == 2 and git(checkout, "tag") == "v0.1.0\n"
    assert "The tag v0.1.0 exists" in publish(checkout, index, "0.1.0\n").stderr
