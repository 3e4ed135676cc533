"""``manage.py mcp_tools``: switches from a terminal, and in files."""

from __future__ import annotations

import io
import json
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import CommandError, call_command
from django.db.models.signals import post_save, pre_save

from mcp_django import MCPSite, site
from mcp_django.audit.recorder import recorder
from mcp_django.bridge.override_rows import make_tool_rows
from mcp_django.bridge.tools.saved_queries import MAX_SAVED, Parameter, write
from mcp_django.models import Call, Tool
from mcp_django.test import MCPClient
from tests.support import forkserver
from tests.support.data import make_flights
from tests.support.pages import blocks

CANCEL = "flights_flight_mark_cancelled"
CALL = {"model": "flights.flight", "filter": {"origin": "JFK"}, "limit": 3}


def run(*arguments: Any) -> str:
    printed = StringIO()
    call_command("mcp_tools", *arguments, stdout=printed, stderr=StringIO())
    return printed.getvalue()


def refused(*arguments: Any) -> str:
    with pytest.raises(CommandError) as raised:
        run(*arguments)
    return str(raised.value)


def stored() -> list[Any]:
    """Everything that rows of tools hold."""
    rows = Tool.objects.order_by("site", "name").prefetch_related("groups")
    return [
        (row.site, row.name, row.enabled, row.asks, row.description, row.query, row.restricted,
         [group.name for group in row.groups.all()])
        for row in rows
    ]  # fmt: skip


def saved(name: str = "departures", enabled: bool = True) -> Tool:
    text = write("find_records", CALL, [Parameter("origin", ("filter", "origin"))])
    return Tool.objects.create(site="mcp", name=name, enabled=enabled, description="Who leaves.", query=text)


@pytest.fixture
def decided(db: None) -> None:
    """An administrator has decided all that a page can set."""
    make_tool_rows("default")
    Tool.objects.filter(name=CANCEL).update(enabled=True, asks="approve", description="Cancel — only on Mondays.")
    limited = Tool.objects.get(name="aggregate_records")
    limited.groups.set([Group.objects.create(name="pilots"), Group.objects.create(name="cabin")])
    gone = Tool.objects.get(name="get_record")
    gone.groups.add(Group.objects.create(name="leavers"))
    Group.objects.get(name="leavers").delete()
    Tool.objects.filter(name="describe_models").update(enabled=False)
    saved()


# The list, --on and --off.


@pytest.mark.usefixtures("decided")
def test_the_list_tells_what_is_decided_about_each_tool() -> None:
    lines = run().splitlines()

    assert lines[0] == "Tools of the site mcp"
    assert f"on   {CANCEL}  (asks: approve; described by an administrator)" in lines
    assert "on   aggregate_records  (for cabin, pilots)" in lines
    assert "on   get_record  (for nobody: its groups are gone)" in lines
    assert "off  describe_models" in lines
    assert "on   departures  (a saved query; described by an administrator)" in lines
    assert len(lines) == 1 + Tool.objects.count()
    assert [line[:3] for line in lines[1:]] == sorted((line[:3] for line in lines[1:]), reverse=True)


@pytest.mark.usefixtures("db")
def test_tools_are_switched_on_and_off_and_each_change_is_printed() -> None:
    printed = run("--on", CANCEL, "find_records", "--off", "get_record", "describe_models")

    assert printed.splitlines() == [
        "mcp describe_models enabled: false, was true",
        f"mcp {CANCEL} enabled: true, was false",
        "mcp get_record enabled: false, was true",
    ]
    on = dict(Tool.objects.values_list("name", "enabled"))
    assert (on[CANCEL], on["find_records"], on["get_record"], on["describe_models"]) == (True, True, False, False)
    assert run("--on", CANCEL) == "There is nothing to change.\n"


