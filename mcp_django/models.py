"""What administrators manage (tokens, tools, prompts) and what legacy clients leave with us (sessions)."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from mcp_django.conf import get_conf
from mcp_django.exchange import scopes

#: ``last_used_at`` is written at most this often, so that reading does not become writing.
_LAST_USED_EVERY = timedelta(minutes=1)


def _default_scopes() -> list[str]:
    return [scopes.READ]


def _validate_scopes(value: Any) -> None:
    if not isinstance(value, list):
        raise ValidationError("must be a list of scopes")
    try:
        scopes.parse(value)
    except (ValueError, TypeError, AttributeError) as error:
        raise ValidationError(str(error)) from None


def _validate_name(value: str) -> None:
    from mcp_django.signatures import NAME

    if not NAME.fullmatch(value):
        raise ValidationError(_("Write 1 to 64 letters, digits, _ and -: clients refuse anything else."))


def _validate_template(value: str) -> None:
    from mcp_django.prompts.templates import compile_template

    compile_template(value)


def digest(token: str) -> str:
    """What is stored of a token: its SHA-256, as 64 hex digits."""
    return hashlib.sha256(token.encode()).hexdigest()


class AccessTokenManager(models.Manager["AccessToken"]):
    def create_token(
        self, *, user: Any, name: str = "", scopes: Iterable[str] = ("read",), expires_at: datetime | None = None
    ) -> tuple[AccessToken, str]:
        """A new token and its plain text, which is nowhere stored and cannot be had again."""
        plain = f"mcp_{secrets.token_urlsafe(32)}"
        token = self.create(user=user, name=name, scopes=list(scopes), hash=digest(plain), expires_at=expires_at)
        return token, plain

    def current(self) -> models.QuerySet[AccessToken]:
        """Those that are neither revoked nor expired."""
        return self.filter(Q(expires_at__isnull=True) | Q(expires_at__gt=timezone.now()), revoked_at__isnull=True)


class AccessToken(models.Model):
    """Lets an agent act as its user, within its scopes."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="mcp_tokens", verbose_name=_("user"),
        help_text=_("The agent may do what this user may, within the scopes. Cannot be changed later."),
    )  # fmt: skip
    name = models.CharField(
        _("name"), max_length=100, blank=True, help_text=_("What the token is for, as “Claude on my laptop”.")
    )
    scopes = models.JSONField(_("scopes"), default=_default_scopes, validators=[_validate_scopes])
    hash = models.CharField(max_length=64, unique=True, editable=False)
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)
    last_used_at = models.DateTimeField(_("last used"), null=True, editable=False)
    expires_at = models.DateTimeField(_("expires"), null=True, blank=True, help_text=_("Empty: never."))
    revoked_at = models.DateTimeField(_("revoked"), null=True, editable=False)

    objects = AccessTokenManager()

    class Meta:
        verbose_name = _("access token")
        verbose_name_plural = _("access tokens")
        ordering = ["-created_at", "-pk"]

    def __str__(self) -> str:
        return self.name or f"token {self.pk}"

    def is_current(self) -> bool:
        """Neither revoked nor expired, as far as this instance knows."""
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > timezone.now())

    def is_valid(self) -> bool:
        """Whether the token lets its user in."""
        return self.is_current() and self.user.is_active

    def revoke(self) -> None:
        if self.revoked_at is None:
            self.revoked_at = timezone.now()
            self.save(update_fields=["revoked_at"])

    @classmethod
    def touch(cls, *tokens: AccessToken) -> None:
        """Note that the tokens were used: for each one conditional UPDATE a minute at most, without signals."""
        now = timezone.now()
        due = [one for one in tokens if one.last_used_at is None or one.last_used_at <= now - _LAST_USED_EVERY]
        if not due:
            return
        stale = Q(last_used_at__isnull=True) | Q(last_used_at__lte=now - _LAST_USED_EVERY)
        cls.objects.filter(stale, pk__in=[token.pk for token in due]).update(last_used_at=now)
        for token in due:
            token.last_used_at = now


