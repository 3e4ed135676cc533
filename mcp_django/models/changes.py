"""Changes of rows by agents: those that wait for a person, and those that were made."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.dispatch import Signal
from django.utils.translation import gettext_lazy as _

from mcp_django.models.calls import MAX_CHOSEN

#: Sent with ``change`` when a change begins to wait for people, after the commit. A receiver that fails is logged.
change_waits = Signal()


class Change(models.Model):
    """A change that an agent has confirmed. It names its user and token by texts too, which outlive both.

    What was to be written, and the answer to the agent, are kept for as long as they are needed: until ``expires_at``.
    """

    class State(models.TextChoices):
        WAITING = "waiting", _("waits")
        #: Claimed by a run, which ends by the end of the lease.
        WRITING = "writing", _("is being written")
        APPLIED = "applied", _("applied")
        REJECTED = "rejected", _("rejected")
        #: The user of its agent does not want it any more, where other people were to approve it.
        WITHDRAWN = "withdrawn", _("withdrawn")
        FAILED = "failed", _("failed")
        EXPIRED = "expired", _("expired")

    class Kind(models.TextChoices):
        """What was proposed. A new kind of change is a subclass of ``bridge.changes.proposed.Proposed``."""

        RECORD = "record", _("record")
        RECORDS = "records", _("several records")
        ACTION = "action", _("action of the admin")
        CALL = "call", _("function")
        API = "api", _("operation of the API")
        UNDO = "undo", _("undo")
        RIGHTS = "rights", _("rights")

    class Operation(models.TextChoices):
        CREATE = "create", _("create")
        UPDATE = "update", _("change")
        DELETE = "delete", _("delete")

    key = models.CharField(_("number"), max_length=22, primary_key=True, editable=False)
    #: The digest of the token that confirmed it, which can do so once.
    confirmed_by = models.CharField(max_length=64, unique=True, editable=False)
    site = models.CharField(max_length=50, editable=False)
    # As those of a Task: see ``bridge.tasks.callers``.
    principal_key = models.CharField(max_length=100, editable=False)
    line = models.CharField(max_length=100, editable=False)
    #: No foreign key: where the grant is gone, nothing is written in its name.
    grant_id = models.BigIntegerField(null=True, editable=False)
    scopes = models.JSONField(default=list, editable=False)
    origin = models.TextField(editable=False)
    #: The tenant of that request, as ``bridge.changes.tenants`` names it; empty where nothing chooses one.
    tenant = models.CharField(max_length=40, default="", editable=False)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+", verbose_name=_("user"), editable=False
    )
    user_name = models.CharField(_("user"), max_length=150, editable=False)
    token_name = models.CharField(_("token"), max_length=100, blank=True, editable=False)
    #: Nobody has verified it.
    client_name = models.CharField(_("client, as it calls itself"), max_length=MAX_CHOSEN, blank=True, editable=False)
    kind = models.CharField(_("kind"), max_length=8, choices=Kind.choices, default=Kind.RECORD, editable=False)
    #: The tool that proposed it, which reads ``arguments``.
    tool = models.CharField(_("tool"), max_length=64, editable=False)
    #: What it does to rows, where that is one thing.
    operation = models.CharField(_("operation"), max_length=6, choices=Operation.choices, blank=True, editable=False)
    #: ``app_label.model_name``; empty for a function.
    model = models.CharField(_("model"), max_length=200, blank=True, editable=False)
    #: The database of the rows; empty where nobody knows what it writes.
    using = models.CharField(max_length=100, blank=True, editable=False)
    #: How many rows it writes.
    rows = models.PositiveIntegerField(default=0, editable=False)
    #: The primary keys of the rows, as a JSON list of texts.
    keys = models.TextField(_("records"), editable=False)
    #: What the tool was called with, as JSON, and the digest of that.
    arguments = models.TextField(editable=False)
    arguments_digest = models.CharField(max_length=32, editable=False)
    #: What its user is shown of it, as JSON: see ``bridge.changes.summaries``. Once it is decided, the names are left.
    summary = models.TextField(blank=True, editable=False)
    #: Why, in the words of the agent.
    reason = models.CharField(_("reason, in the words of the agent"), max_length=500, blank=True, editable=False)
    #: What it needs, as JSON: see ``bridge.changes.approvals``.
    needs = models.JSONField(default=dict, editable=False)
    #: Who may not approve it: ``{"keys", "emails"}`` of everybody who stands behind it.
    persons = models.JSONField(default=dict, editable=False)
    #: Counts the votes. To raise it locks the row, so that two votes at the same time see each other.
    turn = models.PositiveIntegerField(default=0, editable=False)
    state = models.CharField(_("state"), max_length=12, choices=State.choices, editable=False)
    #: Why it was rejected or has failed, for the agent.
    note = models.TextField(_("note"), blank=True, editable=False)
    #: The answer to the agent, as JSON.
    result = models.TextField(blank=True, editable=False)
    #: The keys of the changes that it undoes.
    undoes = models.JSONField(default=list, editable=False)
    #: Until when it can be undone; None where it cannot.
    undo_until = models.DateTimeField(_("can be undone until"), null=True, editable=False)
    #: When people were written to about it.
    told_at = models.DateTimeField(null=True, editable=False)
    #: Names the run that writes it, which nobody waits for after the end of the lease.
    run = models.CharField(max_length=32, blank=True, editable=False)
    lease_until = models.DateTimeField(null=True, editable=False)
    created_at = models.DateTimeField(_("time"), db_index=True, editable=False)
    decided_at = models.DateTimeField(_("decided"), null=True, editable=False)
    #: When ``arguments`` and ``result`` are emptied, and a change that still waits is given up.
    expires_at = models.DateTimeField(db_index=True, editable=False)

    class Meta:
        verbose_name = _("change by an agent")
        verbose_name_plural = _("changes by agents")
        # Nobody adds, edits or deletes one. Users without this permission see the changes of their own agents.
        default_permissions = ("view",)
        permissions = [("approve_change", _("Can approve changes by agents"))]
        ordering = ["-created_at", "-pk"]
        indexes = [models.Index(fields=["user", "created_at"], name="mcp_django_change_user")]

    def __str__(self) -> str:
        done = self.get_operation_display() or self.tool
        return str(_("%(operation)s %(rows)s") % {"operation": done, "rows": self.model}) if self.model else str(done)


class ChangedRow(models.Model):
    """What a change has changed of one record, as long as it can be undone.

    It holds nothing that its agent may not read.
    """

    change = models.ForeignKey(Change, models.CASCADE, related_name="changed_rows", editable=False)
    model = models.CharField(_("model"), max_length=200, editable=False)
    #: The primary key, as a text.
    key = models.CharField(_("record"), max_length=255, editable=False)
    operation = models.CharField(_("operation"), max_length=6, choices=Change.Operation.choices, editable=False)
    #: What differs, as JSON: see ``bridge.writes.kept_rows``.
    kept = models.TextField(editable=False)

    class Meta:
        verbose_name = _("changed record")
        verbose_name_plural = _("changed records")
        default_permissions = ()
        ordering = ["pk"]
        indexes = [models.Index(fields=["model", "key"], name="mcp_django_changed_row")]

    def __str__(self) -> str:
        said = {"operation": self.get_operation_display(), "rows": f"{self.model} {self.key}"}
        return str(_("%(operation)s %(rows)s") % said)


class Decision(models.Model):
    """The vote of one person about a change that other people than its agent's user must approve."""

    class Verdict(models.TextChoices):
        APPROVE = "approve", _("approved")
        REJECT = "reject", _("rejected")

    change = models.ForeignKey(Change, models.CASCADE, related_name="decisions", editable=False)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+", verbose_name=_("user"), editable=False
    )
    user_name = models.CharField(_("user"), max_length=150, editable=False)
    verdict = models.CharField(_("decision"), max_length=7, choices=Verdict.choices, editable=False)
    #: Names what the person was shown: a vote counts for nothing else.
    digest = models.CharField(max_length=64, editable=False)
    comment = models.CharField(_("comment"), max_length=500, blank=True, editable=False)
    at = models.DateTimeField(_("time"), editable=False)

    class Meta:
        verbose_name = _("decision about a change")
        verbose_name_plural = _("decisions about changes")
        default_permissions = ()
        ordering = ["at", "pk"]
        constraints = [models.UniqueConstraint(fields=["change", "user"], name="mcp_django_one_decision_each")]

    def __str__(self) -> str:
        is_for = self.verdict == self.Verdict.APPROVE
        return str((_("%(user)s approved") if is_for else _("%(user)s rejected")) % {"user": self.user_name})


class DueRun(models.Model):
    """When ``mcp_due`` ran last: one row."""

    at = models.DateTimeField(editable=False)

    class Meta:
        verbose_name = _("run of mcp_due")
        verbose_name_plural = _("runs of mcp_due")
        default_permissions = ()

    def __str__(self) -> str:
        return str(self.at)
