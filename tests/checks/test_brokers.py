"""Warnings of the system checks about brokers and channel layers."""

from __future__ import annotations

import pytest
from django.core import mail
from django.core.checks import Warning
from django.test import override_settings

from mcp_django.bridge.sites import all_sites
from tests.checks.conftest import messages, of

IN_MEMORY = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}

CORE = "channels_redis.core.RedisChannelLayer"

PUBSUB = "channels_redis.pubsub.RedisPubSubChannelLayer"


def alone(reason: str) -> Warning:
    return Warning(
        f"Changes are pushed only within one process, and {reason}: a client that listens to one process does not "
        "learn what is saved in another, nor which tools are switched on or off there.",
        hint=f"Name Redis in CHANNEL_LAYERS ({PUBSUB}), or a NATS server or PostgreSQL in MCP['BUS']. If one "
        "process serves the site and nothing else saves, add 'mcp_django.W011' to SILENCED_SYSTEM_CHECKS.",
        id="mcp_django.W011",
    )


@pytest.fixture
def deployed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where no tests run: by what they leave to be seen, they are known."""
    monkeypatch.delattr(mail, "outbox")
    monkeypatch.delenv("WEB_CONCURRENCY", raising=False)


def test_w011_several_processes_that_hear_nothing_of_each_other(
    deployed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for layers in ({"default": {"BACKEND": PUBSUB}, "mcp": IN_MEMORY["default"]}, IN_MEMORY, {}):
        with override_settings(DEBUG=False, CHANNEL_LAYERS=layers):
            assert messages() == [alone("DEBUG is off")]
    monkeypatch.setenv("WEB_CONCURRENCY", "4")
    with override_settings(DEBUG=True, CHANNEL_LAYERS={}):
        assert messages() == [alone("WEB_CONCURRENCY is 4")]


@override_settings(CHANNEL_LAYERS={})
def test_w011_is_silent_in_development_and_under_wsgi_and_not_where_nobody_watches(
    deployed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with override_settings(DEBUG=True):
        assert of("W011") == []
    with override_settings(DEBUG=False, ASGI_APPLICATION=None):
        assert of("W011") == []
    with override_settings(DEBUG=False), monkeypatch.context() as nobody:
        for model_mcp in (model for site in all_sites() for model in site.models.values()):
            nobody.setattr(model_mcp, "watch", False)
        # Clients listen to the list of tools all the same.
        assert of("W011") == [alone("DEBUG is off")]
    with override_settings(DEBUG=False, SILENCED_SYSTEM_CHECKS=["mcp_django.W011"]):
        assert [message.is_silenced() for message in of("W011")] == [True]


def test_w011_is_silent_with_a_broker(deployed: None) -> None:
    with override_settings(DEBUG=False, CHANNEL_LAYERS={"default": {"BACKEND": PUBSUB}}):
        assert messages() == []
    with override_settings(DEBUG=False, CHANNEL_LAYERS={}, MCP={"BUS": "nats://localhost"}):
        assert messages() == []


@override_settings(CHANNEL_LAYERS={"default": {"BACKEND": CORE}})
def test_w012_a_layer_that_drops_what_is_too_much() -> None:
    assert messages() == [
        Warning(
            f"Changes go from process to process through {CORE}, which drops messages above its capacity: "
            "subscribers then learn of the change only some time later.",
            hint=f'Add a layer for these changes: CHANNEL_LAYERS["mcp"] with the same hosts and {PUBSUB}, which has '
            "no capacity.",
            id="mcp_django.W012",
        )
    ]
    with override_settings(CHANNEL_LAYERS={"default": {"BACKEND": CORE}, "mcp": {"BACKEND": PUBSUB}}):
        assert messages() == []
