"""The documentation is true: its commands are run, and its examples are served."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import shutil
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.subscriptions import ResourceUpdated
from mcp_types import ElicitResult, PromptReference

from tests.conftest import need
from tests.end_to_end.conftest import ROWS
from tests.end_to_end.example_shop import ORDERS, write_shop
from tests.end_to_end.projects import PASSWORD, install, install_push, replace, set_up, start_project, token_of
from tests.end_to_end.sdk import connected, contents_of, text_of
from tests.end_to_end.servers import Person, Project, Served
from tests.support import forkserver
from tests.support.asking import words_of
from tests.support.loop import LoopThread
from tests.support.pages import blocks, cells

further = pytest.mark.more("in a fresh project; `make test` has the demo")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project to which everything was done that the documentation says, with three orders."""
    project = start_project(tmp_path_factory.mktemp("shop"))
    install(project)
    install_push(project)
    write_shop(project)
    project.manage("makemigrations", "shop")
    set_up(project)
    project.run(ORDERS)
    return project


@pytest.fixture(scope="module")
def printed(demo_project: Project) -> str:
    """What the demo prints."""
    return demo_project.manage("demo", "--no-serve", "--rows", ROWS)


# Tables.


def test_every_line_of_the_table_is_printed_by_the_demo(printed: str) -> None:
    named = [name for row in cells("docs/demo.md", "## What it prints") for name in re.findall(r"`([^`]+)`", row[0])]
    assert named == [
        "Open",
        "MCP endpoint",
        "WebSocket",
        "Admin",
        "Token",
        "Try it",
        "Claude Code",
        "Cursor",
        "MCP Inspector",
    ]
    for name in named:
        assert re.search(rf"^{name}\b", printed, re.MULTILINE), name


# Commands.


def test_the_first_question_gives_the_answer_that_is_shown(served: Served, token: str) -> None:
    need(shutil.which("curl") is not None, "curl")
    [question] = [block for block in blocks("README.md", "sh") if "curl" in block]
    [answer] = [json.loads(block, strict=False) for block in blocks("README.md", "json") if "jsonrpc" in block]
    command = question.replace("http://127.0.0.1:8000", served.origin)
    command = command.replace("cat .demo/token", f"cat {served.project.scratch}/token")

    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True, timeout=60)

    got = json.loads(done.stdout)
    page, expected = (json.loads(message["result"]["content"][0].pop("text")) for message in (got, answer))
    assert page.pop("next_cursor")
    assert expected.pop("next_cursor") == "..."
    assert page == expected
    assert got == answer


def test_the_clients_are_connected_as_the_demo_prints_it(printed: str, demo_folder: Path) -> None:
    token = (demo_folder / "token").read_text().strip()

    commands = [block.strip() for block in blocks("docs/clients.md", "sh") if "--transport http" in block]
    [claude] = [command for command in commands if command.startswith("claude")]
    [inspector] = [command.replace("\\\n", "").split() for command in commands if command.startswith("npx")]
    [cursor] = [json.loads(block) for block in blocks("docs/clients.md", "json") if '"url"' in block]
    anonymous = printed.replace(token, "TOKEN")

    assert claude in anonymous
    assert claude in [block.strip() for block in blocks("README.md", "sh")]
    assert " ".join(inspector) in " ".join(anonymous.replace("\\\n", "").split())
    assert json.dumps(cursor, indent=2) in anonymous


@further
def test_a_client_starts_the_server_as_its_configuration_says(shop: Project, serving_loop: LoopThread) -> None:
    """Each of the ways that the page shows has the same arguments."""
    [block] = [json.loads(block) for block in blocks("docs/clients.md", "json") if "mcp_stdio" in block]
    server = block["mcpServers"]["shop"]
    paths = {"/path/to/project/.venv/bin/python": sys.executable, "/path/to/project": str(shop.folder)}
    commands = [
        shlex.split(line)
        for block in blocks("docs/clients.md", "sh")
        if "mcp_stdio" in block
        for line in block.splitlines()
    ]

    async def conversation(command: str, *arguments: str) -> list[str]:
        started = StdioServerParameters(command=command, args=list(arguments), cwd="/", env=shop.environment)
        async with Client(stdio_client(started)) as client:
            return sorted(tool.name for tool in (await client.list_tools()).tools)

    replaced = [server["command"], *server["args"]]
    for path, real in paths.items():
        replaced = [part.replace(path, real) for part in replaced]
    tools = serving_loop.run(conversation(*replaced), 60)

    assert {"find_records", "shop_order_close"} <= set(tools)
    assert [" ".join(command[: command.index("mcp_stdio")]) for command in commands] == [
        "python manage.py",
        "claude mcp add shop -- /path/to/project/.venv/bin/python /path/to/project/manage.py",
        "npx @modelcontextprotocol/inspector --cli python manage.py",
    ]
    assert all(command[command.index("mcp_stdio") + 1 :][:2] == ["--user", "admin"] for command in commands)


