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
from playwright.sync_api import Browser, expect

from tests.documentation import llms
from tests.support.pages import ROOT

pytestmark = pytest.mark.more("builds the documentation as a site")

#: What people look for → the pages that answer it.
QUESTIONS = {
    "permission denied": ["troubleshooting"],
    "401": ["troubleshooting"],
    "403": ["troubleshooting"],
    "406": ["troubleshooting"],
    "421": ["troubleshooting"],
    "CORS": ["troubleshooting"],
    "unknown tool": ["troubleshooting"],
    "slow": ["troubleshooting"],
    "nothing is pushed": ["troubleshooting"],
    "FAQ": ["troubleshooting"],
    "token expired": ["troubleshooting"],
    "hide a field": ["models"],
    "change the description of a tool": ["admin"],
    "add a tool": ["tools"],
    "pytest": ["testing"],
    "django rest framework": ["api"],
    "file upload": ["uploads"],
    "read only": ["pausing"],
    "stop all agents": ["pausing"],
    "approve a deletion": ["changes", "approving"],
    "undo a change": ["changes"],
    "audit log": ["audit"],
    "rate limit": ["limits"],
    "only my own rows": ["cookbook"],
    "celery": ["cookbook"],
    "custom user model": ["cookbook"],
    "several databases": ["cookbook"],
    "multi-tenant": ["sites", "cookbook"],
    "connect claude": ["clients/claude"],
    "connect chatgpt": ["clients/chatgpt"],
    "VS Code": ["clients/vscode"],
    "prompt injection": ["decide"],
    "uninstall": ["decide"],
    "GDPR": ["decide"],
    "allauth": ["oauth"],
    "redis": ["processes"],
    "nginx": ["proxies"],
    "kubernetes": ["containers"],
    "windows": ["install"],
    "upgrade": ["upgrade"],
}
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
    site = built(folder)
    llms.write(site)
    return site


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def built(folder: Path) -> Path:
    """The site that zensical makes of the folder. It warns of nothing."""
    program = Path(sys.executable).with_name("zensical")

    done = subprocess.run([program, "build", "--strict"], cwd=folder, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning" not in (done.stdout + done.stderr).lower()
    return folder / "site"


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


def test_the_address_and_the_link_to_edit_a_page_come_from_two_values(site: Path, tmp_path: Path) -> None:
    settings = (ROOT / "zensical.toml").read_text()
    known = re.sub(r"^# (site_url|repo_url) =", r"\1 =", settings, flags=re.MULTILINE)
    (tmp_path / "zensical.toml").write_text(re.sub(r"^nav = \[.*?^\]\n", "", known, flags=re.MULTILINE | re.DOTALL))
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/README.md").write_text("# First\n")
    links = r'<link rel="canonical" href="([^"]+)"', r'<a href="([^"]+)"[^>]+ rel="edit"'

    said = [re.findall(link, (built(tmp_path) / "index.html").read_text()) for link in links]
    unsaid = [re.findall(link, (site / "index.html").read_text()) for link in links]

    assert said == [["https://docs.example.org/"], ["https://github.com/owner/name/edit/main/docs/README.md"]]
    assert unsaid == [[], []]


@pytest.mark.parametrize(
    ("path", "page"), [("", "README.md"), ("tutorial/", "tutorial.md"), ("clients/zed/", "clients/zed.md")]
)
def test_a_button_copies_the_markdown_of_a_page(browser: Browser, address: str, path: str, page: str) -> None:
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    tab = context.new_page()
    tab.goto(f"{address}/{path}")

    tab.get_by_role("button", name="Copy page").click()
    tab.get_by_role("button", name="Copied").wait_for()
    copied = tab.evaluate("navigator.clipboard.readText()")
    context.close()

    assert copied == (ROOT / "docs" / page).read_text()


def test_a_search_finds_the_right_page_first(browser: Browser, address: str) -> None:
    page = browser.new_page()
    page.goto(f"{address}/", wait_until="networkidle")
    page.keyboard.press("/")
    field = page.get_by_role("combobox")
    results = page.locator("li a", has=page.locator("h2"))
    found: dict[str, str] = {}

    for question in QUESTIONS:
        field.fill("")
        expect(results).to_have_count(0)
        field.fill(question)
        results.first.wait_for()
        found[question] = results.first.get_attribute("href") or ""
    page.close()

    wrong = {
        question: found[question]
        for question, pages in QUESTIONS.items()
        if found[question].removeprefix(f"{address}/").partition("?")[0].partition("#")[0].strip("/") not in pages
    }
    assert len(QUESTIONS) >= 30
    assert wrong == {}
