"""How a consent becomes a grant, and a grant tokens: codes, refreshes with a grace, and the end after a theft."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import router, transaction
from django.db.models import F
from django.utils import timezone
from django.views.decorators.debug import sensitive_variables

from mcp_django.access import lending, trail
from mcp_django.access.permissions import can_be_granted, may_connect
from mcp_django.conf import get_conf
from mcp_django.core.secret import Secret
from mcp_django.exchange.principals import WITHHELD, in_force
from mcp_django.exchange.scopes import known, parse
from mcp_django.models import AccessToken, Grant, Lending, digest, sealed
from mcp_django.oauth.clearing import tidy
from mcp_django.oauth.errors import AskPerson, InvalidGrant, OAuthError
from mcp_django.oauth.models import AuthorizationCode, Client, RefreshToken

if TYPE_CHECKING:
    from mcp_django.bridge.sites import MCPSite

CODE_SECONDS = 60
TOKEN_SECONDS = 3_600
#: Tokens that one refresh token may make.
MOST_USES = 10
#: How long after a challenge for more scopes a refresh is taken for the answer to it.
_CHALLENGE_SECONDS = 30
_MAX_NAME = 100


class _UsedMeanwhile(Exception):
    """Another process has used the code at the same moment."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """A pair of tokens in plain text, which is not stored, and the scopes of the access token."""

    access: Secret
    refresh: Secret
    scopes: Collection[str]


@dataclass(frozen=True, slots=True)
class Consent:
    """What a person has let a client do."""

    user: Any
    client: Client
    redirect_uri: str
    code_challenge: str
    resource: str
    scopes: Collection[str]
    #: Scopes that it gets for a while → the end of each, in seconds since 1970.
    lent: Mapping[str, float]
    declined: Collection[str]


def issue_code(consent: Consent) -> Secret:
    """A new code for the client, in plain text, which is not stored."""
    plain = _new_secret()
    AuthorizationCode.objects.create(
        hash=digest(plain), user=consent.user, client=consent.client.key, client_name=consent.client.name,
        redirect_uri=consent.redirect_uri, code_challenge=consent.code_challenge, resource=consent.resource,
        scopes=list(consent.scopes), declined=list(consent.declined), lent=dict(consent.lent),
        expires_at=timezone.now() + timedelta(seconds=CODE_SECONDS),
    )  # fmt: skip
    return plain


@sensitive_variables()
def redeem_code(
    plain: Secret, *, clients: Collection[str], redirect_uri: str, verifier: Secret, resource: str
) -> Tokens:
    """The first tokens of a grant. ``clients``: the keys that its Client may have. Raises InvalidGrant.

    A second use ends the grant, but only with the right client and verifier: a found code alone is not enough.
    """
    codes = AuthorizationCode.objects.using(_alias()).select_related("user", "grant")
    code = codes.filter(hash=digest(plain)).first()
    if code is None or not (
        code.client in clients
        and code.redirect_uri == redirect_uri
        and code.resource == resource
        and hmac.compare_digest(_challenge_of(verifier), code.code_challenge)
    ):
        raise InvalidGrant("The code is unknown or expired, or it was issued for other parameters.")
    if code.grant is not None:
        code.grant.end(Grant.Ended.CODE_REPLAYED)
        raise InvalidGrant("The code was used before. The grant has been ended.")
    if code.expires_at <= timezone.now() or not code.user.is_active or _is_blocked(clients):
        raise InvalidGrant("The code is unknown or expired, or it was issued for other parameters.")
    # A group of scopes may have been removed from the settings since.
    held = parse(known(code.scopes))
    lent = {one: end for one, end in code.lent.items() if known([one]) and one in in_force(code.lent.items())}
    if not held and not lent:
        raise InvalidGrant("None of the scopes that the code is for exists any more.")
    grant = _new_grant(code)
    try:
        with _atomic():
            grant.save(force_insert=True)
            # Writing the row claims the code: only one caller can.
            if not AuthorizationCode.objects.filter(pk=code.pk, grant=None).update(grant=grant):
                raise _UsedMeanwhile
            # A person who blocks the client at this moment writes the same row, and then ends this grant too.
            if not Client.objects.select_for_update().filter(key=code.client, blocked_at=None).first():
                raise InvalidGrant("The client is blocked.")
            _lend(grant, lent)
            tokens = _issue(grant, held, grant.lent, replaces=None)
            trail.note_grant(grant, "granted", _alias(), scopes=" ".join(code.scopes))
    except _UsedMeanwhile:
        return redeem_code(plain, clients=clients, redirect_uri=redirect_uri, verifier=verifier, resource=resource)
    tidy(grant)
    return tokens


@sensitive_variables()
def refresh(
    plain: Secret, *, site: MCPSite, clients: Collection[str], scopes: Collection[str], resource: str
) -> Tokens:
    """The next tokens of a grant. ``scopes`` narrow those of the grant. Raises OAuthError.

    ``clients``: the keys that its Client may have.

    Several processes of a client may refresh at once, and an answer may be lost. So a refresh token is good until
    OAUTH_GRACE_SECONDS after a token that it has made was used. Later uses are taken for theft, and end the grant.
    """
    tokens_of_grants = RefreshToken.objects.using(_alias()).select_related("grant__user", "replaces")
    found = tokens_of_grants.filter(hash=digest(plain)).first()
    if found is None or found.grant.client not in clients or found.grant.resource != resource:
        raise InvalidGrant("The refresh token is unknown, or it was issued for another client or resource.")
    grant = found.grant
    if not grant.is_valid() or _is_blocked(clients):
        raise InvalidGrant("The grant has ended.")
    if found.is_worn_out(timedelta(seconds=get_conf().OAUTH_GRACE_SECONDS), MOST_USES):
        grant.end(Grant.Ended.REFRESH_REPLAYED)
        raise InvalidGrant("The refresh token was replaced by another one. The grant has been ended.")
    if not may_connect(grant.user):
        raise InvalidGrant("The user may not connect clients any more.")
    held, lent = (_givable(site, names) for names in (grant.scopes, in_force(grant.lent.items())))
    if not held and not lent:
        raise InvalidGrant("Clients get none of the scopes of the grant any more.")
    beyond = set(scopes) - {*held, *lent}
    # A client may go on to name what it was lent.
    if beyond and (not beyond < set(scopes) or not beyond <= _once_lent(grant)):
        raise OAuthError("invalid_scope", "The grant lacks some of these scopes.")
    now = timezone.now()
    if _answers_challenge(found, now):
        raise AskPerson
    with _atomic():
        # The row of the grant is written first: it may be ended at this moment by somebody who writes it too.
        current = Grant.objects.current().filter(pk=grant.pk)
        mine = RefreshToken.objects.filter(pk=found.pk, uses__lt=MOST_USES)
        expires_at = grant.expiry_after_use(now)
        if not (current.update(last_used_at=now, expires_at=expires_at) and mine.update(uses=F("uses") + 1)):
            raise InvalidGrant("The grant has ended.")
        _note_use(found)
        # Read once more, since something may have been lent, or ended, before the row was ours.
        now_lent = Grant.objects.select_for_update().values_list("lent", flat=True).get(pk=grant.pk)
        wanted = {one for one in (*held, *_givable(site, now_lent)) if not scopes or one in scopes}
        own = {one: end if one in wanted else WITHHELD for one, end in now_lent.items()}
        tokens = _issue(grant, [one for one in held if one in wanted], own, replaces=found)
        trail.note_grant(grant, "refreshed", _alias())
    tidy(grant)
    return tokens


def revoke(plain: Secret, clients: Collection[str] | None) -> None:
    """End the grant of an access token or a refresh token, if it is of one of these clients (RFC 7009)."""
    hashed = digest(plain)
    refreshing = RefreshToken.objects.select_related("grant").filter(hash=hashed).first()
    holder = refreshing or AccessToken.objects.select_related("grant").filter(hash=hashed, grant__isnull=False).first()
    if holder is not None and holder.grant is not None and (clients is None or holder.grant.client in clients):
        holder.grant.end(Grant.Ended.REVOKED)


def current_grant(user: Any, client: str, resource: str) -> Grant | None:
    """The latest grant of the user to the client for the resource that holds now."""
    return Grant.objects.current().filter(user=user, client=client, resource=resource).order_by("-pk").first()


def forget_codes(*, instance: Any, **kwargs: Any) -> None:
    """Delete the unused codes of a user who has a new password, and end the user's grants."""
    if getattr(instance, "_mcp_new_password", False) and get_conf().PASSWORD_CHANGE_REVOKES:
        AuthorizationCode.objects.filter(user=instance.pk, grant=None).delete()
        # A code that was used at the same moment may have made a grant after the others were ended.
        for grant in Grant.objects.current().filter(user=instance.pk):
            grant.end(Grant.Ended.PASSWORD)


