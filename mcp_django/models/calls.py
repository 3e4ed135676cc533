"""The audit trail: what agents asked for, and what came of it."""

from __future__ import annotations

from datetime import datetime

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext, pgettext_lazy

from mcp_django.models.call_queries import MAX_SESSION, MAX_USER_ID, CallQuerySet

#: What a client chose is cut to so many characters.
MAX_CHOSEN = 64


class Call(models.Model):
    """One line of the audit trail.

    It names users, tokens and tools by plain columns and has no foreign keys, so that it outlives what it names. It
    holds no values of arguments, unless the project allows them by name, and no texts of results or errors.
    """

    class Kind(models.TextChoices):
        CALL = "call", _("call of a tool")
        READ = "read", _("read of a resource")
        PROMPT = "prompt", _("prompt")
        SUBSCRIPTION = "subscription", _("subscription")
        COMPLETION = "completion", _("completion")
        TASK = "task", _("run of a task")
        REQUEST = "request", _("other request")
        TOKEN = "token", _("change of a token")
        SWITCH = "switch", _("change of a tool or a prompt")
        ENDING = "ending", _("end of a session or a task by a person")
        DECISION = "decision", _("decision of a person about a change")
        LOST = "lost", _("lines that were not written")

    class Outcome(models.TextChoices):
        DONE = "done", pgettext_lazy("call", "done")
        #: Nothing was changed: it was shown what a change would do.
        PREVIEWED = "previewed", _("previewed")
        #: Nothing was changed yet: people must agree to it.
        WAITING = "waiting", _("waiting")
        FAILED = "failed", pgettext_lazy("call", "failed")
        REFUSED = "refused", pgettext_lazy("call", "refused")
        ASKED = "asked", _("asked the user")
        TASK = "task", _("continues as a task")
        CANCELLED = "cancelled", pgettext_lazy("call", "cancelled")
        #: The call was about to change data, and nothing is known of its end.
        UNKNOWN = "unknown", _("unknown")

    #: The kinds of what agents did. The others are of people and of the server.
    BY_AGENTS = (
        Kind.CALL, Kind.READ, Kind.PROMPT, Kind.SUBSCRIPTION, Kind.COMPLETION, Kind.TASK, Kind.REQUEST,
    )  # fmt: skip

    at = models.DateTimeField(_("time"))
    site = models.CharField(_("site"), max_length=50, blank=True)
    kind = models.CharField(_("kind"), max_length=12, choices=Kind.choices)
    outcome = models.CharField(_("outcome"), max_length=9, choices=Outcome.choices)
    #: Why it was refused or failed: one of ``REASONS``, or what a project calls it.
    reason = models.CharField(_("reason"), max_length=64, blank=True)
    #: The names of the arguments that were wrong, or the class of the exception that a tool raised.
    detail = models.CharField(_("detail of the reason"), max_length=300, blank=True)
    #: Empty where the caller is not known.
    user_id = models.CharField(_("user id"), max_length=MAX_USER_ID, blank=True)
    user_name = models.CharField(_("user"), max_length=150, blank=True)
    token_id = models.BigIntegerField(_("token id"), null=True, blank=True)
    token_name = models.CharField(_("token"), max_length=100, blank=True)
    #: What a token shares with those that succeed it, and all grants of a user to one client for one resource.
    lineage = models.CharField(_("credential"), max_length=36, blank=True)
    #: The OAuth client of the token, cut. The name is what the client calls itself.
    client_id = models.CharField(_("client id"), max_length=MAX_CHOSEN, blank=True)
    client_name = models.CharField(_("client, as it calls itself"), max_length=MAX_CHOSEN, blank=True)
    transport = models.CharField(_("transport"), max_length=10, blank=True)
    revision = models.CharField(_("revision"), max_length=10, blank=True)
    method = models.CharField(_("method"), max_length=MAX_CHOSEN, blank=True)
    #: Of a tool or a prompt.
    name = models.CharField(_("tool or prompt"), max_length=MAX_CHOSEN, blank=True)
    #: ``app_label.model_name``.
    model = models.CharField(_("model"), max_length=200, blank=True)
    #: Without its query, and without a key that is neither an integer nor a UUID.
    uri = models.CharField(_("URI"), max_length=300, blank=True)
    #: The names of the arguments as a JSON list, and those values that the project allows as a JSON object.
    arguments = models.TextField(_("arguments"), blank=True)
    values = models.TextField(_("values"), blank=True)
    #: The primary keys of changed rows, each with a space on both sides, as `` 17 18 ``.
    keys = models.TextField(_("keys of changed rows"), blank=True)
    rows = models.PositiveIntegerField(_("rows"), default=0)
    bytes = models.PositiveIntegerField(_("bytes"), default=0)
    ms = models.FloatField(_("milliseconds"), default=0)
    queries = models.PositiveIntegerField(_("queries"), default=0)
    request_id = models.CharField(_("request id"), max_length=MAX_CHOSEN, blank=True)
    #: Of W3C Trace Context: 32 hex digits.
    trace_id = models.CharField(_("trace id"), max_length=32, blank=True)
    #: Names the session that the client sends an id of. The id itself would let others use the session.
    session = models.CharField(_("session"), max_length=MAX_SESSION, blank=True)
    address = models.CharField(_("address"), max_length=45, blank=True)
    #: The number of equal refusals, or of lines not written, that the line stands for.
    count = models.PositiveIntegerField(pgettext_lazy("how many", "number"), default=1)

    objects = CallQuerySet.as_manager()

    class Meta:
        verbose_name = _("call")
        verbose_name_plural = _("activity")
        # Nobody adds, changes or deletes lines in the admin, so there are no permissions for it.
        default_permissions = ("view",)
        ordering = ["-at", "-pk"]
        indexes = [
            models.Index(fields=["user_id", "at"], name="mcp_django_call_user"),
            models.Index(fields=["at"], name="mcp_django_call_at"),
        ]

    def __str__(self) -> str:
        if who := self.user_name or self.address:
            text = _("%(subject)s by %(who)s")
        else:
            text = _("%(subject)s by a command") if self.transport == "command" else _("%(subject)s by the server")
        return str(text % {"subject": self.subject, "who": who})

    @property
    def local_at(self) -> datetime:
        """Its time in the time zone that is active. With USE_TZ = False, times are local already."""
        return timezone.localtime(self.at) if timezone.is_aware(self.at) else self.at

    @property
    def subject(self) -> str:
        """What it was about, in a few words."""
        if self.kind == self.Kind.LOST:
            return ngettext("%(count)d line not written", "%(count)d lines not written", self.count) % {
                "count": self.count
            }
        subject = self.name or self.uri or self.method or self.model or str(self.get_kind_display())
        if self.count == 1:
            return subject
        times = ngettext("%(subject)s, %(count)d time", "%(subject)s, %(count)d times", self.count)
        return times % {"subject": subject, "count": self.count}
