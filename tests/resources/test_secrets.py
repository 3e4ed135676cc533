"""What is never exposed: secrets by their name, and models that hold them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.core.exceptions import ImproperlyConfigured
from django.db import models
from django.test.utils import isolate_apps

from mcp_django import MCPSite, site
from mcp_django.models import AccessToken, Tool, WatchedResource
from mcp_django.models import Session as MCPSession
from mcp_django.secrets import is_hidden_model, is_secret_name, why_hidden
from tests.shop.models import Apikey, Product, Tag
from tests.support.asking import DirectPeer
from tests.support.data import token_of
from tests.support.declared import Declared
from tests.support.peers import MODERN, Peer


@pytest.mark.parametrize("name", [
    "password", "PASSWORD", "user_password", "passwords", "api_key", "apikey", "apiKey", "access_key", "access_token",
    "resetToken", "reset_token", "secret", "client_secret", "totp_secret", "pin", "cvv", "cvc", "iban", "ssn", "salt",
    "webhook", "webhook_url", "private_key", "signing_key", "ssh_key", "session_key", "otp", "nonce", "csrf", "cookie",
    "credentials", "auth_key", "license_key", "encryption_keys", "hash", "jwt", "signature", "passphrase", "seed",
    "recovery_key", "pwhash", "mfa_key", "privkey", "activation_code", "one_time_code", "magic_link", "reset_url",
    "security_answer", "psk", "mnemonic", "connection_string", "credit_card", "tax_id", "passport_no", "national_id",
    "MagicLinks", "passport_numbers", "social_security_number", "social_security",
    "ccv", "device_code", "driving_licence", "drivers_license", "recovery_phrase", "signed_url", "DATABASE_URL",
    "national_insurance_no", "routing_number", "backup_codes", "connectionString", "taxId", "creditcard", "mfaKeys",
])  # fmt: skip
def test_a_name_that_says_secret(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", [
    "name", "sort_key", "primary_key", "key", "foreign_key", "keyboard", "tokenizer", "pinned", "seedling", "hashtag",
    "link", "url", "website_url", "answer", "card", "tax_rate", "passport", "time", "string", "connection", "number",
    "postal_code", "country_code", "order_number", "login",
    "phrase", "license", "licence", "security", "social", "insurance", "device", "database", "driver", "routing",
    "secretary", "passenger", "compass", "basalt", "spinner", "assassin", "opinion", "description", "notes", "monkey",
])  # fmt: skip
def test_a_name_that_says_nothing(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize("model", [LogEntry, Session, AccessToken, Tool, MCPSession, WatchedResource, Apikey])
def test_a_model_that_the_bridge_hides(model: type[models.Model]) -> None:
    assert is_hidden_model(model)


def made(name: str, *fields: str) -> type[models.Model]:
    """A model of text fields."""
    columns = {field: models.TextField() for field in fields}
    with isolate_apps("tests.shop"):
        meta = type("Meta", (), {"app_label": "shop"})
        return type(name, (models.Model,), {"__module__": __name__, "Meta": meta, **columns})


@pytest.mark.parametrize("model", [
    # As django-oscar's communication.Email.
    made("Email", "user", "email", "subject", "body_text", "body_html", "date_sent"),
    made("Sent", "to_address", "subject", "message"),
    made("Outbox", "recipient_list", "subject", "html_content"),
    made("Copied", "sender", "cc", "subject", "text"),
    made("MagicLink", "user", "created"), made("OneTimeCode", "user"), made("LoginCode", "user"),
    made("Invite_Codes", "user"), made("APIKey", "name"),
], ids=lambda model: model.__name__)  # fmt: skip
def test_a_model_that_lets_somebody_in_is_hidden_with_the_reason(model: type[models.Model]) -> None:
    assert why_hidden(model) in (
        "it holds mail that was sent, which may have links to log in or to set a password",
        f"by its name, each row of {model.__name__} lets somebody in",
    )


@pytest.mark.parametrize("model", [
    made("Comment", "name", "email", "body"), made("Contact", "name", "email", "subject", "message"),
    made("Post", "title", "subject", "body"), made("Ticket", "topic", "subject", "text"), made("Link", "url"),
    made("Code", "number"), made("Customer", "email", "company"), made("Template", "subject", "body"),
], ids=lambda model: model.__name__)  # fmt: skip
def test_a_model_that_only_looks_like_mail_is_shown(model: type[models.Model]) -> None:
    assert why_hidden(model) is None


@pytest.mark.parametrize("model", [User, Product, Tag])
def test_a_model_that_the_bridge_shows(model: type[models.Model]) -> None:
    assert not is_hidden_model(model)


@pytest.mark.parametrize("model", [AccessToken, Tool, MCPSession, WatchedResource])
def test_registering_a_model_of_ours(model: type[models.Model]) -> None:
    with pytest.raises(ImproperlyConfigured, match="The models of mcp_django are never exposed"):
        MCPSite("other").register(model, fields="__all__")


def test_models_with_secrets_exist_for_no_agent(admin: Peer, flights: Any) -> None:
    hidden = ["admin.logentry", "sessions.session", "mcp_django.accesstoken", "mcp_django.tool", "shop.apikey"]
    described = json.dumps([
        admin.call("describe_models"), admin.result(MODERN, "tools/list"), admin.result(MODERN, "resources/list"),
        admin.result(MODERN, "resources/templates/list"),
    ])  # fmt: skip

    for label in hidden:
        app, _, model = label.partition(".")
        assert label not in described and f"db://{app}/{model}" not in described
        assert admin.call("find_records", model=label)["isError"] is True
        assert admin.error(MODERN, "resources/read", {"uri": f"db://{app}/{model}"})
        assert admin.error(MODERN, "resources/read", {"uri": f"db://{app}/{model}.schema"})


def test_a_model_of_ours_stays_hidden_though_the_admin_registers_it_anew(db: None, declared: Declared) -> None:
    class Plain(admin.ModelAdmin):  # type: ignore[type-arg]
        list_display = ["hash"]

    for model in (AccessToken, LogEntry, Session):
        declared.admin(model, Plain)

    assert not {"mcp_django.accesstoken", "admin.logentry", "sessions.session"} & site.models.keys()


@pytest.fixture
def root(db: None) -> DirectPeer:
    return DirectPeer(User.objects.create_superuser("root", password="hunter2"))


QUESTIONS: list[dict[str, Any]] = [
    {"filter": {"password__startswith": "md5"}},
    {"filter": {"password": "x"}},
    {"filter": {"not": {"password__isnull": True}}},
    {"filter": {"any": [{"password__gt": ""}]}},
    {"order_by": ["password"]},
    {"order_by": ["-password"]},
    {"fields": ["password"]},
]


@pytest.mark.parametrize("asked", QUESTIONS, ids=str)
def test_asking_for_passwords(root: DirectPeer, asked: dict[str, Any]) -> None:
    def answer(name: str) -> str:
        filled = json.loads(json.dumps(asked).replace("password", name))
        return json.dumps(root.call("find_records", model="auth.user", **filled)).replace(name, "NAME")

    assert answer("password") == answer("pqssword")


@pytest.mark.parametrize("fields", [None, "__all__"])
def test_passwords_appear_nowhere(root: DirectPeer, declared: Declared, fields: Any) -> None:
    if fields is not None:
        declared.model(User, fields=fields)
    token_of(root.user)
    key = root.user.pk

    everything = json.dumps([
        root.call("describe_models", model="auth.user"), root.call("find_records", model="auth.user"),
        root.call("get_record", model="auth.user", id=key), root.read(f"db://auth/user/{key}"),
        root.read("db://auth/user.schema"), root.read("db://auth/user"), root.result(MODERN, "tools/list"),
    ])  # fmt: skip

    assert "password" not in everything
    assert root.user.password not in everything
    assert root.read("db://auth/user")["rows"]


def test_searching_in_passwords(root: DirectPeer, declared: Declared) -> None:
    declared.model(User, fields="__all__", search_fields=["password", "username"])

    described = root.call("describe_models", model="auth.user")["structuredContent"]
    found = root.call("find_records", model="auth.user", search="md5")["structuredContent"]

    assert described["search_fields"] == ["username"]
    assert found["rows"] == []


def test_a_secret_field_is_hidden_and_shown_where_it_is_named(root: DirectPeer, declared: Declared) -> None:
    product = Product.objects.create(name="x")

    by_admin = root.read(f"db://shop/product/{product.pk}")
    declared.model(Product, fields="__all__")
    by_all = root.read(f"db://shop/product/{product.pk}")
    declared.close()
    declared.model(Product, fields=["name", "api_key"])
    by_name = root.read(f"db://shop/product/{product.pk}")
    found = root.call("find_records", model="shop.product", filter={"api_key__startswith": "sk-"}, fields=["api_key"])

    assert "api_key" not in by_admin and "api_key" not in by_all
    assert by_name == {"id": product.pk, "name": "x", "api_key": "sk-secret"}
    assert found["structuredContent"]["rows"] == [[product.pk, "sk-secret"]]


def test_a_secret_field_stays_hidden_where_a_method_returns_it(root: DirectPeer, declared: Declared) -> None:
    from mcp_django import ModelMCP

    class Careless(ModelMCP):
        def get_fields(self, request: Any) -> list[str]:
            return ["name", "api_key"]

    declared.model(Product, Careless)
    product = Product.objects.create(name="x")

    assert root.read(f"db://shop/product/{product.pk}") == {"id": product.pk, "name": "x"}


def test_a_model_whose_key_is_secret_is_not_there_until_the_key_is_named(root: DirectPeer, declared: Declared) -> None:
    Apikey.objects.create(token="sk-1")

    declared.model(Apikey, fields="__all__")
    lists = [root.result(MODERN, method) for method in ("resources/list", "resources/templates/list", "tools/list")]
    unnamed = root.call("find_records", model="shop.apikey")

    assert "apikey" not in json.dumps(lists)
    assert unnamed["isError"] is True and "no model 'shop.apikey'" in json.dumps(unnamed)
    assert "sk-1" not in json.dumps(unnamed)


def test_a_model_whose_key_is_secret_is_there_once_the_key_is_named(root: DirectPeer, declared: Declared) -> None:
    Apikey.objects.create(token="sk-1")

    declared.model(Apikey, fields=["token"])

    assert root.read("db://shop/apikey/sk-1") == {"token": "sk-1"}
