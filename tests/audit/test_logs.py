"""Log records and the signal, which are made only where somebody listens."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from mcp_django.audit import lines
from mcp_django.audit.logs import JSONFormatter
from mcp_django.audit.recorder import recorder
from mcp_django.audit.signals import call_recorded
from tests.audit.conftest import Rows
from tests.support.data import token_of
from tests.support.peers import Peers


def test_each_line_is_logged_with_its_columns(
    peers: Peers, users: Any, rows: Rows, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mcp_django.audit")

    peers(token_of(users.ops)).call("describe_models")

    rows()
    [record] = [one for one in caplog.records if getattr(one, "mcp_kind", "") == "call"]
    assert record.getMessage() == "call describe_models: done"
    assert (record.mcp_user_name, record.mcp_name) == ("ops", "describe_models")  # type: ignore[attr-defined]


def test_the_formatter_writes_one_line_of_json() -> None:
    record = logging.makeLogRecord(
        {"name": "mcp_django.audit", "levelname": "INFO", "msg": "call %s: done", "args": ("x\ny",), "mcp_name": "x",
         "mcp_rows": 3, "mcp_reason": "", "mcp_at": "2026-11-23T00:00:00+00:00"}
    )  # fmt: skip

    text = JSONFormatter().format(record)

    assert "\n" not in text
    assert json.loads(text) == {
        "logger": "mcp_django.audit", "level": "INFO", "message": "call x\ny: done", "name": "x", "rows": 3,
        "at": "2026-11-23T00:00:00+00:00",
    }  # fmt: skip


def test_the_signal_is_sent_for_each_line_and_a_failing_receiver_harms_nothing(
    peers: Peers, users: Any, rows: Rows, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[Any] = []

    def hear(call: Any, **_: Any) -> None:
        heard.append(call)

    def fail(**_: Any) -> None:
        raise ValueError("broken")

    call_recorded.connect(fail)
    call_recorded.connect(hear)
    try:
        peers(token_of(users.ops)).call("describe_models")
        rows()
    finally:
        call_recorded.disconnect(hear)
        call_recorded.disconnect(fail)

    assert [call["name"] for call in heard if call["kind"] == "call"] == ["describe_models"]
    assert "A receiver of call_recorded failed" in caplog.text


def test_nothing_is_made_where_nobody_listens(
    transactional_db: None, audited: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    monkeypatch.setattr(lines, "as_dict", made.append)
    logging.getLogger("mcp_django.audit").setLevel(logging.WARNING)

    recorder.count("mcp", "request", "refused", "http", "UNAUTHENTICATED", "")
    recorder.flush()

    logging.getLogger("mcp_django.audit").setLevel(logging.NOTSET)
    assert made == []