@further
def test_the_command_for_a_token_prints_a_token_with_what_was_asked_for(shop: Project) -> None:
    [command] = [block.strip() for block in blocks("docs/access.md", "sh") if "--expires-in-days" in block]
    command = command.replace("python manage.py", f"{sys.executable} manage.py")

    done = subprocess.run(
        ["bash", "-c", command], cwd=shop.folder, env=shop.environment, capture_output=True, text=True, check=True
    )
    made = shop.run(
        "from mcp_django.models import AccessToken as T\n"
        "t = T.objects.latest('pk')\nprint(t.name, t.user, t.scopes, (t.expires_at - t.created_at).days)"
    )

    assert re.fullmatch(r"mcpdj_[0-9A-Za-z]{49}\n", done.stdout)
    assert made in (
        "Claude on my laptop admin ['read', 'actions'] 90\n",
        "Claude on my laptop admin ['read', 'actions'] 89\n",
    )


@further
def test_the_commands_of_a_review_tell_what_is_shown(shop: Project) -> None:
    [block] = [block for block in blocks("docs/inventory.md", "sh") if "--lock" in block]
    commands = [shlex.split(line, comments=True)[2:] for line in block.splitlines()]
    [shown] = [block for block in blocks("docs/inventory.md", "text") if "is out of date" in block]
    declarations = shop.folder / "shop/mcp.py"
    before = declarations.read_text()

    printed = [shop.manage(*command) for command in commands]
    try:
        replace(declarations, '"number", "status", "total"]', '"number", "status", "total", "email"]')
        replace(declarations, 'permission="shop.view_order", ', "")
        changed = forkserver.run(["manage.py", *commands[-1]], cwd=shop.folder, env=shop.environment)
    finally:
        declarations.write_text(before)

    assert "shop.order by OrderMCP: the rows of OrderMCP.get_queryset" in printed[0]
    assert printed[1].startswith("What the user admin with the scopes read reaches on the site mcp.")
    assert printed[2].endswith("No stored text looks like a secret. Up to 200 rows of each model were read.\n")
    assert printed[3:] == [
        "exposure.json holds what a superuser with the scopes read, actions, write reaches.\n",
        "exposure.json is up to date.\n",
    ]
    assert changed.returncode == 1
    assert changed.stderr == f"CommandError: {shown}"


@further
def test_the_lines_that_are_added_to_a_project_are_those_that_the_tests_add(shop: Project) -> None:
    [two] = [block for block in blocks("README.md", "python") if "INSTALLED_APPS" in block]
    shown = [block for block in blocks("docs/install.md", "python") if "INSTALLED_APPS" in block]

    assert len(shown) == 2 and shown[0] == two
    for lines, line, file in (
        (two, 'path("", include("mcp_django.urls"))', "urls.py"),
        (shown[1], 'ASGI_APPLICATION = "project.asgi.application"', "settings.py"),
        (shown[1], "application = mcp_django.routing.get_asgi_application()", "asgi.py"),
    ):
        assert line in lines
        assert line in (shop.folder / "project" / file).read_text()
    assert 'INSTALLED_APPS = [..., "mcp_django"]' in two
    assert 'INSTALLED_APPS = ["daphne", ..., "mcp_django"]' in shown[1]
    assert "import mcp_django\n" in (shop.folder / "project/asgi.py").read_text()


@further
def test_the_example_of_a_test_passes_in_a_fresh_project(shop: Project) -> None:
    assert "class OrderTests" in (shop.folder / "shop/tests.py").read_text()

    shop.manage("test", "shop")


