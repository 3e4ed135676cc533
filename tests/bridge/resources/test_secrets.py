"""What is never exposed: secrets by their name, and models that hold them."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, Permission, User
from django.contrib.sessions.models import Session
from django.core.exceptions import ImproperlyConfigured
from django.db import models
from django.test.utils import isolate_apps

from mcp_django import MCPSite, ModelMCP, site
from mcp_django.bridge.declared.secrets import is_secret_field, is_secret_name, why_hidden
from mcp_django.models import AccessToken, Tool, WatchedResource
from mcp_django.models import Session as MCPSession
from tests.shop.models import Apikey, Product, Tag
from tests.support.asking import DirectPeer
from tests.support.data import token_of
from tests.support.declared import Declared
from tests.support.peers import MODERN, Peer

SECRET = [
    "password", "PASSWORD", "user_password", "passwords", "api_key", "apikey", "apiKey", "access_key", "access_token",
    "resetToken", "reset_token", "secret", "client_secret", "totp_secret", "pin", "cvv", "cvc", "iban", "ssn", "salt",
    "webhook", "webhook_url", "private_key", "signing_key", "ssh_key", "session_key", "otp", "nonce", "csrf", "cookie",
    "credentials", "auth_key", "license_key", "encryption_keys", "hash", "jwt", "signature", "passphrase", "seed",
    "recovery_key", "pwhash", "mfa_key", "privkey", "activation_code", "one_time_code", "magic_link", "reset_url",
    "security_answer", "psk", "mnemonic", "connection_string", "credit_card", "tax_id", "passport_no", "national_id",
    "MagicLinks", "passport_numbers", "social_security_number", "social_security",
    "ccv", "device_code", "driving_licence", "drivers_license", "recovery_phrase", "signed_url", "DATABASE_URL",
    "national_insurance_no", "routing_number", "backup_codes", "connectionString", "taxId", "creditcard", "mfaKeys",
    "pgp_key", "gpg_key", "licence_key", "licenceKeys", "unlock_code", "unlockCode", "confirm_code",
    "confirmCodes", "passwrd", "user_passwrd", "passwrd2", "pswd", "dbpswd", "activation_key", "user_activation_key",
    "activationKey", "activation_keys", "activationkey", "confirmation_key", "email_confirmation_key", "verify_key",
    "verification_key", "VerificationKey", "ping_key", "unlock_key", "redis_url", "REDIS_URL", "cache_redis_url",
    "broker_url", "celeryBrokerUrl", "database_urls", "redis_uri", "dsn", "sentry_dsn", "dsns", "bank_account",
    "bankAccount", "bankaccount", "bank_accounts", "payout_bank_account_id", "ibans", "customer_iban", "IBAN",
    "fingerprint", "device_fingerprint", "fingerprints", "fingerprint_sha256", "object_repr", "object_json_repr",
]  # fmt: skip


def test_a_name_that_says_secret() -> None:
    assert [name for name in SECRET if not is_secret_name(name)] == []


PLAIN = [
    "name", "sort_key", "primary_key", "key", "foreign_key", "keyboard", "tokenizer", "pinned", "seedling", "hashtag",
    "link", "url", "website_url", "answer", "card", "tax_rate", "passport", "time", "string", "connection", "number",
    "postal_code", "country_code", "order_number", "login",
    "phrase", "license", "licence", "security", "social", "insurance", "device", "database", "driver", "routing",
    "fingerprint_count", "tokenCount", "key_url", "key_urls", "public_key", "ping", "ping_url", "pinged_at",
    "avatar_url", "callback_url", "base_url", "image_uri", "redis", "broker", "broker_name", "account", "account_name",
    "bank", "bank_name", "accounting", "verify", "verified", "confirmed", "confirmation_date", "activation_date",
    "unlock_at", "registration_number", "licence_plate", "activation", "code", "discount_code", "count", "repr",
    "object_id",
    "secretary", "passenger", "compass", "basalt", "spinner", "assassin", "opinion", "description", "notes", "monkey",
]  # fmt: skip


def test_a_name_that_says_nothing() -> None:
    assert [name for name in PLAIN if is_secret_name(name)] == []


TYPED: dict[str, tuple[models.Field[Any, Any], ...]] = {
    "nothing, whatever the name": (
        models.BooleanField(name="must_change_password"), models.BooleanField(name="secret"),
        models.DateTimeField(name="password_changed_at"), models.DateField(name="token"), models.TimeField(name="pin"),
        models.DurationField(name="token_lifetime"), models.FileField(name="signature"),
        models.ImageField(name="fingerprint"), models.ForeignKey(User, models.CASCADE, name="api_key"),
        models.OneToOneField(User, models.CASCADE, name="credential"), models.ManyToManyField(User, name="tokens"),
    ),
    "numbers": (
        models.IntegerField(name="tokens_used"), models.FloatField(name="salt"),
        models.DecimalField(name="secret_share"),
        models.PositiveIntegerField(name="password_length"), models.BigIntegerField(name="webhook_retries"),
        models.IntegerField(name="session_id"), models.IntegerField(name="api_key"),
        models.GeneratedField(
            expression=models.F("id"), output_field=models.IntegerField(), db_persist=True, name="hash"
        ),
    ),
    "URLs": (
        models.URLField(name="token_url"), models.URLField(name="password_change_url"), models.URLField(name="secret"),
        models.URLField(name="key_url"),
    ),
    "what is hashed": (
        models.CharField(name="commit_hash"), models.TextField(name="content_hash"), models.CharField(name="fileHash"),
        models.CharField(name="image_hashes"),
    ),
    "keys": (
        models.CharField(name="sort_key", max_length=50),
        models.CharField(name="short_key", max_length=15, unique=True),
        models.CharField(name="key", max_length=50, unique=True), models.IntegerField(name="row_key", unique=True),
        models.CharField(name="kind_key", max_length=50, unique=True, choices=[("a", "A")]),
        models.UUIDField(name="object_key", unique=True),
    ),
}  # fmt: skip
TYPED_SECRETS: dict[str, tuple[models.Field[Any, Any], ...]] = {
    "numbers": (
        models.IntegerField(name="pin"), models.IntegerField(name="cvv"), models.BigIntegerField(name="ssn"),
        models.IntegerField(name="otp_seed"), models.FloatField(name="nonce"), models.IntegerField(name="userPasscode"),
        models.PositiveIntegerField(name="activation_code"), models.DecimalField(name="account_number"),
        models.IntegerField(name="passport_no"), models.IntegerField(name="bank_account"),
        models.IntegerField(name="credit_card"), models.IntegerField(name="creditcard"),
        models.IntegerField(name="iban"),
    ),
    "URLs": (
        models.URLField(name="redis_url"), models.URLField(name="broker_url"), models.URLField(name="database_url"),
        models.URLField(name="dsn"), models.URLField(name="magic_link"), models.URLField(name="webhook_url"),
    ),
    "texts": (
        models.CharField(name="file_secret_hash"), models.TextField(name="password_hash"),
        models.JSONField(name="token"), models.UUIDField(name="token"), models.BinaryField(name="secret"),
        models.EmailField(name="token"),
    ),
    "keys": (
        models.CharField(name="board_key", max_length=16, unique=True), models.TextField(name="boardKey", unique=True),
        models.SlugField(name="public_key", unique=True),
    ),
}  # fmt: skip


def test_what_a_field_can_hold_decides_which_names_are_secret() -> None:
    def wrong(found: dict[str, tuple[models.Field[Any, Any], ...]], expected: bool) -> list[str]:
        return [f"{kind}: {field.name}" for kind, fields in found.items() for field in fields
                if is_secret_field(of_model(field)) is not expected]  # fmt: skip

    assert wrong(TYPED, expected=False) == []
    assert wrong(TYPED_SECRETS, expected=True) == []


def of_model(field: Any) -> models.Field[Any, Any]:
    """The field as that of a model."""
    with isolate_apps("tests.shop"):
        meta = type("Meta", (), {"app_label": "shop"})
        made = type("Thing", (models.Model,), {"__module__": __name__, "Meta": meta, field.name: field})
    return cast("models.Field[Any, Any]", made._meta.get_field(field.name))


def test_a_key_that_a_constraint_makes_unique() -> None:
    with isolate_apps("tests.shop"):

        class Board(models.Model):  # noqa: DJ008 - nobody reads a row of it
            board_key = models.CharField(max_length=50)
            other_key = models.CharField(max_length=50)

            class Meta:
                app_label = "shop"
                constraints = [
                    models.UniqueConstraint(fields=["board_key"], name="one"),
                    models.UniqueConstraint(fields=["other_key", "id"], name="two"),
                    models.UniqueConstraint(fields=["other_key"], condition=models.Q(id=1), name="three"),
                ]

    assert [field.name for field in Board._meta.fields if is_secret_field(field)] == ["board_key"]


def test_the_key_of_a_row_that_is_the_secret_of_another_one() -> None:
    """A foreign key is no secret by its name, but as the key of its row it would be shown with what it holds."""
    with isolate_apps("tests.shop"):

        class Usage(models.Model):  # noqa: DJ008 - nobody reads a row of it
            counter = models.OneToOneField(Apikey, models.CASCADE, primary_key=True)

            class Meta:
                app_label = "shop"

    assert is_secret_field(Usage._meta.pk) and why_hidden(Usage) is not None


LETTING_IN = {
    "Invitation": "shop", "TeamInvite": "shop", "ActivationRequest": "shop", "UserRegistration": "shop",
    "EmailConfirmation": "shop", "Profile": "registration", "Guest": "invitations", "Verifications": "shop",
}  # fmt: skip
NOT_LETTING_IN = {
    "Translation": "shop", "Register": "shop", "Registry": "shop", "Setting": "account", "Invited": "shop",
}  # fmt: skip


def test_the_key_of_a_model_that_lets_somebody_in() -> None:
    """As the key of an invitation; the key of a translation is shown."""

    def hidden(models_: dict[str, str]) -> list[str]:
        found = [made(name, "key", "name", "keyword", app_label=app) for name, app in models_.items()]
        return [f"{one.__name__}.{each.name}" for one in found for each in one._meta.fields if is_secret_field(each)]

    assert hidden(LETTING_IN) == [f"{name}.key" for name in LETTING_IN]
    assert hidden(NOT_LETTING_IN) == []


def test_a_model_of_bank_accounts_is_shown_and_its_fields_are_not_all() -> None:
    model = made("BankAccount", "name", "iban")

    assert why_hidden(model) is None
    assert [field.name for field in model._meta.fields if is_secret_field(field)] == ["iban"]


def test_the_models_that_the_bridge_hides() -> None:
    hidden = [LogEntry, Session, AccessToken, Tool, MCPSession, WatchedResource, Apikey, User, Group, Permission]

    assert [model for model in (*hidden, Product, Tag) if why_hidden(model) is not None] == hidden


def made(name: str, *fields: str, app_label: str = "shop") -> type[models.Model]:
    """A model of text fields."""
    columns = {field: models.TextField() for field in fields}
    with isolate_apps("tests.shop"):
        meta = type("Meta", (), {"app_label": app_label})
        return type(name, (models.Model,), {"__module__": __name__, "Meta": meta, **columns})


OF_MAIL = [
    # As django-oscar's communication.Email.
    made("Email", "user", "email", "subject", "body_text", "body_html", "date_sent"),
    made("Sent", "to_address", "subject", "message"),
    made("Outbox", "recipient_list", "subject", "html_content"),
    made("Copied", "sender", "cc", "subject", "text"),
    made("MagicLink", "user", "created"), made("OneTimeCode", "user"), made("LoginCode", "user"),
    made("Invite_Codes", "user"), made("APIKey", "name"),
]  # fmt: skip


def test_a_model_that_lets_somebody_in_is_hidden_with_the_reason() -> None:
    mail = "it holds mail that was sent, which may have links to log in or to set a password"

    assert {model.__name__: why_hidden(model) for model in OF_MAIL} == {
        **{model.__name__: f"by its name, each row of {model.__name__} lets somebody in" for model in OF_MAIL},
        **dict.fromkeys(("Email", "Sent", "Outbox", "Copied"), mail),
    }


LIKE_MAIL = [
    made("Comment", "name", "email", "body"), made("Contact", "name", "email", "subject", "message"),
    made("Post", "title", "subject", "body"), made("Ticket", "topic", "subject", "text"), made("Link", "url"),
    made("Code", "number"), made("Customer", "email", "company"), made("Template", "subject", "body"),
]  # fmt: skip


def test_a_model_that_only_looks_like_mail_is_shown() -> None:
    assert [model for model in LIKE_MAIL if why_hidden(model) is not None] == []


def test_registering_a_model_of_ours() -> None:
    for model in (AccessToken, Tool, MCPSession, WatchedResource):
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


QUESTIONS: list[dict[str, Any]] = [
    {"filter": {"password__startswith": "md5"}},
    {"filter": {"password": "x"}},
    {"filter": {"not": {"password__isnull": True}}},
    {"filter": {"any": [{"password__gt": ""}]}},
    {"order_by": ["password"]},
    {"order_by": ["-password"]},
    {"fields": ["password"]},
]


def test_asking_for_passwords(root: DirectPeer) -> None:
    def answer(asked: dict[str, Any], name: str) -> str:
        filled = json.loads(json.dumps(asked).replace("password", name))
        return json.dumps(root.call("find_records", model="auth.user", **filled)).replace(name, "NAME")

    for asked in QUESTIONS:
        assert answer(asked, "password") == answer(asked, "pqssword"), asked


def test_passwords_appear_nowhere(root: DirectPeer, declared: Declared) -> None:
    token_of(root.user)
    key = root.user.pk

    for options in ({"fields": "__all__"}, {}):
        declared.close()
        if options:
            declared.model(User, **options)
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


class ByMethod(ModelMCP):
    def get_fields(self, request: Any) -> list[str]:
        return ["name", "api_key"]


def test_a_secret_field_is_hidden_and_shown_where_it_is_named(root: DirectPeer, declared: Declared) -> None:
    product = Product.objects.create(name="x")

    def read(model_mcp: type[ModelMCP] | None = None, **options: Any) -> Any:
        declared.close()
        declared.model(Product, model_mcp, **options)
        return root.read(f"db://shop/product/{product.pk}")

    assert "api_key" not in root.read(f"db://shop/product/{product.pk}")  # By the admin.
    assert "api_key" not in read(fields="__all__")
    assert read(ByMethod) == {"id": product.pk, "name": "x"}
    assert read(fields=["name", "api_key"]) == {"id": product.pk, "name": "x", "api_key": "sk-secret"}
    found = root.call("find_records", model="shop.product", filter={"api_key__startswith": "sk-"}, fields=["api_key"])
    assert found["structuredContent"]["rows"] == [[product.pk, "sk-secret"]]


def test_a_model_whose_key_is_secret_is_not_there_until_the_key_is_named(root: DirectPeer, declared: Declared) -> None:
    Apikey.objects.create(token="sk-1")

    declared.model(Apikey, fields="__all__")
    lists = [root.result(MODERN, method) for method in ("resources/list", "resources/templates/list", "tools/list")]
    unnamed = root.call("find_records", model="shop.apikey")
    declared.close()
    declared.model(Apikey, fields=["token"])

    assert "apikey" not in json.dumps(lists)
    assert unnamed["isError"] is True and "no model 'shop.apikey'" in json.dumps(unnamed)
    assert "sk-1" not in json.dumps(unnamed)
    assert root.read("db://shop/apikey/sk-1") == {"token": "sk-1"}