@pytest.mark.usefixtures("db")
def test_a_tool_that_the_command_switches_on_is_there_for_agents_at_once() -> None:
    make_flights(1)
    with MCPClient(User.objects.create_superuser("root")) as client:
        client.watch_lists()
        run("--on", CANCEL)

        client.wait_for("notifications/tools/list_changed")
        assert "1 flight" in client.call(CANCEL, ids=[1]).text


@pytest.mark.usefixtures("db")
def test_an_unknown_name_is_an_error_and_nothing_is_changed() -> None:
    make_tool_rows("default")
    before = stored()

    said = refused("--on", CANCEL, "flights_flight_mark_canceled", "--off", "get_rekord")

    assert f"mcp flights_flight_mark_canceled: there is no such tool. Did you mean {CANCEL}?" in said
    assert "mcp get_rekord: there is no such tool. Did you mean get_record?" in said
    assert "both on and off" in refused("--on", CANCEL, "--off", CANCEL)
    assert "Nothing was changed." in said
    assert stored() == before


@pytest.mark.usefixtures("transactional_db", "trail")
def test_the_trail_says_what_a_command_has_changed() -> None:
    run("--on", CANCEL)
    recorder.flush()

    line = Call.objects.get(kind=Call.Kind.SWITCH)
    assert (line.reason, line.name, line.transport, line.method) == ("on", CANCEL, "command", "manage.py mcp_tools")
    assert (line.user_name, str(line)) == ("", f"{CANCEL} by a command")


# Files.


@pytest.mark.usefixtures("decided")
def test_what_was_decided_is_restored_from_a_file_whole(tmp_path: Path) -> None:
    file, before = tmp_path / "tools.json", stored()
    run("--export", file)
    written = file.read_text()
    Tool.objects.all().delete()
    make_tool_rows("default")

    assert f'mcp {CANCEL} asks: "approve", was ""' in refused("--import", file, "--check")
    printed = run("--import", file)

    assert stored() == before
    assert "mcp get_record groups: [], was null" in printed.splitlines()
    assert run("--import", file) == "There is nothing to change.\n"
    assert run("--import", file, "--check") == f"All is as {file} says.\n"
    run("--export", file)
    assert file.read_text() == written == run("--export", "-")
    assert list(json.loads(written)["sites"]) == ["mcp"]
    assert list(json.loads(written)["sites"]["mcp"]) == sorted(json.loads(written)["sites"]["mcp"])


@pytest.mark.usefixtures("decided")
def test_a_tool_whose_groups_are_gone_is_open_to_nobody_after_an_import_elsewhere(tmp_path: Path) -> None:
    file = tmp_path / "tools.json"
    run("--export", file)
    Tool.objects.all().delete()

    run("--import", file)

    with MCPClient(User.objects.create_superuser("root")) as client:
        assert "get_record" not in {tool["name"] for tool in client.list_tools()}


@pytest.mark.usefixtures("decided")
def test_an_import_changes_only_what_the_file_names(tmp_path: Path) -> None:
    file = tmp_path / "tools.json"
    file.write_text(
        json.dumps({"sites": {"mcp": {CANCEL: {"enabled": False}, "describe_models": {"groups": ["pilots"]}}}})
    )
    before = {row[1]: row for row in stored()}

    printed = run("--import", file)

    after = {row[1]: row for row in stored()}
    assert printed.splitlines() == [
        'mcp describe_models groups: ["pilots"], was null', f"mcp {CANCEL} enabled: false, was true",
    ]  # fmt: skip
    assert {name for name in after if after[name] != before[name]} == {CANCEL, "describe_models"}
    assert after[CANCEL] == (*before[CANCEL][:2], False, *before[CANCEL][3:])
    assert after["describe_models"][2] is False and after["describe_models"][-2:] == (True, ["pilots"])


@pytest.mark.usefixtures("db")
def test_a_check_changes_nothing_and_fails_on_a_difference(tmp_path: Path) -> None:
    file = tmp_path / "tools.json"
    file.write_text(json.dumps({"sites": {"mcp": {CANCEL: {"enabled": True}}}}))
    Tool.objects.all().delete()

    said = refused("--import", file, "--check")

    assert f"mcp {CANCEL} enabled: true, was false" in said
    assert f"manage.py mcp_tools --import {file}" in said
    assert stored() == []