# Declarations.


@further
def test_the_examples_of_declarations_do_what_is_said_of_them(shop: Project, serving_loop: LoopThread) -> None:
    progress: list[tuple[float, float | None]] = []
    lines: list[str] = []

    async def give_reason(context: Any, params: Any) -> ElicitResult:
        assert params.message == "Why should order A1 be cancelled?"
        return ElicitResult(action="accept", content={"reason": "out of stock"})

    async def note_progress(done: float, total: float | None, message: str | None) -> None:
        progress.append((done, total))

    async def note_line(done: float, total: float | None, message: str | None) -> None:
        lines.append(message or "")

    async def conversation(served: Served, token: str) -> dict[str, Any]:
        async with connected(served, token, elicitation_callback=give_reason) as client:

            async def call(name: str, **arguments: Any) -> str:
                return text_of(await client.call_tool(name, arguments))

            return {
                "tools": [tool.name for tool in (await client.list_tools()).tools],
                "orders": contents_of(await client.read_resource("db://shop/order")),
                "filtered": contents_of(
                    await client.read_resource("db://shop/order?status=open&order_by=-total&limit=10")
                ),
                "record": contents_of(await client.read_resource("db://shop/order/2")),
                "secret": await call("find_records", model="shop.order", filter={"email": "a@example.com"}),
                "turnover": await call("turnover"),
                "discount": await call("apply_discount", order=1, percent=10),
                "refused": await call("apply_discount", order=2, percent=10),
                "archived": await call("apply_discount", order=3, percent=10),
                "export": await client.call_tool("shop_order_export", {"ids": [1]}),
                "close": await call("shop_order_close", ids=[1]),
                "returns": await client.read_resource("shop://returns"),
                "news": [
                    (await client.read_resource(uri)).contents[0].text for uri in ("shop://open-orders", "shop://news")
                ],
                "letter": await client.get_prompt("answer_complaint", {"number": "A2", "tone": "formal"}),
                "invoice": await client.read_resource("shop://invoice/A2"),
                "numbers": await client.complete(
                    PromptReference(type="ref/prompt", name="answer_complaint"), {"name": "number", "value": "A"}
                ),
                "templates": [
                    found.uri_template for found in (await client.list_resource_templates()).resource_templates
                ],
                "label": [
                    block.type
                    for block in (await client.call_tool("label", {"city": "Ulm", "street": "Box 7"})).content
                ],
                "postage": await call("postage", country="DE"),
                "last": await call("order_of", email="a@example.com"),
                "large": await call("large_orders", least=10),
                "listing": await client.call_tool("list_orders", progress_callback=note_line),
                "checked": await client.call_tool("check_orders", progress_callback=note_progress),
                "cancelled": await call("cancel_order", order=1),
            }

    with shop.served() as served:
        said = serving_loop.run(conversation(served, served.token("admin")), 60)

    own = {"apply_discount", "turnover", "shop_order_export", "shop_order_close", "label", "postage", "cancel_order",
           "check_orders", "list_orders", "check_import", "order_of", "large_orders"}  # fmt: skip
    assert set(said["tools"]) == {"describe_models", "find_records", "get_record", "aggregate_records", *own}
    assert said["orders"]["columns"] == ["id", "number", "status", "total"]
    assert [row[1] for row in said["orders"]["rows"]] == ["A1", "A2"]
    assert [row[1] for row in said["filtered"]["rows"]] == ["A1"]
    assert said["record"] == {"number": "A2", "status": "closed", "total": "40.00", "to_pay": False}
    assert "Allowed: status, total." in said["secret"]
    assert Decimal(json.loads(said["turnover"])) == 40
    assert said["discount"] == "The total is now 90.00."
    assert words_of(said["refused"]) == "Order A2 is closed. Only an open order can be discounted."
    assert "no shop.order with the primary key 3" in said["archived"]
    about, file = said["export"].content
    assert about.text == "attached: orders.csv, text/csv, 1 line, 10 bytes"
    assert file.resource.text == "A1,90.00\r\n"
    assert said["close"] == "1 orders were closed."
    assert said["letter"].messages[0].content.text == (
        "Write a formal letter about order A2, which is closed. Ask me what went wrong."
    )
    assert said["invoice"].contents[0].text == "Order A2: 40.00 euros\n"
    assert said["numbers"].completion.values == ["A1", "A2"]
    assert {
        "db://shop/order/{id}",
        "db://shop/order{?status,total__exact,search,order_by,limit}",
        "shop://invoice/{number}",
    } <= set(said["templates"])
    assert said["returns"].contents[0].text == "# Returns\n\nWithin 30 days, with the receipt."
    assert said["news"] == ["0", "Nothing new."]
    assert shop.run("from shop.news import news, publish; publish('A sale.'); print(news(None))") == "A sale.\n"
    assert said["label"] == ["text", "resource", "resource_link"]
    assert json.loads(said["postage"]) == [200, 500]
    assert json.loads(said["last"])["result"]["number"] == "A1"
    assert [row[1] for row in json.loads(said["large"])["rows"]] == ["A1", "A2"]
    assert [json.loads(line) for line in "\n".join(lines).split("\n")] == said["listing"].structured_content
    assert [line["number"] for line in said["listing"].structured_content] == ["A2", "A3", "A1"]
    assert said["checked"].structured_content == 0
    assert progress == [(1, 3), (2, 3), (3, 3)]
    assert said["cancelled"] == "Cancelled: out of stock"


