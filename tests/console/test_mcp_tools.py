"""``manage.py mcp_tools``: switches from a terminal, and in files."""

from __future__ import annotations

import io
import json
import re
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
from mcp_django.models import Call, Restriction, Tool
from mcp_django.test import MCPClient
from tests.support import forkserver
from tests.support.data import make_flights
from tests.support.pages import blocks

CANCEL = "flights_flight_mark_cancelled"
FLIGHT, TAILNUM = "flights.flight", "flights.flight.tailnum"
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
    """Everything that rows of tools, models and fields hold."""
    rows = Tool.objects.order_by("site", "name").prefetch_related("groups")
    tools = [
        (row.site, row.name, row.enabled, row.asks, row.description, row.query, row.restricted,
         [group.name for group in row.groups.all()])
        for row in rows
    ]  # fmt: skip
    return [*tools, *sorted(closed())]


def closed() -> set[tuple[str, str, str]]:
    return set(Restriction.objects.values_list("site", "kind", "name"))


def close(*rows: tuple[str, str, str]) -> None:
    for where, kind, name in rows:
        Restriction.objects.create(site=where, kind=kind, name=name)


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
    close(("mcp", "model", "flights.airport"), ("mcp", "field", TAILNUM))


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
    assert lines[-2:] == ["off  flights.airport  (a model)", f"off  {TAILNUM}  (a field)"]
    assert len(lines) == 1 + Tool.objects.count() + 2
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


@pytest.mark.usefixtures("transactional_db", "trail")
def test_models_and_fields_are_switched_by_their_names_with_a_line_in_the_trail_for_each() -> None:
    close(("mcp", "model", "flights.gone"))

    printed = run("--off", TAILNUM, FLIGHT, "get_record", "--on", "flights.gone")
    again = run("--on", FLIGHT, "--off", TAILNUM)
    recorder.flush()

    assert printed.splitlines() == [
        "mcp get_record enabled: false, was true", f"mcp {FLIGHT} enabled: false, was true",
        f"mcp {TAILNUM} enabled: false, was true", "mcp flights.gone enabled: true, was false",
    ]  # fmt: skip
    assert again.splitlines() == [f"mcp {FLIGHT} enabled: true, was false"]
    assert closed() == {("mcp", "field", TAILNUM)}
    lines = Call.objects.filter(kind=Call.Kind.SWITCH, model="mcp_django.restriction").order_by("pk")
    assert [(line.name, line.reason, line.site, line.transport) for line in lines[1:]] == [
        (FLIGHT, "off", "mcp", "command"), (TAILNUM, "off", "mcp", "command"),
        ("flights.gone", "on", "mcp", "command"), (FLIGHT, "on", "mcp", "command"),
    ]  # fmt: skip


@pytest.mark.usefixtures("db")
def test_a_model_that_the_command_switches_off_is_gone_for_agents_at_once() -> None:
    make_flights(1)
    with MCPClient(User.objects.create_superuser("root")) as client:
        client.watch_lists()
        run("--off", FLIGHT)

        client.wait_for("notifications/resources/list_changed")
        assert client.call("find_records", raise_on_error=False, model=FLIGHT).is_error


@pytest.mark.usefixtures("db")
def test_the_list_says_what_is_off_and_not_exposed_by_code() -> None:
    close(("mcp", "model", "flights.gone"), ("mcp", "field", f"{FLIGHT}.gone"), ("mcp", "field", TAILNUM))

    assert run().splitlines()[-3:] == [
        "off  flights.gone  (a model; not there now)", f"off  {FLIGHT}.gone  (a field; not there now)",
        f"off  {TAILNUM}  (a field)",
    ]  # fmt: skip


# Files.