def _of(**tools: Any) -> str:
    return json.dumps({"sites": {"mcp": tools}})


def _saved(**changed: Any) -> str:
    query = {"tool": "find_records", "arguments": CALL, "parameters": [], **changed}
    return _of(departures={"enabled": True, "query": query})


#: A file → what is wrong with it.
WRONG: dict[str, str] = {
    "": "It is no JSON",
    "[]": 'It must be {"sites": ',
    '{"sites": {}, "prompts": {}}': 'It must be {"sites": ',
    '{"sites": {"mpc": {}}}': "There is no site 'mpc'. Did you mean mcp?",
    '{"sites": {"mcp": []}}': "mcp must be an object of tools.",
    '{"sites": {"mcp": {"get_record": {}, "get_record": {}}}}': "'get_record' is there twice",
    _of(get_rekord={"enabled": True}): "mcp get_rekord: there is no such tool. Did you mean get_record?",
    _of(get_record=True): 'mcp get_record must be an object, as {"enabled": true}.',
    _of(get_record={"enable": True}): "no field 'enable'. Did you mean enabled?",
    _of(get_record={"enabled": 1}): "enabled must be true or false.",
    _of(get_record={"description": None}): "description must be a text.",
    _of(get_record={"groups": "pilots"}): "groups must be null, for everybody, or a list of names.",
    _of(get_record={"groups": ["pilot"]}): "there is no group 'pilot'. Did you mean pilots?",
    _of(get_record={"asks": "approve"}): "asks does not go with a tool that only reads.",
    _of(update_record={"asks": "me"}): 'asks must be one of "", "ask", "approve".',
    _of(get_record={"query": {}}): "the project has a tool of this name.",
    _saved(tool="create_record"): "Calls of create_record cannot be saved.",
    _saved(arguments={**CALL, "model": "flights.flihgt"}): "The model flights.flihgt cannot be read.",
    _saved(arguments={**CALL, "filter": {"orign": "JFK"}}): "orign",
    _saved(arguments={**CALL, "limits": 3}): "limits",
    _saved(parameters=[{"name": "x", "place": ["y"], "description": "", "optional": False}]): "There is no value at y.",
    _of(**{"not a name": {"query": {"tool": "find_records", "arguments": CALL, "parameters": []}}}): "query: ",
    _of(departures={"query": None}): "query: ",
    _of(**{f"q{number}": {"query": {"tool": "find_records", "arguments": CALL, "parameters": []}}
           for number in range(MAX_SAVED + 1)}): f"there may be {MAX_SAVED}",
}  # fmt: skip


@pytest.mark.usefixtures("db")
def test_the_example_of_docs_admin_md_is_a_file_of_switches(tmp_path: Path) -> None:
    [example] = blocks("docs/admin.md", "json")
    Group.objects.create(name="clerks")
    file = tmp_path / "tools.json"
    file.write_text(example.replace("shop_order_close", CANCEL))

    assert run("--import", file).splitlines() == [
        f"mcp {CANCEL} enabled: true, was false", f'mcp {CANCEL} asks: "approve", was ""',
        f'mcp {CANCEL} groups: ["clerks"], was null',
    ]  # fmt: skip


@pytest.mark.usefixtures("db")
def test_a_file_that_says_what_no_page_can_set_is_refused_whole(tmp_path: Path) -> None:
    Group.objects.create(name="pilots")
    make_tool_rows("default")
    before, file = stored(), tmp_path / "tools.json"
    for text, wrong in WRONG.items():
        more = text.replace('{"sites": {"mcp": {', f'{{"sites": {{"mcp": {{"{CANCEL}": {{"enabled": true}}, ')
        file.write_text(more)

        for check in ([], ["--check"]):
            said = refused("--import", file, *check)
            assert wrong in said and said.startswith(f"{file} cannot be used:"), (text, said)
        assert stored() == before, text


