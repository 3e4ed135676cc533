"""Fields and models that are hidden unless a ModelMCP names them: secrets, recognised by their names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum, auto
from functools import lru_cache
from itertools import pairwise
from typing import Any

from django import forms
from django.apps import apps
from django.contrib.auth import get_user_model
from django.contrib.auth.base_user import AbstractBaseUser
from django.db import models
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Words in the name of a field whose value gives access to something.
_SECRET_WORDS = _words(
    """bearer ccv cookie credential credentials csrf cvc cvv dsn dsns fingerprint fingerprints hash hmac iban ibans jwt
    mnemonic nonce otp pass passcode passphrase passwords pem pin psk pwd salt secret secrets seed signature ssn token
    tokens totp webhook"""
)
_SECRET_ENDINGS = ("password", "passwd", "passwrd", "pswd", "pwhash", "secret", "token", "tokens")
_SECRET_BEGINNINGS = ("password", "passwd", "passwrd", "pswd", "secret")
#: The last word of a name that says how many secrets there are, and holds none.
_COUNTS = _words("count counts")
#: Words that name a secret only after one of these words: api_key is a secret, sort_key is not.
_COMPANIONS = {
    "key": _words(
        """access activation api auth client confirm confirmation crypt deploy encryption gpg invitation invite licence
        license master mfa pgp ping priv private recovery registration secret session shared signing ssh unlock
        verification verify"""
    ),
    "answer": _words("secret security"),
    "card": _words("credit debit"),
    # "time" is the end of "one_time_code".
    "code": _words(
        """access activation auth backup confirm confirmation device invitation invite login pin recovery reset security
        time unlock verification verify"""
    ),
    "id": _words("national session tax"),
    "insurance": _words("national"),
    "licence": _words("driver drivers driving"),
    "license": _words("driver drivers driving"),
    "link": _words("activation invitation invite login magic reset"),
    "number": _words("account card passport routing security"),
    "no": _words("account card passport"),
    "phrase": _words("backup recovery seed"),
    "security": _words("social"),
    "sk": _words("stripe"),
    "string": _words("connection"),
    "uri": _words("broker database redis"),
    "url": _words("activation broker database invitation invite magic presigned redis reset signed"),
}
_COMPANIONS |= {f"{word}s": companions for word, companions in _COMPANIONS.items()}
#: The same of names of fields alone: a model that is named so lets nobody in.
_COMPANIONS_IN_FIELDS = {
    **_COMPANIONS,
    **dict.fromkeys(("account", "accounts"), _words("bank")),
    # A history keeps the texts of rows.
    "repr": _words("json object"),
}


class Holds(Enum):
    """What the values of a field can be, since words that name a secret text may name a harmless number."""

    ANYTHING = auto()
    NUMBER = auto()
    URL = auto()
    #: A flag, a moment, a file, or the key of another row.
    NO_SECRET = auto()


#: The words that name secrets among numbers and URLs: by themselves, and after a companion.
_WORDS_OF_NUMBERS = _words("ccv cvc cvv iban nonce otp passcode pin seed ssn totp")
_PAIRS_OF_NUMBERS = _words("account accounts card cards code codes no nos number numbers")
_WORDS_OF_URLS = _words("dsn dsns webhook")
_PAIRS_OF_URLS = _words("link links string strings uri uris url urls")
#: Words before "hash" that say what is hashed, so that it says nothing of a password.
_HASHED = _words("commit content file image")

#: The shortest limit of a unique text ``…_key`` that may let somebody in.
_SHORTEST_KEY = 16

#: Words in the name of a model, or in the label of its app, whose ``key`` lets somebody in.
_ABOUT_LETTING_IN = _words("activation confirmation invitation invite registration signup verification")
_ABOUT_LETTING_IN |= {f"{word}s" for word in _ABOUT_LETTING_IN}

#: Words in the name of a field's class that say as much.
_SECRET_CLASS_WORDS = _words(
    """cipher ciphered confidential fernet gpg hashed masked obfuscated pgp private protected random secure secured
    sensitive vault"""
)

#: Why the models of users, groups and permissions are hidden.
ABOUT_RIGHTS = _("it holds users, or says what they may do")

#: The labels of our apps, whose rows hold tokens and decide about access.
_OURS = frozenset({"mcp_django", "mcp_django_oauth"})
_HIDDEN_APPS = _words(
    """admin auditlog authtoken axes background_task django_apscheduler django_celery_beat django_celery_results
    django_mail_admin django_mailbox django_q django_rq django_tasks django_tasks_database easyaudit field_history
    hijack knox mailer mcp_django oauth2_provider oauth_dcr otp_email otp_hotp otp_static otp_totp otp_twilio
    otp_webauthn otp_yubikey pghistory post_office reversion saml2_idp sesame sessions silk social_auth social_django
    token_blacklist two_factor usersessions webauthn webpush"""
)
#: Packages with app labels that a project may well use itself, as ``account``.
_HIDDEN_PACKAGES = ("allauth.",)

#: Fields of a model that holds the mail that was sent, which may have links to log in or to set a password.
_SUBJECT = "subject"
_TO = _words("bcc cc recipient recipients to")
_ADDRESS = _words("email emails")
_BODY = _words("body html")
_TEXT = _BODY | _words("content contents message text")

#: Models of packages whose groups choose for whom something holds, and give nobody a permission.
_CHOOSING_BY_GROUP = frozenset({"waffle.models.AbstractUserFlag"})

#: Fields of users that say what the user may do, beside those that point to groups and permissions.
_RIGHTS_OF_USERS = _words("groups is_active is_staff is_superuser password user_permissions")

_Companions = Mapping[str, frozenset[str]]
_HASHES = _words("hash hashes")
_WORDS: Mapping[Holds, frozenset[str]] = {Holds.NUMBER: _WORDS_OF_NUMBERS, Holds.URL: _WORDS_OF_URLS}
_PAIRS: Mapping[Holds, _Companions] = {
    Holds.ANYTHING: _COMPANIONS_IN_FIELDS,
    Holds.NUMBER: {last: _COMPANIONS_IN_FIELDS[last] for last in _PAIRS_OF_NUMBERS},
    Holds.URL: {last: _COMPANIONS_IN_FIELDS[last] for last in _PAIRS_OF_URLS},
}
_HOLDERS: Sequence[tuple[tuple[type[Any], ...], Holds]] = [
    ((models.BooleanField, models.FileField), Holds.NO_SECRET),
    ((models.DateField, models.TimeField, models.DurationField), Holds.NO_SECRET),
    ((models.IntegerField, models.FloatField, models.DecimalField), Holds.NUMBER),
    ((models.URLField,), Holds.URL),
]
_FORM_HOLDERS: Sequence[tuple[tuple[type[Any], ...], Holds]] = [
    ((forms.BooleanField, forms.FileField, forms.ModelChoiceField), Holds.NO_SECRET),
    ((forms.DateField, forms.DateTimeField, forms.TimeField, forms.DurationField), Holds.NO_SECRET),
    ((forms.IntegerField,), Holds.NUMBER),
    ((forms.URLField,), Holds.URL),
]

_SPLIT = re.compile(r"[^a-z]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@lru_cache(maxsize=4_096)
def is_secret_name(name: str, holds: Holds = Holds.ANYTHING) -> bool:
    """Whether a field so named is hidden: ``password2``, ``api_key``, ``APIToken``; not ``sort_key``."""
    words = words_of(name)
    if holds is Holds.NO_SECRET or (words and words[-1] in _COUNTS):
        return False
    words = [word for first, word in pairwise(["", *words]) if not (word in _HASHES and first in _HASHED)]
    pairs = _PAIRS[holds]
    return any(_is_secret_word(word, holds, pairs) for word in words) or _has_secret_pair(words, pairs)


def words_of(name: str) -> list[str]:
    return [word for word in _SPLIT.split(_CAMEL.sub("_", name).lower()) if word]


def _has_secret_pair(words: Sequence[str], companions: _Companions = _COMPANIONS) -> bool:
    return any(second in companions and first in companions[second] for first, second in pairwise(words))


def _is_secret_word(word: str, holds: Holds, companions: _Companions) -> bool:
    """A word, or a compound of one: ``authtoken``, ``secretkey``, ``passwordhash``."""
    if holds is Holds.ANYTHING and not word.startswith("secretar"):  # A person or an office.
        is_secret = word in _SECRET_WORDS or word.endswith(_SECRET_ENDINGS) or word.startswith(_SECRET_BEGINNINGS)
    else:
        is_secret = word in _WORDS.get(holds, ())
    return is_secret or any(word == first + second for second, firsts in companions.items() for first in firsts)


def is_about_rights(model: type[models.Model]) -> bool:
    """Whether rows of the model are users or say what users may do: users, groups, permissions, and who has which.

    Of other models, such as the permissions of objects, a row says so where it leads to a permission, or to a user and
    to a group.
    """
    classes = _about_rights()
    if not classes or issubclass(model, classes):
        return bool(classes)
    opts = model._meta
    ends = {field.related_model for field in (*opts.fields, *opts.many_to_many)}
    user, group, permission = classes
    return permission in ends or {user, group} <= ends or (bool(opts.auto_created) and not ends.isdisjoint(classes))


def gives_rights(field: Any) -> bool:
    """Whether a field says what a user may do, or how the user logs in."""
    if field.name in _RIGHTS_OF_USERS and issubclass(field.model, AbstractBaseUser):
        return True
    return field.related_model in _about_rights()[1:] and not any(
        f"{cls.__module__}.{cls.__qualname__}" in _CHOOSING_BY_GROUP for cls in field.model.__mro__
    )


def _about_rights() -> tuple[type[models.Model], ...]:
    """The models of users, groups and permissions, in this order."""
    if not apps.is_installed("django.contrib.auth"):
        return ()
    return get_user_model(), apps.get_model("auth.Group"), apps.get_model("auth.Permission")


def is_secret_field(field: models.Field[Any, Any]) -> bool:
    return is_named_as_secret(field) or is_long_key(field)


def is_named_as_secret(field: models.Field[Any, Any]) -> bool:
    """Whether a field is a secret by its name, by that of its model, and by what its values can be."""
    if field.name == "password" and issubclass(field.model, AbstractBaseUser):
        return True
    if field.name == "change_message" and field.model._meta.app_label == "admin":
        return True  # The admin's history names the rows of inlines by their texts.
    if isinstance(field, models.ForeignKey) and field.primary_key:
        return is_named_as_secret(field.target_field)  # The key of a row is shown, whatever it leads to.
    holds = _held_by(field)
    return is_secret_name(field.name, holds) or (
        holds is Holds.ANYTHING and field.name == "key" and _lets_in(field.model)
    )


def is_long_key(field: models.Field[Any, Any]) -> bool:
    """Whether it is a unique text named ``…_key``, with room for a key that lets somebody in."""
    if not isinstance(field, models.CharField | models.TextField) or field.choices:
        return False
    *first, last = words_of(field.name) or [""]
    has_room = field.max_length is None or field.max_length >= _SHORTEST_KEY
    return bool(first) and last == "key" and has_room and _is_unique(field)


def _is_unique(field: models.Field[Any, Any]) -> bool:
    constraints = field.model._meta.total_unique_constraints
    return field.unique or any(tuple(one.fields) == (field.name,) for one in constraints)


def _held_by(field: Any) -> Holds:
    column: Any = field.output_field if isinstance(field, models.GeneratedField) else field
    if column.is_relation:
        return Holds.NO_SECRET
    return next((holds for classes, holds in _HOLDERS if isinstance(column, classes)), Holds.ANYTHING)


def held_in_form(field: forms.Field) -> Holds:
    """What can be given for a field of a form that has no column."""
    return next((holds for classes, holds in _FORM_HOLDERS if isinstance(field, classes)), Holds.ANYTHING)


def _lets_in(model: type[models.Model]) -> bool:
    """Whether the model, or its app, is named for invitations, activations and the like."""
    meta = model._meta
    return not _ABOUT_LETTING_IN.isdisjoint([*words_of(meta.object_name or ""), *words_of(meta.app_label)])


def is_secret_class(cls: type[Any]) -> bool:
    """Whether a class of fields is named for secret values: ``UrlsafeTokenField``, ``EncryptedMixin``."""
    words = words_of(cls.__name__)
    return (
        is_secret_name(cls.__name__)
        or not _SECRET_CLASS_WORDS.isdisjoint(words)
        or any("crypt" in word for word in words)
    )


def why_hidden(model: type[models.Model]) -> Any:
    """The reason why the bridge leaves the model out, translated when people read it; None if it does not."""
    meta = model._meta
    if meta.swapped:
        return format_lazy(_("{model} stands in its place"), model=meta.swapped)
    if is_ours(model):
        return _("it holds the keys to the rest")
    app = min(_HIDDEN_APPS & {table._meta.app_label for table in _tables_of(model)}, default=None)
    if app is not None:
        return format_lazy(_("the app {app} keeps secrets, logs or histories"), app=app)
    for ancestor in _tables_of(model):
        if ancestor.__module__.startswith(_HIDDEN_PACKAGES):
            package = ancestor.__module__.partition(".")[0]
            return format_lazy(_("the package {package} keeps secrets"), package=package)
    if any(field.name == "history_type" for field in meta.get_fields()) and str(meta.model_name).startswith(
        "historical"
    ):
        return _("its rows are a history")
    # DRF's authtoken and its kin: the key of the row is the secret itself.
    if meta.pk.name == "key" or is_secret_field(meta.pk):
        return format_lazy(_("its primary key {name} looks like a secret"), name=meta.pk.name)
    if _has_secret_pair(words_of(meta.object_name or "")):
        return format_lazy(_("by its name, each row of {name} lets somebody in"), name=meta.object_name)
    if _holds_mail({field.name for field in meta.get_fields()}):
        return _("it holds mail that was sent, which may have links to log in or to set a password")
    return ABOUT_RIGHTS if is_about_rights(model) else None


def _holds_mail(names: set[str]) -> bool:
    """Whether fields of these names are those of sent mail: a subject, to whom, and a text.

    An address alone may also be that of a sender, as in a form for contacts, so the text must then be called a body.
    """
    if _SUBJECT not in names:
        return False
    words = {word for name in names for word in words_of(name)}
    firsts = {words_of(name)[0] for name in names if words_of(name)}
    return bool(firsts & _TO and words & _TEXT) or bool(names & _ADDRESS and words & _BODY)


def is_ours(model: type[models.Model]) -> bool:
    """Whether the model shows rows of our own tables: by itself, as a proxy, or as a child of one of our models."""
    return any(table._meta.app_label in _OURS for table in _tables_of(model))


def _tables_of(model: type[models.Model]) -> list[type[models.Model]]:
    concrete = model._meta.concrete_model or model
    return [model, concrete, *concrete._meta.get_parent_list()]