@pytest.mark.usefixtures("decided")
def test_what_was_decided_is_restored_from_a_file_whole(tmp_path: Path) -> None:
    file, before = tmp_path / "tools.json", stored()
    run("--export", file)
    written = file.read_text()
    Tool.objects.all().delete()
    Restriction.objects.all().delete()
    make_tool_rows("default")

    assert f'mcp {CANCEL} asks: "approve", was ""' in refused("--import", file, "--check")
    printed = run("--import", file)

    assert stored() == before
    assert "mcp get_record groups: [], was null" in printed.splitlines()
    assert run("--import", file) == "There is nothing to change.\n"
    assert run("--import", file, "--check") == f"All is as {file} says.\n"
    run("--export", file)
    assert file.read_text() == written == run("--export", "-")
    [(name, sections)] = json.loads(written)["sites"].items()
    assert (name, list(sections)) == ("mcp", ["tools", "models", "fields"])
    assert list(sections["tools"]) == sorted(sections["tools"])


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
    file.write_text(_of(**{CANCEL: {"enabled": False}, "describe_models": {"groups": ["pilots"]}}))
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
    file.write_text(_of(**{CANCEL: {"enabled": True}}))
    Tool.objects.all().delete()

    said = refused("--import", file, "--check")

    assert f"mcp {CANCEL} enabled: true, was false" in said
    assert f"manage.py mcp_tools --import {file}" in said
    assert stored() == []


_MODEL, _FIELD = ("mcp", "model", FLIGHT), ("mcp", "field", TAILNUM)
_GONE = ("mcp", "model", "flights.gone"), ("mcp", "field", f"{FLIGHT}.gone")
_PAUSE = ("", "app", FLIGHT)
_OTHER = ("other", "model", FLIGHT)
#: What is off before, what a file says of the site, what is switched on and off, and what is off then.
SWITCHES: list[tuple[set[Any], dict[str, Any], dict[str, bool], set[Any]]] = [
    (set(), {"models": {FLIGHT: False}, "fields": {TAILNUM: False}}, {FLIGHT: False, TAILNUM: False},
     {_MODEL, _FIELD}),
    ({_MODEL, _FIELD}, {}, {}, {_MODEL, _FIELD}),
    ({_MODEL, _FIELD}, {"models": {FLIGHT: False}}, {}, {_MODEL, _FIELD}),
    ({_MODEL, _FIELD}, {"models": {}, "fields": {}}, {}, {_MODEL, _FIELD}),
    ({_MODEL, _FIELD, _OTHER}, {"models": {FLIGHT: True}}, {FLIGHT: True}, {_FIELD, _OTHER}),
    ({_MODEL, _FIELD}, {"fields": {TAILNUM: True}}, {TAILNUM: True}, {_MODEL}),
    ({_MODEL}, {"models": {"flights.airport": False}}, {"flights.airport": False},
     {_MODEL, ("mcp", "model", "flights.airport")}),
    ({*_GONE}, {"models": {"flights.gone": False}, "fields": {f"{FLIGHT}.gone": False}}, {}, {*_GONE}),
    ({*_GONE}, {"models": {"flights.gone": True}, "fields": {f"{FLIGHT}.gone": True}},
     {f"{FLIGHT}.gone": True, "flights.gone": True}, set()),
    ({_PAUSE, _OTHER}, {"models": {FLIGHT: True}}, {}, {_PAUSE, _OTHER}),
    # Off on every site.
    ({("", "model", FLIGHT)}, {"models": {FLIGHT: False}}, {}, {("", "model", FLIGHT)}),
    ({("", "model", FLIGHT)}, {"models": {FLIGHT: True}}, {FLIGHT: True}, {_OTHER}),
    ({("", "model", FLIGHT), _MODEL, _OTHER}, {"models": {FLIGHT: True}}, {FLIGHT: True}, {_OTHER}),
]  # fmt: skip


@pytest.mark.usefixtures("db")
@pytest.mark.parametrize(("before", "sections", "switched", "after"), SWITCHES)
def test_a_file_switches_the_models_and_fields_that_it_names(
    tmp_path: Path, before: set[Any], sections: Any, switched: dict[str, bool], after: set[Any]
) -> None:
    other = MCPSite("other")
    close(*before)
    file = tmp_path / "tools.json"
    file.write_text(_file(**sections))
    words = {True: "true, was false", False: "false, was true"}
    expected = [f"mcp {name} enabled: {words[is_on]}" for name, is_on in switched.items()]
    try:
        checked = refused("--import", file, "--check") if expected else run("--import", file, "--check")
        assert closed() == before

        printed = run("--import", file)

        assert (checked if expected else "").count(" enabled: ") == len(expected)
        assert all(line in checked for line in expected)
        assert printed.splitlines() == (expected or ["There is nothing to change."])
        assert closed() == after
        # What code does not expose has no switch any more once it is on.
        if after:
            assert run("--import", file, "--check") == f"All is as {file} says.\n"
    finally:
        del other