class Ticket(models.Model):
    """Stands for an access token in the URL of one socket: see ``access.tickets``."""

    hash = models.CharField(max_length=64, unique=True, editable=False)
    token = models.ForeignKey(AccessToken, models.CASCADE, related_name="tickets", verbose_name=_("token"))
    expires_at = models.DateTimeField(_("expires"), db_index=True)

    class Meta:
        verbose_name = _("ticket")
        verbose_name_plural = _("tickets")

    def __str__(self) -> str:
        return f"ticket {self.pk}"


class Switched(models.Model):
    """Something that agents are offered under a name, and on which administrators have a word."""

    #: The list of the protocol that it stands in.
    LIST: str

    site = models.CharField(_("site"), max_length=50, default="mcp", editable=False)
    name = models.CharField(_("name"), max_length=64, editable=False)
    enabled = models.BooleanField(_("enabled"), default=False, help_text=_("Off: it does not exist for any agent."))
    groups = models.ManyToManyField(
        Group, blank=True, related_name="mcp_%(class)ss", verbose_name=_("groups"),
        help_text=_("Only members of these groups may use it. Empty: everybody whose permissions suffice."),
    )  # fmt: skip

    #: Whether it has groups, or had some that were deleted since; kept by a receiver.
    restricted = models.BooleanField(default=False, editable=False)

    class Meta:
        abstract = True
        ordering = ["site", "name"]
        constraints = [models.UniqueConstraint(fields=["site", "name"], name="mcp_django_%(class)s_name")]

    def __str__(self) -> str:
        return self.name


class Tool(Switched):
    """An administrator's word on one tool. A tool without a row is as its declaration says."""

    LIST = "tools"

    description = models.TextField(
        _("description"), blank=True,
        help_text=_("What agents are told of the tool. Empty: its own description. Write nothing here that you would "
                    "not say to the agent yourself: it is read as an instruction."),
    )  # fmt: skip

    class Meta(Switched.Meta):
        verbose_name = _("tool")
        verbose_name_plural = _("tools")


class Prompt(Switched):
    """An administrator's word on a prompt that the project declares, or a prompt that an administrator wrote."""

    LIST = "prompts"

    site = models.CharField(_("site"), max_length=50, default="mcp")
    name = models.CharField(
        _("name"), max_length=64, validators=[_validate_name],
        help_text=_("What clients call it by: letters, digits, _ and -. Many show it as a command."),
    )  # fmt: skip
    enabled = models.BooleanField(_("enabled"), default=True, help_text=_("Off: it does not exist for any agent."))
    title = models.CharField(
        _("title"), max_length=100, blank=True, help_text=_("What people read in a menu. Empty: its own title, if any.")
    )
    description = models.TextField(
        _("description"), blank=True, max_length=2_000,
        help_text=_("What people and agents are told of the prompt. Empty: its own description. Agents may read it as "
                    "an instruction."),
    )  # fmt: skip
    text = models.TextField(
        _("text"), blank=True, max_length=20_000, validators=[_validate_template],
        help_text=_("What the agent is told, word by word, in the name of whoever picks the prompt: it is read as an "
                    "instruction. {{ topic }} makes an argument that clients ask for. {% if topic %} … {% elif "
                    "other %} … {% else %} … {% endif %} asks whether it was given. An argument must be given, unless "
                    "each {{ topic }} stands inside of an {% if %} that names it, or says {{ topic|default:\"…\" }}."),
    )  # fmt: skip

    class Meta(Switched.Meta):
        verbose_name = _("prompt")
        verbose_name_plural = _("prompts")


class SessionManager(models.Manager["Session"]):
    def open(self, *, site: str, principal_key: str, revision: str, client: Any) -> Session:
        """A new session with an unguessable key of visible ASCII."""
        return self.create(
            key=secrets.token_urlsafe(32), site=site, principal_key=principal_key, revision=revision,
            client_info=client.info, client_capabilities=client.capabilities, expires_at=_session_end(),
        )  # fmt: skip

    def live(self) -> models.QuerySet[Session]:
        return self.filter(expires_at__gt=timezone.now())


def _session_end() -> datetime:
    return timezone.now() + timedelta(seconds=get_conf().SESSION_SECONDS)


