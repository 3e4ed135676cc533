"""``manage.py mcp_call``: a tool is called at a terminal, as an agent of a user would call it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from enum import Enum
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import UploadedFile
from django.core.management import CommandError, call_command

from demo_project.flights.models import Airline, Flight
from mcp_django.audit.recorder import recorder
from mcp_django.exceptions import ToolError
from mcp_django.management.values import arguments_of
from mcp_django.models import Call
from tests.support.data import make_flights, make_staff, switch_on
from tests.support.declared import Declared

CANCEL = "flights_flight_mark_cancelled"
ALL = ("--scopes", "read,actions,write")


@pytest.fixture
def root(db: None) -> User:
    make_flights(3)
    return User.objects.create_superuser("root")


def run(*arguments: Any, user: str = "root") -> tuple[str, str]:
    """What the command prints for programs, and what it tells the person."""
    out, told = StringIO(), StringIO()
    call_command("mcp_call", *arguments, "--user", user, stdout=out, stderr=told)
    return out.getvalue(), told.getvalue()


def refused(*arguments: Any, user: str = "root") -> str:
    with pytest.raises(CommandError) as raised:
        run(*arguments, user=user)
    assert raised.value.returncode == 1
    return str(raised.value)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[str]]:
    """A person at a terminal, who answers each question so. Gives the questions."""

    def sit_down(answer: str) -> list[str]:
        asked: list[str] = []

        def ask(text: str) -> str:
            asked.append(text)
            return answer

        monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
        monkeypatch.setattr("builtins.input", ask)
        return asked

    monkeypatch.setattr(sys, "stdin", StringIO())
    return sit_down


@pytest.mark.usefixtures("root")
def test_a_tool_that_reads_is_called_and_its_answer_printed() -> None:
    printed, told = run("find_records", "model=flights.airline", "fields=carrier,name", 'filter={"carrier": "UA"}')
    whole = json.loads(run("find_records", "model=flights.airline", 'fields=["carrier"]', "limit=1", "--json")[0])

    assert (json.loads(printed)["rows"], told) == ([["UA", "United"]], "")
    assert whole["result"]["structuredContent"]["rows"] == [["AA"]]


@pytest.mark.usefixtures("root")
def test_a_refused_call_fails_with_what_the_agent_reads_and_the_reason_that_no_agent_reads() -> None:
    make_staff("viewer", "flights.view_airline")
    lacking = refused("find_records", "model=flights.flight", user="viewer")
    unknown = refused("find_record")
    off = refused("update_record", *ALL)
    as_json = refused("find_records", "model=flights.flight", "--json", user="viewer")

    assert "no model 'flights.flight'" in lacking
    assert "The reason, which no agent reads: The permission flights.view_flight or" in lacking
    assert "Unknown tool: find_record." in unknown and "Did you mean find_records?" in unknown
    assert "update_record is switched off." in off
    assert as_json.startswith("The call was refused.")


@pytest.mark.usefixtures("root")
def test_what_the_user_may_not_do_the_command_does_not_do() -> None:
    make_staff("viewer", "flights.view_flight")
    switch_on(CANCEL)

    assert "it needs the permission change on flights.flight" in refused(CANCEL, "ids=1", *ALL, "--yes", user="viewer")
    assert "The scope tool:flights_flight_mark_cancelled or actions is missing" in refused(CANCEL, "ids=1", "--yes")
    assert "There is no user 'nobody'" in refused("find_records", user="nobody")
    assert set(Flight.objects.values_list("status", flat=True)) == {"on_time"}


# Changing.


@pytest.mark.usefixtures("root")
def test_a_change_is_shown_and_done_once_the_person_agrees(answers: Any) -> None:
    switch_on("update_record")
    call = ("update_record", "model=flights.airline", "id=UA", 'values={"name": "Untied"}', *ALL)

    asked = answers("n")
    assert refused(*call) == "Nothing was done."
    assert Airline.objects.get(pk="UA").name == "United"

    asked = answers("y")
    printed, told = run(*call)
    assert asked == ["Do it? [y/N] "]
    assert '"preview"' in told and "Untied" in told
    assert '"preview"' not in printed
    assert Airline.objects.get(pk="UA").name == "Untied"


@pytest.mark.usefixtures("root")
def test_nobody_is_asked_with_yes_and_nothing_is_done_in_a_dry_run(answers: Any) -> None:
    switch_on("update_record")
    call = ("update_record", "model=flights.airline", "id=UA", 'values={"name": "Untied"}', *ALL)

    assert '"preview"' in run(*call, "--dry-run")[0]
    assert Airline.objects.get(pk="UA").name == "United"
    assert "add --yes" in refused(*call)
    assert Airline.objects.get(pk="UA").name == "United"
    printed, told = run(*call, "--yes")
    assert ("Untied" in printed, told) == (True, "")
    assert Airline.objects.get(pk="UA").name == "Untied"


@pytest.mark.usefixtures("root")
def test_a_tool_that_acts_at_once_is_called_only_after_the_question(declared: Declared, answers: Any) -> None:
    done: list[str] = []

    def ground(request: Any, why: str) -> str:
        """Ground all planes."""
        done.append(why)
        return "Grounded."

    declared.tool(ground)
    switch_on(CANCEL)

    assert "acts at once" in refused("ground", "why=fog", *ALL, "--dry-run")
    assert "acts at once" in refused(CANCEL, "ids=1", *ALL, "--dry-run")
    assert "add --yes" in refused("ground", "why=fog", *ALL)
    answers("no")
    assert refused("ground", "why=fog", *ALL) == "Nothing was done."
    assert done == []
    answers("yes")
    printed, told = run("ground", "why=fog", *ALL)
    assert (printed, done) == ("Grounded.\n", ["fog"])
    assert told.startswith("ground may destroy data, and shows nothing before.") and '"why": "fog"' in told
    assert "1 flight" in run(CANCEL, "ids=1", *ALL, "--yes")[0]


@pytest.mark.usefixtures("root")
def test_the_rows_of_an_action_are_shown_before_it_acts(answers: Any) -> None:
    switch_on(CANCEL)
    call = (CANCEL, 'filter={"origin": "JFK"}', *ALL)

    shown = run(*call, "--dry-run")[0]
    assert "1 row of flights.flight" in shown and "To act on exactly these rows" in shown
    assert set(Flight.objects.values_list("status", flat=True)) == {"on_time"}
    answers("y")
    printed, told = run(*call)

    assert "1 flight" in printed and CANCEL in told
    assert Flight.objects.filter(status="cancelled").count() == 1


@pytest.mark.usefixtures("root")
def test_what_other_people_must_agree_to_waits_for_them(declared: Declared) -> None:
    def ground(request: Any) -> str:
        """Ground all planes."""
        raise AssertionError

    declared.tool(ground, consent="approve")
    User.objects.create_superuser("chief")

    assert json.loads(run("ground", *ALL, "--yes")[0])["status"] == "pending"


@pytest.mark.usefixtures("root")
def test_a_tool_that_fails_fails_the_command_without_the_text_of_the_exception(declared: Declared) -> None:
    def ground(request: Any, how: str) -> str:
        """Ground all planes."""
        raise ToolError("Not today.") if how == "tool" else RuntimeError("hunter2")

    declared.tool(ground)

    assert json.loads(refused("ground", "how=tool", *ALL, "--yes")) == {"error": "Not today.", "errors": []}
    assert "ground failed." in (said := refused("ground", "how=x", *ALL, "--yes")) and "hunter2" not in said


@pytest.mark.usefixtures("root")
def test_asynchronous_tools_and_those_that_yield_are_called(declared: Declared) -> None:
    async def wait(request: Any) -> str:
        """Wait."""
        return f"for {await User.objects.acount()}"

    async def count(request: Any) -> Any:
        """Count."""
        for number in range(3):
            yield f"{number}"

    declared.tool(wait, read_only=True)
    declared.tool(count, read_only=True)

    assert run("wait")[0].startswith("for ")
    assert run("count")[0] == "012\n"


@pytest.mark.usefixtures("root")
def test_what_a_row_holds_writes_nothing_else_to_the_terminal(declared: Declared) -> None:
    def show(request: Any) -> str:
        """Show."""
        return "one\x1b[2J\ntwo\x9b"

    declared.tool(show, read_only=True)

    assert run("show")[0] == "one\\x1b[2J\ntwo\\x9b\n"
    assert "\x9b" not in run("show", "--json")[0]


@pytest.mark.usefixtures("transactional_db", "trail")
def test_the_trail_has_a_line_of_the_call_by_a_command() -> None:
    make_flights(1)
    User.objects.create_superuser("root")

    run("find_records", "model=flights.airline")
    recorder.flush()

    line = Call.objects.get(kind=Call.Kind.CALL)
    assert (line.name, line.user_name, line.transport, line.client_name) == (
        "find_records", "root", "command", "manage.py mcp_call",
    )  # fmt: skip


@pytest.mark.usefixtures("root")
def test_a_site_whose_middleware_may_choose_a_tenant_is_not_called_past_it(settings: Any) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "tenants.middleware.TenantMiddleware"]

    assert "does not pass tenants.middleware.TenantMiddleware" in refused("find_records", "model=flights.airline")


# Arguments.


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


@pytest.mark.usefixtures("root")
def test_values_are_read_by_the_schema_of_the_tool(declared: Declared) -> None:
    def show(
        request: Any, text: str = "", number: int = 0, share: float = 0, yes: bool = False,
        names: list[str] | None = None, numbers: list[int] | None = None, any_one: int | str = 0,
        size: Size = Size.SMALL, options: dict[str, Any] | None = None, maybe: str | None = "x", anything: Any = None,
    ) -> str:  # fmt: skip
        """Show."""
        return repr((text, number, share, yes, names, numbers, any_one, size.value, options, maybe, anything))

    declared.tool(show, read_only=True)
    shown: dict[tuple[str, ...], dict[str, Any]] = {
        ("text=17", "number=17", "share=1.5", "yes=true"): {"text": "17", "number": 17, "share": 1.5, "yes": True},
        ("names=a, b,c", "numbers=1,2"): {"names": ["a", "b", "c"], "numbers": [1, 2]},
        ('names=["a,b"]', "any_one=x"): {"names": ["a,b"], "any_one": "x"},
        ("any_one=7", "size=large", "maybe="): {"any_one": 7, "size": "large", "maybe": ""},
        ('options={"a": [1]}', "anything=[1]", "text=@@home"): {
            "options": {"a": [1]}, "anything": [1], "text": "@home",
        },
        ("text=a=b", "anything=plain", "maybe=null"): {"text": "a=b", "anything": "plain", "maybe": "null"},
    }  # fmt: skip
    nothing = {
        "text": "", "number": 0, "share": 0, "yes": False, "names": None, "numbers": None, "any_one": 0,
        "size": "small", "options": None, "maybe": "x", "anything": None,
    }  # fmt: skip
    for pairs, wanted in shown.items():
        assert run("show", *pairs)[0].strip() == repr(tuple({**nothing, **wanted}.values())), pairs
    wrong = {
        "number=many": "number", "yes=perhaps": "yes", "sise=large": "Did you mean size?", "size=huge": "size",
        "options=[1]": "options", "share=NaN": "share",
    }  # fmt: skip
    for pair, text in wrong.items():
        assert text in refused("show", pair), pair
    assert "must be NAME=VALUE" in refused("show", "text")
    assert "number is named twice" in refused("show", "number=1", "number=2")


@pytest.mark.usefixtures("root")
def test_a_value_comes_from_a_file_and_a_file_is_uploaded(declared: Declared, settings: Any, tmp_path: Path) -> None:
    settings.MEDIA_ROOT = tmp_path / "media"

    def show(request: Any, text: str, rows: list[int]) -> str:
        """Show."""
        return f"{text!r} {rows}"

    def measure(request: Any, plan: UploadedFile) -> str:
        """Measure."""
        return f"{plan.name}: {plan.size} bytes"

    declared.tool(show, read_only=True)
    declared.tool(measure, read_only=True)
    (tmp_path / "text.txt").write_text("Größe\nzwei\n")
    (tmp_path / "rows.json").write_text("[1, 2]\n")
    (tmp_path / "plan.bin").write_bytes(b"\xff\x00\xff")

    printed = run("show", f"text=@{tmp_path / 'text.txt'}", f"rows=@{tmp_path / 'rows.json'}")[0]
    assert printed == "'Größe\\nzwei' [1, 2]\n"
    assert run("measure", f"plan=@{tmp_path / 'plan.bin'}")[0] == "plan.bin: 3 bytes\n"
    assert "No such file" in refused("show", f"text=@{tmp_path / 'absent'}")
    assert "No such file" in refused("measure", f"plan=@{tmp_path / 'absent'}")
    assert "is no text in UTF-8" in refused("show", f"text=@{tmp_path / 'plan.bin'}")


@pytest.mark.usefixtures("root")
def test_rows_are_created_from_a_file_of_csv(settings: Any, tmp_path: Path) -> None:
    settings.MEDIA_ROOT = tmp_path / "media"
    switch_on("create_records")
    (tmp_path / "airlines.csv").write_text("carrier,name\nDL,Delta\nWN,Southwest\n")

    run("create_records", "model=flights.airline", f"file=@{tmp_path / 'airlines.csv'}", *ALL, "--yes")

    assert set(Airline.objects.values_list("carrier", flat=True)) == {"UA", "AA", "DL", "WN"}


def test_a_schema_with_references_is_followed() -> None:
    schema: Any = {
        "$defs": {"L": {"type": "array", "items": {"$ref": "#/$defs/N"}}, "N": {"type": "integer"}},
        "properties": {"numbers": {"$ref": "#/$defs/L"}, "one": {"anyOf": [{"$ref": "#/$defs/L"}, {"type": "null"}]}},
    }

    assert arguments_of(["numbers=1,2", "one=3"], schema) == {"numbers": [1, 2], "one": [3]}
    assert arguments_of(["one=null"], schema) == {"one": None}