def note_first_use(*, token: AccessToken, **kwargs: Any) -> None:
    """An access token was used for the first time: the refresh token that made it counts as replaced from now on."""
    made_with = RefreshToken.objects.filter(access_token=token.pk).select_related("replaces").first()
    if made_with is not None:
        _note_use(made_with)
    Grant.objects.filter(tokens=token).update(last_used_at=timezone.now())


def _answers_challenge(found: RefreshToken, now: datetime) -> bool:
    """Whether the client refreshes because a call was refused for lack of scopes, and not because its token ends.

    Only the first refresh after a challenge is taken for that.
    """
    challenged = Grant.objects.filter(pk=found.grant_id, challenged_at__gt=now - timedelta(seconds=_CHALLENGE_SECONDS))
    is_early = found.created_at > now - timedelta(seconds=TOKEN_SECONDS / 2)
    return is_early and bool(challenged.update(challenged_at=None))


def _note_use(found: RefreshToken) -> None:
    """A token of the pair was used, so its client has received it and no longer needs the pair before."""
    if found.replaces is not None and found.replaces.replaced_at is None:
        RefreshToken.objects.filter(pk=found.replaces.pk, replaced_at=None).update(replaced_at=timezone.now())


def _new_grant(code: AuthorizationCode) -> Grant:
    """The grant of a code, which is not saved yet. It goes on with the line of an earlier one."""
    now = timezone.now()
    mine = Grant.objects.filter(user=code.user, client=code.client, resource=code.resource)
    line = mine.order_by("-pk").values_list("line", flat=True).first()
    grant = Grant(
        user=code.user, client=code.client, client_name=code.client_name, resource=code.resource,
        scopes=code.scopes, declined=code.declined, created_at=now, last_used_at=now, line=line or uuid.uuid4(),
    )  # fmt: skip
    grant.expires_at = grant.expiry_after_use(now)
    return grant


