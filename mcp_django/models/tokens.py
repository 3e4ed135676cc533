"""Credentials: access tokens, tickets that stand for them, and used nonces."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Hashable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import models, router, transaction
from django.db.models import Q
from django.dispatch import Signal
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext, pgettext_lazy

from mcp_django.conf import get_conf
from mcp_django.core.secret import Secret
from mcp_django.exchange.addresses import parse_networks
from mcp_django.exchange.scopes import parse
from mcp_django.exchange.token_format import new_token
from mcp_django.models.grants import Grant
from mcp_django.models.lendings import Lending
from mcp_django.models.validators import default_scopes, validate_addresses, validate_limits, validate_scopes

#: ``last_used_at`` is written at most this often, so that not every read becomes a write.
_LAST_USED_EVERY = timedelta(minutes=1)
_LAST_CHARS = 4
#: A token that ends within this time should be replaced: lists say so, and its user is written to.
SOON = timedelta(days=7)

#: Sent when a token of a grant was used for the first time, with the argument ``token``.
first_used = Signal()

#: Instead of a date: the token never expires. It must be given by name, since it is seldom wanted.
NEVER: Final = "never"
Expiry = datetime | Literal["never"] | None


def digest(token: str) -> str:
    """The SHA-256 of a token as 64 hex digits, which is what the database stores."""
    return hashlib.sha256(token.encode()).hexdigest()


def default_expiry(created_at: datetime) -> datetime:
    """When a token expires that is made without a date: after TOKEN_DAYS, or TOKEN_MAX_DAYS if that is less."""
    conf = get_conf()
    days = conf.TOKEN_DAYS if conf.TOKEN_MAX_DAYS is None else min(conf.TOKEN_DAYS, conf.TOKEN_MAX_DAYS)
    return created_at + timedelta(days=days)


def check_expiry(expires_at: datetime | None, created_at: datetime) -> None:
    """Raises ValidationError for a moment in the past, and for a life beyond TOKEN_MAX_DAYS. None stands for never."""
    most = get_conf().TOKEN_MAX_DAYS
    if expires_at is not None and expires_at <= timezone.now():
        raise ValidationError(_("This is in the past, so the token could never be used. Name a later moment."))
    if most is not None and (expires_at is None or expires_at > created_at + timedelta(days=most)):
        text = ngettext(
            "A token may live for %(days)d day at most (TOKEN_MAX_DAYS). Name an earlier moment.",
            "A token may live for %(days)d days at most (TOKEN_MAX_DAYS). Name an earlier moment.", most,
        )  # fmt: skip
        raise ValidationError(text % {"days": most})


def sealed(made: tuple[AccessToken, str]) -> tuple[AccessToken, Secret]:
    """What ``create_token`` and ``roll`` return, where more is done before the plain text is shown."""
    return made[0], Secret(made[1])


class AccessTokenManager(models.Manager["AccessToken"]):
    def create_token(
        self,
        *,
        user: Any,
        name: str = "",
        scopes: Iterable[str] = ("read",),
        expires_at: Expiry = None,
        addresses: Iterable[str] = (),
        limits: Mapping[str, Any] | None = None,
        line: uuid.UUID | None = None,
        grant: Grant | None = None,
        made_by: Any = None,
        lent: Mapping[str, float] | None = None,
    ) -> tuple[AccessToken, str]:
        """A new token and its plain text, which is not stored and cannot be shown again.

        Without a date it expires after TOKEN_DAYS; ``expires_at=NEVER`` makes one that does not. ``addresses`` are the
        only addresses and networks from which it may be used, and ``limits`` is such as ``{"calls": "60/min"}``.
        A token of a ``grant`` has its credential line and its resource. ``made_by`` is the user who makes it, or
        that user's key: another one than ``user`` cannot agree to changes in that place. ``lent`` is what the token
        before it, or its grant, is lent. Raises ValidationError for a
        date or a limit that is not allowed, and ValueError for an unknown scope and a wrong address.
        """
        now = timezone.now()
        end = default_expiry(now) if expires_at is None else None if expires_at == NEVER else expires_at
        check_expiry(end, now)
        own = dict(limits or {})
        validate_limits(own)
        plain = Secret(new_token())
        token = self.create(
            user=user, name=name, scopes=parse(scopes), addresses=parse_networks(addresses), limits=own,
            hash=digest(plain), last_chars=plain[-_LAST_CHARS:], created_at=now, expires_at=end, grant=grant,
            made_by="" if made_by is None else str(getattr(made_by, "pk", made_by)),
            line=grant.line if grant is not None else line or uuid.uuid4(),
            resource="" if grant is None else grant.resource, client="" if grant is None else grant.client,
            lent=dict(lent or {}),
        )  # fmt: skip
        return token, plain.reveal()

    def current(self) -> models.QuerySet[AccessToken]:
        """The tokens that are neither revoked nor expired."""
        return self.filter(Q(expires_at__isnull=True) | Q(expires_at__gt=timezone.now()), revoked_at__isnull=True)

    def ended(self, before: datetime) -> models.QuerySet[AccessToken]:
        """The tokens that expired or were revoked before a moment, but not those of grants that hold."""
        over = self.filter(Q(expires_at__lt=before) | Q(revoked_at__lt=before))
        return over.exclude(grant__ended_at__isnull=True, grant__expires_at__gt=timezone.now())


class AccessToken(models.Model):
    """Lets an agent act as its user, within its scopes."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="mcp_tokens", verbose_name=_("user"),
        help_text=_("The agent may do what this user may do, within the scopes. It cannot be changed later."),
    )  # fmt: skip
    name = models.CharField(
        _("name"), max_length=100, blank=True, help_text=_("What the token is for, such as “Claude on my laptop”.")
    )
    scopes = models.JSONField(_("scopes"), default=default_scopes, validators=[validate_scopes])
    #: Scopes that it is lent → the end of each, in seconds since 1970: see ``access.lending``.
    lent = models.JSONField(_("lent"), default=dict, editable=False)
    #: The only addresses and networks from which it may be used. Empty: it may be used from everywhere.
    addresses = models.JSONField(_("addresses"), default=list, blank=True, validators=[validate_addresses])
    limits = models.JSONField(
        _("limits"), default=dict, blank=True, validators=[validate_limits],
    )  # fmt: skip
    hash = models.CharField(max_length=64, unique=True, editable=False)
    #: The last characters of the plain text, by which people recognise it. Empty where it is not known any more.
    last_chars = models.CharField(_("last characters"), max_length=_LAST_CHARS, blank=True, editable=False)
    #: The credential line, which a token shares with those that succeed it.
    line = models.UUIDField(default=uuid.uuid4, db_index=True, editable=False)
    #: The grant by which an OAuth client got it. None for a token that was made by hand.
    grant = models.ForeignKey(
        Grant, models.CASCADE, related_name="tokens", verbose_name=_("grant"), null=True, editable=False
    )
    #: The client of the grant, which answers and lines of the audit trail may depend on.
    client = models.CharField(_("client"), max_length=255, blank=True, editable=False)
    #: The key of whoever made it, which outlives that user; empty where it is not known. Somebody else may hold it.
    made_by = models.CharField(_("made by"), max_length=100, blank=True, editable=False)
    #: The URL of the only endpoint at which it may be used (RFC 8707). Empty: at every endpoint of the project.
    resource = models.CharField(_("resource"), max_length=500, blank=True, editable=False)
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)
    last_used_at = models.DateTimeField(_("last used"), null=True, editable=False)
    expires_at = models.DateTimeField(_("ends"), null=True, blank=True)
    revoked_at = models.DateTimeField(pgettext_lazy("moment", "revoked"), null=True, editable=False)
    #: When its user was written to about its end: see ``server.ending_tokens``.
    told_at = models.DateTimeField(_("told"), null=True, editable=False)

    #: Permissions by user and by what else they depend on, while this instance is remembered: see
    #: ``access.user_permissions``.
    known_permissions: dict[Hashable, Any] | None = None

    objects = AccessTokenManager()

    class Meta:
        verbose_name = _("access token")
        verbose_name_plural = _("access tokens")
        ordering = ["-created_at", "-pk"]

    def __str__(self) -> str:
        return self.name or str(_("token %(id)s") % {"id": self.pk})

    @property
    def is_made_by_another(self) -> bool:
        """Whether somebody else than its user made it, and may hold it."""
        return self.made_by not in ("", str(self.user_id))

    def is_current(self) -> bool:
        """Whether it is neither revoked nor expired, as far as this instance knows."""
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > timezone.now())

    def is_valid(self) -> bool:
        """Whether the token lets its user in."""
        return self.is_current() and self.user.is_active

    def is_continued(self) -> bool:
        """Whether what was begun with the token may go on, even if the token has expired. Reads its grant and user."""
        return self.grant is not None and self.revoked_at is None and self.grant.is_current() and self.user.is_active

    def revoke(self) -> None:
        """End the token, and its grant if it has one: otherwise the client would get the next token at once."""
        if self.grant is not None:
            self.grant.end(Grant.Ended.REVOKED)
            self.revoked_at = self.revoked_at or timezone.now()
        elif self.revoked_at is None:
            self.revoked_at = timezone.now()
            self.save(update_fields=["revoked_at"])
            alias = router.db_for_write(AccessToken)
            if not AccessToken.objects.db_manager(alias).current().filter(line=self.line, grant=None).exists():
                Lending.objects.using(alias).of(self.line, None).end(self.revoked_at, Grant.Ended.REVOKED)

    def roll(
        self, *, grace: timedelta = timedelta(), expires_at: Expiry = None, made_by: Any = None
    ) -> tuple[AccessToken, str]:
        """Replace the token by a successor of the same credential line. Returns the successor and its plain text.

        With the successor, a client goes on with what it began with this token. This token ends at once, or after
        ``grace``. Raises ValidationError if it has ended or has a successor already, for a token of a grant, which its
        client refreshes, and for a wrong date.
        """
        if self.grant_id is not None:
            raise ValidationError(_("An OAuth client has this token, and fetches its successors without your help."))
        alias = router.db_for_write(AccessToken)
        with transaction.atomic(using=alias):
            old = AccessToken.objects.using(alias).select_for_update().get(pk=self.pk)
            if not old.is_current() or AccessToken.objects.using(alias).filter(line=old.line, pk__gt=old.pk).exists():
                raise ValidationError(_("This token has ended or was replaced already. Make a new one."))
            made, plain = sealed(AccessToken.objects.create_token(
                user=old.user, name=old.name, scopes=old.scopes, addresses=old.addresses, limits=old.limits,
                line=old.line, expires_at=expires_at, lent=old.lent,
                # Whoever made the one before may hold that until it ends.
                made_by=old.made_by if old.is_made_by_another or made_by is None else made_by,
            ))  # fmt: skip
            old._end_after(grace)
        self.revoked_at, self.expires_at = old.revoked_at, old.expires_at
        return made, plain.reveal()

    def _end_after(self, grace: timedelta) -> None:
        if grace <= timedelta():
            self.revoke()
            return
        end = timezone.now() + grace
        self.expires_at = end if self.expires_at is None else min(end, self.expires_at)
        self.save(update_fields=["expires_at"])

    @classmethod
    def touch(cls, *tokens: AccessToken) -> None:
        """Record that the tokens were used: at most one conditional UPDATE a minute for each, without signals."""
        now = timezone.now()
        due = [one for one in tokens if one.last_used_at is None or one.last_used_at <= now - _LAST_USED_EVERY]
        if not due:
            return
        stale = Q(last_used_at__isnull=True) | Q(last_used_at__lte=now - _LAST_USED_EVERY)
        cls.objects.filter(stale, pk__in=[token.pk for token in due]).update(last_used_at=now)
        for token in due:
            is_first, token.last_used_at = token.last_used_at is None, now
            if is_first and token.grant_id is not None:
                first_used.send(cls, token=token)


class Ticket(models.Model):
    """Stands for an access token in the URL of one socket (see ``access.tickets``)."""

    hash = models.CharField(max_length=64, unique=True, editable=False)
    #: The credential line of the token that asked for the ticket.
    line = models.UUIDField(db_index=True)
    #: The grant of that token, if it has one, and its scopes.
    grant = models.ForeignKey(Grant, models.CASCADE, null=True, related_name="+")
    scopes = models.JSONField(default=list)
    expires_at = models.DateTimeField(_("expires"), db_index=True)

    class Meta:
        verbose_name = _("ticket")
        verbose_name_plural = _("tickets")

    def __str__(self) -> str:
        return f"ticket {self.pk}"


class UsedNonce(models.Model):
    """A value that may be used once, and was (see ``access.nonces``)."""

    nonce = models.CharField(max_length=64, primary_key=True)
    expires_at = models.DateTimeField(db_index=True)

    class Meta:
        verbose_name = _("used nonce")
        verbose_name_plural = _("used nonces")

    def __str__(self) -> str:
        return self.nonce