@pytest.mark.usefixtures("db")
def test_options_that_do_not_go_together_and_files_that_cannot_be_used_say_so(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")

    assert "--check: name the file" in refused("--check")
    assert "do not go with a file" in refused("--on", CANCEL, "--export", tmp_path / "x")
    assert "the file names its sites" in refused("--import", tmp_path / "x", "--site", "mcp")
    assert "cannot be read: No such file" in refused("--import", tmp_path / "absent")
    assert "is no text in UTF-8" in refused("--import", tmp_path / "binary")
    assert "cannot be written" in refused("--export", tmp_path / "no" / "folder")
    assert not (tmp_path / "x").exists()


@pytest.mark.usefixtures("db")
def test_a_file_comes_through_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(_of(**{CANCEL: {"enabled": True}})))

    assert run("--import", "-") == f"mcp {CANCEL} enabled: true, was false\n"


@pytest.mark.usefixtures("db")
def test_each_site_has_its_own_switches(tmp_path: Path) -> None:
    other = MCPSite("other")
    file = tmp_path / "tools.json"
    try:
        file.write_text(
            json.dumps({"sites": {name: {CANCEL: {"enabled": name == "other"}} for name in ("mcp", "other")}})
        )

        assert run("--import", file) == f"other {CANCEL} enabled: true, was false\n"
        assert f"on   {CANCEL}" in run("--site", "other")
        assert f"off  {CANCEL}" in run("--site", site.name)
    finally:
        del other


@pytest.mark.usefixtures("db")
def test_what_another_process_changes_of_the_same_tool_meanwhile_is_kept(tmp_path: Path) -> None:
    """As if it had read the row before, and written between our reading and our writing."""
    make_tool_rows("default")

    def meanwhile(instance: Tool, **kwargs: Any) -> None:
        Tool.objects.filter(pk=instance.pk).update(description="Theirs.", asks="ask")

    pre_save.connect(meanwhile, sender=Tool)
    try:
        run("--on", CANCEL)
    finally:
        pre_save.disconnect(meanwhile, sender=Tool)

    row = Tool.objects.get(name=CANCEL)
    assert (row.enabled, row.asks, row.description) == (True, "ask", "Theirs.")


@pytest.mark.usefixtures("db")
def test_an_import_that_fails_on_the_way_changes_nothing(tmp_path: Path) -> None:
    make_tool_rows("default")
    file = tmp_path / "tools.json"
    file.write_text(_of(describe_models={"enabled": False}, **{CANCEL: {"enabled": True}}))
    before = stored()

    def fail(instance: Tool, **kwargs: Any) -> None:
        if instance.name == CANCEL:
            raise RuntimeError

    post_save.connect(fail, sender=Tool)
    try:
        with pytest.raises(RuntimeError):
            run("--import", file)
    finally:
        post_save.disconnect(fail, sender=Tool)

    assert stored() == before


@pytest.mark.slow
@pytest.mark.every_database
@pytest.mark.django_db(transaction=True)
def test_two_processes_at_once_lose_no_change(tmp_path: Path) -> None:
    from tests.push.processes import ROOT, environment

    make_tool_rows("default")
    names = list(Tool.objects.order_by("name").values_list("name", flat=True))
    first, second = (tmp_path / f"{number}.json" for number in range(2))
    first.write_text(_of(**{name: {"enabled": True} for name in names}))
    second.write_text(_of(**{name: {"description": "Theirs."} for name in reversed(names)}))

    processes = [
        forkserver.start(["manage.py", "mcp_tools", "--import", file], cwd=ROOT, env=environment(""))
        for file in (first, second)
    ]  # fmt: skip

    assert [process.wait(120) for process in processes] == [0, 0]
    assert set(Tool.objects.values_list("enabled", "description")) == {(True, "Theirs.")}