class Session(models.Model):
    """A legacy client's session over HTTP, kept where every process can find it."""

    key = models.CharField(max_length=64, primary_key=True)
    site = models.CharField(max_length=50)
    principal_key = models.CharField(max_length=100)
    revision = models.CharField(max_length=10)
    client_info = models.JSONField(default=dict)
    client_capabilities = models.JSONField(default=dict)
    log_level = models.CharField(max_length=9, default="info")
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(db_index=True)

    objects = SessionManager()

    class Meta:
        verbose_name = _("session")
        verbose_name_plural = _("sessions")
        indexes = [models.Index(fields=["site", "principal_key", "expires_at"], name="mcp_django_session_owner")]

    def __str__(self) -> str:
        return f"{self.client_info.get('name', 'client')} of {self.principal_key}"

    def renew(self) -> None:
        """Put the end off, at most once in a hundredth of the session's life."""
        end = _session_end()
        if end - self.expires_at > timedelta(seconds=get_conf().SESSION_SECONDS / 100):
            self.expires_at = end
            # Unless it was ended meanwhile.
            Session.objects.live().filter(pk=self.pk).update(expires_at=end)


class WatchedResource(models.Model):
    """A URI that a legacy session has subscribed to, as the client wrote it."""

    session = models.ForeignKey(Session, models.CASCADE, related_name="watched")
    uri = models.TextField()
    #: SHA-256 of the URI: a text cannot be unique on every database.
    uri_hash = models.CharField(max_length=64)
    #: Of a live query: SHA-256 of its answer when it was subscribed to; empty once another one was told.
    digest = models.CharField(max_length=64, default="")

    class Meta:
        verbose_name = _("watched resource")
        verbose_name_plural = _("watched resources")
        constraints = [models.UniqueConstraint(fields=["session", "uri_hash"], name="mcp_django_watched_once")]

    def __str__(self) -> str:
        return self.uri


class OpenQuestion(models.Model):
    """A request of ours to a legacy client, until its answer has been fetched by the process that waits for it."""

    #: The id of the request.
    key = models.CharField(max_length=64, primary_key=True)
    session = models.ForeignKey(Session, models.CASCADE, related_name="questions")
    #: The client's answer as JSON, which may have come to any process.
    answer = models.TextField(null=True)
    expires_at = models.DateTimeField(db_index=True)

    class Meta:
        verbose_name = _("open question")
        verbose_name_plural = _("open questions")

    def __str__(self) -> str:
        return self.key


class CallStream(models.Model):
    """The event stream of one request of a legacy session, kept so that a client who lost it can have the rest."""

    key = models.CharField(max_length=32, primary_key=True)
    session = models.ForeignKey(Session, models.CASCADE, related_name="streams")
    #: As JSON: a JSONField cannot hold every string that JSON can say.
    request_id = models.TextField()
    ended = models.BooleanField(default=False)
    #: The process that answers puts it off; past it, that process is gone, and no answer will come.
    lease_until = models.DateTimeField()
    expires_at = models.DateTimeField(db_index=True)

    class Meta:
        verbose_name = _("stream of a call")
        verbose_name_plural = _("streams of calls")

    def __str__(self) -> str:
        return self.key


class StreamEvent(models.Model):
    """One event of such a stream; ``number`` counts from 1."""

    stream = models.ForeignKey(CallStream, models.CASCADE, related_name="events")
    number = models.PositiveIntegerField()
    body = models.TextField()

    class Meta:
        verbose_name = _("event of a stream")
        verbose_name_plural = _("events of streams")
        ordering = ["number"]
        constraints = [models.UniqueConstraint(fields=["stream", "number"], name="mcp_django_event_once")]

    def __str__(self) -> str:
        return f"{self.stream_id}/{self.number}"


class SSEConnection(models.Model):
    """An open stream of the transport HTTP+SSE, so that a message can be posted to any process."""

    key = models.CharField(max_length=64, primary_key=True)
    #: SHA-256 of whose it is.
    owner = models.CharField(max_length=64)
    #: The process that holds it puts it off; past it, that process is gone.
    lease_until = models.DateTimeField(db_index=True)

    class Meta:
        verbose_name = _("SSE connection")
        verbose_name_plural = _("SSE connections")

    def __str__(self) -> str:
        return f"stream until {self.lease_until:%H:%M:%S}"


