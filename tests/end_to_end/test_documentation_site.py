"""``make docs``: the pages are a site without a warning, which asks no other host for anything."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.documentation import llms
from tests.support.pages import ROOT

pytestmark = pytest.mark.more("builds the documentation as a site")

#: What a browser fetches by itself.
_FETCHED = re.compile(r"<(?:script|img|iframe|source|link)\b[^>]*?\b(?:src|href)=\"?((?:https?:)?//[^\s\">]+)")


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Nothing is printed."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site."""
    folder = tmp_path_factory.mktemp("documentation")
    shutil.copytree(ROOT / "docs", folder / "docs")
    shutil.copy(ROOT / "zensical.toml", folder)
    program = Path(sys.executable).with_name("zensical")

    done = subprocess.run([program, "build", "--strict"], cwd=folder, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning" not in (done.stdout + done.stderr).lower()
    llms.write(folder / "site")
    return folder / "site"


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_every_page_is_there(site: Path) -> None:
    pages = [path.relative_to(ROOT / "docs").with_suffix("") for path in ROOT.glob("docs/**/*.md")]

    assert [page for page in pages if page.name != "README" and not (site / page / "index.html").exists()] == []
    assert (site / "index.html").exists()


def test_language_models_find_each_page_as_markdown(site: Path) -> None:
    short, full = (site / name for name in ("llms.txt", "llms-full.txt"))
    pages = [path.relative_to(ROOT / "docs") for path in ROOT.glob("docs/**/*.md")]

    linked = re.findall(r"^- \[.+?\]\((.+?)\): \S", short.read_text(), re.MULTILINE)

    assert sorted([*linked, "README.md"]) == sorted(map(str, pages))
    assert [page for page in pages if (ROOT / "docs" / page).read_text() not in full.read_text()] == []
    assert [page for page in pages if not (site / page).exists()] == []


def test_no_page_names_a_font_script_or_picture_of_another_host(site: Path) -> None:
    fetched = {url for page in site.rglob("*.html") for url in _FETCHED.findall(page.read_text())}
    imported = {
        url for sheet in site.rglob("*.css") for url in re.findall(r"url\(['\"]?(https?:[^)]+)", sheet.read_text())
    }

    assert fetched == set()
    assert imported == set()


def test_a_browser_asks_no_other_host(browser: Browser, address: str) -> None:
    page = browser.new_page()
    asked: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: complaints.append(str(error)))

    for path in ("", "tutorial/", "settings/", "queries/"):
        page.goto(f"{address}/{path}", wait_until="networkidle")
    page.close()

    assert len(asked) > 4
    assert [url for url in asked if not url.startswith(address)] == []
    assert complaints == []