def _givable(site: MCPSite, names: Collection[str]) -> list[str]:
    """Those of the scopes that its client may have still.

    A group of scopes may have been removed from the settings since, or clients may get less.
    """
    return [one for one in parse(known(names)) if not get_conf().OAUTH_SCOPES or can_be_granted(site, one)]


def _lend(grant: Grant, lent: Mapping[str, float]) -> None:
    """Lend a new grant what its person gave for a while. Raises InvalidGrant where that is over."""
    borrower = lending.Borrower(str(grant.line), grant.pk, grant.user)
    for end in sorted(set(lent.values())):
        names = parse(name for name, own_end in lent.items() if own_end == end)
        until = datetime.fromtimestamp(end, UTC if settings.USE_TZ else None)
        try:
            lending.begin(borrower, names, until, agreed_by=grant.user.get_username())
        except lending.NotLendable as error:
            raise InvalidGrant(str(error)) from None
    grant.lent = dict(lent)


def _once_lent(grant: Grant) -> set[str]:
    return {one for lending in Lending.objects.of(grant.line, grant.pk) for one in lending.scopes}


def _issue(
    grant: Grant, scopes: Collection[str], lent: Mapping[str, float], *, replaces: RefreshToken | None
) -> Tokens:
    token, access = sealed(AccessToken.objects.create_token(
        user=grant.user, name=str(grant)[:_MAX_NAME], scopes=scopes, grant=grant,
        lent=lent, expires_at=timezone.now() + timedelta(seconds=TOKEN_SECONDS),
    ))  # fmt: skip
    plain = _new_secret()
    RefreshToken.objects.create(hash=digest(plain), grant=grant, replaces=replaces, access_token=token.pk)
    return Tokens(access, plain, parse({*token.scopes, *in_force(lent.items())}))


def _is_blocked(clients: Collection[str]) -> bool:
    return Client.objects.filter(key__in=clients, blocked_at__isnull=False).exists()


def _alias() -> str:
    """The database that is written. Codes and tokens are read there too: a replica may not know them yet."""
    return router.db_for_write(Grant)


def _atomic() -> Any:
    return transaction.atomic(using=_alias())


def _new_secret() -> Secret:
    """256 bits of chance. Its form differs from an access token's, so neither is taken for the other."""
    return Secret(secrets.token_urlsafe(32))


def _challenge_of(verifier: Secret) -> str:
    """The S256 challenge of a verifier (RFC 7636 §4.2)."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