class PostedMessage(models.Model):
    """Something that came to one process and is for another: for the one that holds what the address names."""

    address = models.CharField(max_length=100, db_index=True)
    body = models.TextField(blank=True)
    created_at = models.DateTimeField(default=timezone.now, db_index=True)

    class Meta:
        verbose_name = _("posted message")
        verbose_name_plural = _("posted messages")
        ordering = ["pk"]

    def __str__(self) -> str:
        return self.address


class ResultPart(models.Model):
    """A part of a tool's result that was too long for one message, from the second on."""

    key = models.CharField(max_length=32)
    number = models.PositiveIntegerField()
    site = models.CharField(max_length=50)
    principal_key = models.CharField(max_length=100)
    mime_type = models.CharField(max_length=50)
    text = models.TextField()
    expires_at = models.DateTimeField(db_index=True)

    class Meta:
        verbose_name = _("part of a result")
        verbose_name_plural = _("parts of results")
        constraints = [models.UniqueConstraint(fields=["key", "number"], name="mcp_django_part_once")]

    def __str__(self) -> str:
        return f"{self.key}/{self.number}"


class UsedNonce(models.Model):
    """Something that may be used once, and was."""

    nonce = models.CharField(max_length=64, primary_key=True)
    expires_at = models.DateTimeField(db_index=True)

    class Meta:
        verbose_name = _("used nonce")
        verbose_name_plural = _("used nonces")

    def __str__(self) -> str:
        return self.nonce


class Task(models.Model):
    """A call of a tool that goes on after its request was answered (the tasks extension)."""

    class State(models.TextChoices):
        QUEUED = "queued", _("waits for a worker")
        RUNNING = "running", _("runs")
        ASKING = "asking", _("waits for answers")
        COMPLETED = "completed", _("completed")
        FAILED = "failed", _("failed")
        CANCELLED = "cancelled", _("cancelled")

    key = models.CharField(max_length=64, primary_key=True)
    site = models.CharField(max_length=50)
    #: Whose it is. Without a user it is anonymous, and without a token it came with other credentials.
    principal_key = models.CharField(max_length=100)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, null=True, related_name="+")
    token = models.ForeignKey(AccessToken, models.CASCADE, null=True, related_name="+")
    scopes = models.JSONField(default=list)
    tool = models.CharField(max_length=64)
    revision = models.CharField(max_length=10)
    #: The params of the call, its request's origin, and what was answered before the task began. JSON, as all texts
    #: here that come from clients: a JSONField cannot hold every string that JSON can say.
    params = models.TextField()
    origin = models.TextField()
    answers = models.TextField()
    state = models.CharField(max_length=9, choices=State.choices, default=State.QUEUED)
    message = models.TextField(blank=True)
    #: The result, or the error, as JSON.
    outcome = models.TextField(blank=True)
    #: Names the present run. Whoever runs it puts the lease off; past it, that process is gone.
    run = models.CharField(max_length=32, blank=True)
    lease_until = models.DateTimeField(null=True)
    #: When it was last given to the workers, and how often since it last ran.
    queued_at = models.DateTimeField()
    tries = models.PositiveSmallIntegerField(default=0)
    #: Rounds of questions so far.
    rounds = models.PositiveSmallIntegerField(default=0)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    expires_at = models.DateTimeField(db_index=True)

    class Meta:
        verbose_name = _("task")
        verbose_name_plural = _("tasks")
        indexes = [models.Index(fields=["site", "principal_key", "expires_at"], name="mcp_django_task_owner")]

    def __str__(self) -> str:
        return f"{self.tool} of {self.principal_key}"


class TaskQuestion(models.Model):
    """A question of a task to its client."""

    task = models.ForeignKey(Task, models.CASCADE, related_name="questions")
    #: What the client knows it by: never another question of the task.
    key = models.CharField(max_length=200)
    #: What its tool knows it by, and what names the question as it was asked.
    asked_as = models.TextField()
    digest = models.CharField(max_length=64)
    #: Its method and params, and the client's answer, as JSON.
    request = models.TextField()
    answer = models.TextField(null=True)

    class Meta:
        verbose_name = _("question of a task")
        verbose_name_plural = _("questions of tasks")
        ordering = ["pk"]
        constraints = [models.UniqueConstraint(fields=["task", "key"], name="mcp_django_task_question_once")]

    def __str__(self) -> str:
        return self.key
