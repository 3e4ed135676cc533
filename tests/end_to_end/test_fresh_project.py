"""A project fresh from ``startproject``, with the lines added that the README names, and its models registered."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp.client.subscriptions import ResourceUpdated

from tests.end_to_end.projects import PASSWORD, expose, install, install_push, replace, set_up, start_project, token_of
from tests.end_to_end.sdk import connected
from tests.end_to_end.servers import Person, Project, Served
from tests.support.loop import LoopThread

further = pytest.mark.more("a further story of a fresh project")

pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")


@pytest.fixture(scope="module")
def pushing(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """With the lines for ASGI."""
    project = start_project(tmp_path_factory.mktemp("pushing"))
    install(project)
    expose(project, "Group", "User")
    install_push(project)
    set_up(project)
    return project


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Without daphne and without a line for ASGI."""
    project = start_project(tmp_path_factory.mktemp("plain"))
    install(project)
    expose(project, "Group", "User")
    set_up(project)
    return project


@pytest.fixture(scope="module")
def awkward(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """With mcp_django ahead of the admin, and an admin that is registered in urls.py."""
    project = start_project(tmp_path_factory.mktemp("awkward"))
    install(project, first=True)
    expose(project, "Group", "Permission", "User")
    install_push(project)
    registration = "from django.contrib.auth.models import Permission\n\nadmin.site.register(Permission)\n"
    replace(project.folder / "project/urls.py", "\nurlpatterns = [", f"\n{registration}\nurlpatterns = [")
    set_up(project)
    return project


@pytest.fixture(scope="module")
def under_gunicorn(plain: Project) -> Iterator[Served]:
    with plain.served("gunicorn") as served:
        yield served


async def groups(client: Client) -> Any:
    found = await client.call_tool("find_records", {"model": "auth.group", "fields": ["name"]})
    return found.structured_content


async def resources(client: Client) -> list[str]:
    return [str(resource.uri) for resource in (await client.list_resources()).resources]


@further
@pytest.mark.parametrize("name", ["pushing", "plain", "awkward"])
def test_the_system_check_is_silent_and_no_migration_is_missing(name: str, request: pytest.FixtureRequest) -> None:
    project: Project = request.getfixturevalue(name)

    said = project.run(
        "from django.core.management import call_command as call; "
        "call('check'); call('makemigrations', check_changes=True, dry_run=True)",
    )

    assert said == "System check identified no issues (0 silenced).\nNo changes detected\n"


def test_under_daphne_the_admin_of_the_project_is_served_and_a_change_is_pushed(
    pushing: Project, serving_loop: LoopThread
) -> None:
    async def conversation(served: Served, person: Person) -> tuple[list[str], Any, Any, Any]:
        async with connected(served, token_of(pushing)) as client:
            before = await groups(client)
            async with client.listen(resource_subscriptions=["db://auth/group"]) as listening:
                await asyncio.to_thread(person.post, "/admin/auth/group/add/", name="mechanics")
                event = await asyncio.wait_for(anext(listening), 30)
            return await resources(client), before, event, await groups(client)

    with pushing.served("daphne") as served:
        person = Person(served, "admin", PASSWORD)
        listed, before, event, after = serving_loop.run(conversation(served, person), 60)
        person.close()

    assert listed == ["db://auth/group", "db://auth/user"]
    assert before == {"columns": ["id", "name"], "rows": [[1, "pilots"]]}
    assert event == ResourceUpdated(uri="db://auth/group")
    assert after == {"columns": ["id", "name"], "rows": [[2, "mechanics"], [1, "pilots"]]}


@further
def test_under_wsgi_tools_and_resources_work(under_gunicorn: Served, serving_loop: LoopThread) -> None:
    async def conversation() -> tuple[list[str], Any]:
        async with connected(under_gunicorn, token_of(under_gunicorn.project)) as client:
            return await resources(client), await groups(client)

    listed, found = serving_loop.run(conversation(), 60)

    assert listed == ["db://auth/group", "db://auth/user"]
    assert found == {"columns": ["id", "name"], "rows": [[1, "pilots"]]}


@further
@pytest.mark.parametrize(
    ("mode", "method"), [("legacy", "resources/subscribe"), ("2026-07-28", "subscriptions/listen")]
)
def test_under_wsgi_push_is_refused_with_the_reason(
    under_gunicorn: Served, serving_loop: LoopThread, mode: str, method: str
) -> None:
    async def conversation() -> MCPError:
        async with connected(under_gunicorn, token_of(under_gunicorn.project), mode) as client:
            with pytest.raises(MCPError) as refusal:
                if mode == "legacy":
                    await client.subscribe_resource("db://auth/group")
                else:
                    async with client.listen(resource_subscriptions=["db://auth/group"]):
                        pass
            return refusal.value

    error = serving_loop.run(conversation(), 60)

    assert (error.code, error.data["reason"]) == (-32601, "PUSH_UNAVAILABLE")
    assert error.message == (
        f"Method not found: {method}. This server runs under WSGI, which cannot push. Serve the project with an ASGI "
        "server (daphne or uvicorn) to offer subscriptions."
    )


@further
def test_the_password_of_a_user_is_not_among_what_agents_read(under_gunicorn: Served, serving_loop: LoopThread) -> None:
    async def conversation() -> Any:
        async with connected(under_gunicorn, token_of(under_gunicorn.project)) as client:
            return (await client.call_tool("find_records", {"model": "auth.user"})).structured_content

    found = serving_loop.run(conversation(), 60)

    assert "username" in found["columns"]
    assert "password" not in found["columns"]
    assert "pbkdf2" not in str(found)


@further
def test_under_runserver_admins_that_come_late_are_served_and_watched(
    awkward: Project, serving_loop: LoopThread
) -> None:
    uris = ["db://auth/group/1", "db://auth/permission/1"]

    async def conversation(served: Served, person: Person) -> tuple[list[str], list[str]]:
        permission = {"name": "May add it", "content_type": "1", "codename": "add_logentry"}
        async with (
            connected(served, token_of(awkward)) as client,
            client.listen(resource_subscriptions=uris) as listening,
        ):
            await asyncio.to_thread(person.post, "/admin/auth/permission/1/change/", **permission)
            told = [await asyncio.wait_for(anext(listening), 30)]
            await asyncio.to_thread(person.post, "/admin/auth/group/1/change/", name="captains")
            told.append(await asyncio.wait_for(anext(listening), 30))
            return await resources(client), [str(event.uri) for event in told if isinstance(event, ResourceUpdated)]

    with awkward.served("runserver") as served:
        person = Person(served, "admin", PASSWORD)
        listed, told = serving_loop.run(conversation(served, person), 60)
        person.close()

    assert listed == ["db://auth/group", "db://auth/permission", "db://auth/user"]
    assert told == ["db://auth/permission/1", "db://auth/group/1"]