@pytest.fixture(scope="module")
def tenants(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with a middleware that matters, whose work the site of docs/sites.md does."""
    project = start_project(tmp_path_factory.mktemp("tenants"))
    install(project)
    install_push(project)
    write_shop(project)
    (project.folder / "shop/mcp.py").unlink()
    (project.folder / "shop/middleware.py").write_text("def tenants(get_response):\n    return get_response\n")
    settings = project.folder / "project/settings.py"
    replace(settings, "MIDDLEWARE = [\n", "MIDDLEWARE = [\n    'shop.middleware.tenants',\n")
    urls = project.folder / "project/urls.py"
    replace(urls, 'path("", include("mcp_django.urls"))', 'path("", site.urls)')
    exposed = (
        "from django.contrib.auth.models import Group\nfrom shop.tenant_site import site\n\nsite.register(Group)\n"
    )
    replace(urls, "\nurlpatterns = [", f"\n{exposed}\nurlpatterns = [")
    asgi = project.folder / "project/asgi.py"
    replace(asgi, "import mcp_django\n", "import mcp_django\nfrom django.core.asgi import get_asgi_application\n")
    replace(
        asgi,
        "application = mcp_django.routing.get_asgi_application()",
        "django_application = get_asgi_application()\n\nfrom shop.tenant_site import site\n\n"
        "application = mcp_django.routing.get_asgi_application(django_application, site=site)",
    )
    set_up(project)
    return project


@further
def test_a_call_context_answers_the_check_of_middleware_and_only_the_served_site_has_tools(tenants: Project) -> None:
    said = tenants.run(
        "from django.core.management import call_command\nfrom mcp_django.models import Tool\n"
        "call_command('check')\nprint(set(Tool.objects.values_list('site', flat=True)))"
    )

    assert said == "System check identified no issues (0 silenced).\n{'tenants'}\n"


@further
def test_a_site_with_its_own_call_context_enters_it_for_calls_and_for_checks_before_a_push(
    tenants: Project, serving_loop: LoopThread
) -> None:
    entered = tenants.folder / "shop/entered"

    async def conversation(served: Served, person: Person) -> tuple[int, Any, int]:
        async with (
            connected(served, token_of(tenants)) as client,
            client.listen(resource_subscriptions=["db://auth/group"]) as listening,
        ):
            await client.list_tools()
            called = len(entered.read_text().splitlines())
            await asyncio.to_thread(person.post, "/admin/auth/group/add/", name="mechanics")
            event = await asyncio.wait_for(anext(listening), 30)
            return called, event, len(entered.read_text().splitlines())

    with tenants.served() as served:
        person = Person(served, "admin", PASSWORD)
        called, event, checked = serving_loop.run(conversation(served, person), 60)
        person.close()

    assert event == ResourceUpdated(uri="db://auth/group")
    assert called >= 2
    assert checked == called + 1
    assert set(entered.read_text().splitlines()) == {"admin"}
