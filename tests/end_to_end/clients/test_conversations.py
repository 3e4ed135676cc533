"""Official clients, old and new, in whole conversations with a served project, each on the transports that it has."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conftest import is_listening, need
from tests.end_to_end.clients.clients import CLIENTS, RealClient, Report, own_ticket, watched_ticket
from tests.support.asking import words_of

pytestmark = [
    pytest.mark.more("twenty-three clients; `make test` has the official one of Python"),
    pytest.mark.parametrize("real_client", CLIENTS, ids=str),
    # The first one may have to wait until the clients are installed.
    pytest.mark.timeout(900),
]


def test_the_client_agrees_with_the_server_on_its_newest_revision(real_client: RealClient, report: Report) -> None:
    assert (report["server"], report["revision"]) == (["desk", "1.0"], real_client.revision)


def test_the_lists_hold_what_the_desk_offers(real_client: RealClient, report: Report) -> None:
    assert report["tools"] == [
        "aggregate_records",
        "count",
        "describe_models",
        "desk_ticket_close",
        "file_away",
        "find_records",
        "folders",
        "get_record",
        "greet",
        "ledger",
        "letter",
        "translate",
    ]
    assert report["resources"] == ["db://desk/ticket", "desk://rules"]
    assert report["templates"] == [
        "db://desk/ticket/{id}",
        "db://desk/ticket{?group_by,measures,id,title,status,search,order_by,limit}",
        "db://desk/ticket{?id,title,status,search,order_by,limit}",
        "db://{app_label}/{model}.schema",
        "desk://tickets/{id}/card",
    ]
    assert report["prompts"] == ["reply"]


def test_a_prompt_is_got_and_its_argument_is_completed(real_client: RealClient, report: Report) -> None:
    assert report["prompt"] == f"Write a long answer to: Ticket {own_ticket(real_client)}"
    assert report["completed"] == ["long"]


def test_a_record_a_text_and_a_template_are_read(real_client: RealClient, report: Report) -> None:
    key = own_ticket(real_client)

    assert report["record"] == {"id": key, "title": f"Ticket {key}", "status": "open"}
    assert report["rules"] == "# Rules\n\nOne ticket at a time."
    assert report["card"] == f"Ticket {key}."


def test_a_query_tool_answers(real_client: RealClient, report: Report) -> None:
    key = own_ticket(real_client)
    is_error, text = report["found"]

    assert not is_error
    assert json.loads(text) == {"columns": ["id", "title", "status"], "rows": [[key, f"Ticket {key}", "open"]]}


def test_a_tools_error_is_read_and_the_conversation_goes_on(real_client: RealClient, report: Report) -> None:
    is_error, text = report["refused"]
    [error] = json.loads(text)["errors"]

    assert is_error
    assert error["field"] == "model"
    assert "Did you mean desk.ticket?" in error["message"]
    assert report["unknown"] == [-32602, "Unknown tool: no_such_tool. name: not a tool; tools/list names the tools"]


def test_a_resource_that_does_not_exist_is_an_error_with_the_code_of_the_revision(
    real_client: RealClient, report: Report
) -> None:
    # The newer TypeScript SDK says the newer code, whichever came.
    is_new = real_client.revision == "2026-07-28" or (real_client.sdk, real_client.version) == ("typescript", "2")

    assert report["absent"] == [-32602 if is_new else -32002, "Resource not found."]


def refused_with(result: Any) -> str:
    """The words of a result that is an error."""
    is_error, text = result
    assert is_error is True
    return words_of(text)


def test_a_result_of_5_mb_is_refused_in_words_and_the_conversation_goes_on(
    real_client: RealClient, report: Report
) -> None:
    assert refused_with(report["too large"]) == "The result is larger than 900000 bytes. Ask for less."


def test_a_call_whose_result_is_too_large_is_known_to_be_done(real_client: RealClient, report: Report) -> None:
    assert refused_with(report["done"]) == (
        "The tool has done its work. Do not repeat the call. Its result is not shown. The result is larger than 900000 "
        "bytes. To see what it did, read the records that it was about."
    )


def test_the_user_is_asked_where_the_revision_can_ask(real_client: RealClient, report: Report) -> None:
    if real_client.asks_its_user:
        assert report["greeted"] == [False, "Hello, Ada."]
    else:
        assert refused_with(report["greeted"]) == "This needs a client with the capability elicitation."


def test_the_model_and_the_folders_of_the_client_are_asked_for(real_client: RealClient, report: Report) -> None:
    form = ["Who is there? ['name']"] if real_client.asks_its_user else []

    assert report["translated"] == [False, "parrot says: Bonjour"]
    assert report["folders"] == [False, "home at file:///home/ada"]
    assert report["asked"] == [*form, "Say in French: Hello", "roots"]


def test_progress_and_lines_of_log_come_while_a_call_goes_on_beside_another(
    real_client: RealClient, report: Report
) -> None:
    # A message came with 2025-03-26.
    said = [None] * 3 if real_client.revision == "2024-11-05" else ["1 of 3", "2 of 3", "3 of 3"]

    assert report["counted"] == [False, "Counted to 3, and the ticket is closed."]
    assert report["progress"] == [[step, 3, text] for step, text in zip((1, 2, 3), said, strict=True)]
    assert report["logged"] == [["info", "desk", f"counted {step}"] for step in (1, 2, 3)]


def test_an_admin_action_changes_the_row_and_no_cache_serves_the_stale_one(
    real_client: RealClient, report: Report
) -> None:
    """The SDKs of 2026-07-28 keep a row for as long as its ``ttlMs`` says; here for an hour, if it said nothing."""
    assert report["record"]["status"] == "open"
    assert report["acted"] == [False, "1 closed."]
    assert report["again"] == {**report["record"], "status": "closed"}


def test_a_change_in_another_process_is_pushed(real_client: RealClient, report: Report) -> None:
    need(is_listening(6379), "Redis on port 6379")

    assert report["told"] == f"db://desk/ticket/{watched_ticket(real_client)}"
    assert report["watched"] == ["open", "closed"]