def _of(**tools: Any) -> str:
    return _file(tools=tools)


def _file(**sections: Any) -> str:
    return json.dumps({"sites": {"mcp": sections}})


def _saved(**changed: Any) -> str:
    query = {"tool": "find_records", "arguments": CALL, "parameters": [], **changed}
    return _of(departures={"enabled": True, "query": query})


#: A file → what is wrong with it.
WRONG: dict[str, str] = {
    "": "It is no JSON",
    "[]": 'It must be {"sites": ',
    '{"sites": {}, "prompts": {}}': 'It must be {"sites": ',
    '{"sites": {"mpc": {}}}': "There is no site 'mpc'. Did you mean mcp?",
    '{"sites": {"mcp": []}}': "mcp must be an object of tools, models, fields.",
    _file(get_record={}): "mcp: no section 'get_record'. Allowed: tools, models, fields.",
    _file(model={}): "mcp: no section 'model'. Did you mean models?",
    _file(tools=[]): "mcp tools must be an object of names.",
    _file(models=[FLIGHT]): "mcp models must be an object of names.",
    _file(fields={TAILNUM: 0}): "mcp fields must say true or false of each name.",
    _file(models={"flights.flihgt": False}): f"no model flights.flihgt. Did you mean {FLIGHT}?",
    _file(models={"sessions.session": False}): "mcp sessions.session: code exposes no model sessions.session.",
    _file(models={TAILNUM: False}): f"mcp {TAILNUM}: a model is named as app.model.",
    _file(fields={FLIGHT: False}): f"mcp {FLIGHT}: a field is named as app.model.field.",
    _file(fields={"flights.flihgt.tailnum": False}): f"code exposes no model flights.flihgt. Did you mean {FLIGHT}?",
    _file(fields={f"{FLIGHT}.tailnumber": False}): f"code exposes no such field. Did you mean {TAILNUM}?",
    _file(fields={"auth.user.password": False}): "mcp auth.user.password: code exposes no such field.",
    _file(fields={f"{FLIGHT}.id": False}): "the primary key names the rows, and cannot be switched off.",
    '{"sites": {"mcp": {"tools": {"get_record": {}, "get_record": {}}}}}': "'get_record' is there twice",
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
    for named, here in {
        "shop_order_close": CANCEL,
        "shop.refund": "flights.airport",
        "shop.order.note": TAILNUM,
    }.items():
        example = example.replace(named, here)
    file.write_text(example)

    assert run("--import", file).splitlines() == [
        f"mcp {CANCEL} enabled: true, was false", f'mcp {CANCEL} asks: "approve", was ""',
        f'mcp {CANCEL} groups: ["clerks"], was null', "mcp flights.airport enabled: false, was true",
        f"mcp {TAILNUM} enabled: false, was true",
    ]  # fmt: skip


@pytest.mark.usefixtures("db")
def test_a_file_that_says_what_no_page_can_set_is_refused_whole(tmp_path: Path) -> None:
    Group.objects.create(name="pilots")
    make_tool_rows("default")
    before, file = stored(), tmp_path / "tools.json"
    for text, wrong in WRONG.items():
        more = text.replace('{"tools": {', f'{{"tools": {{"{CANCEL}": {{"enabled": true}}, ')
        more = re.sub(r'\{"(?=models"|fields")', f'{{"tools": {{"{CANCEL}": {{"enabled": true}}}}, "', more)
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
            json.dumps(
                {"sites": {name: {"tools": {CANCEL: {"enabled": name == "other"}}} for name in ("mcp", "other")}}
            )
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
@pytest.mark.parametrize("last", [CANCEL, TAILNUM])
def test_an_import_that_fails_on_the_way_changes_nothing(tmp_path: Path, last: str) -> None:
    make_tool_rows("default")
    file = tmp_path / "tools.json"
    tools = {"describe_models": {"enabled": False}, CANCEL: {"enabled": True}}
    file.write_text(_file(tools=tools, models={FLIGHT: False}, fields={TAILNUM: False}))
    before = stored()

    def fail(instance: Any, **kwargs: Any) -> None:
        if instance.name == last:
            raise RuntimeError

    post_save.connect(fail)
    try:
        with pytest.raises(RuntimeError):
            run("--import", file)
    finally:
        post_save.disconnect(fail)

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
