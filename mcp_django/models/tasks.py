"""Tasks, and the questions that tasks ask their clients."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy


class Task(models.Model):
    """A call of a tool that goes on after its request was answered (the tasks extension)."""

    class State(models.TextChoices):
        QUEUED = "queued", _("waits for a worker")
        RUNNING = "running", _("runs")
        ASKING = "asking", _("waits for answers")
        COMPLETED = "completed", _("completed")
        FAILED = "failed", pgettext_lazy("task", "failed")
        CANCELLED = "cancelled", pgettext_lazy("task", "cancelled")

    key = models.CharField(max_length=64, primary_key=True)
    site = models.CharField(max_length=50)
    #: The owner. Without a user the task is anonymous.
    principal_key = models.CharField(max_length=100)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, null=True, related_name="+")
    #: The credential line that may go on with the task: that of a token, or ``principal_key`` for other credentials.
    line = models.CharField(max_length=100)
    #: The grant of the token that began the task, if it has one: the task ends with it.
    grant = models.ForeignKey("mcp_django.Grant", models.CASCADE, null=True, related_name="+")
    scopes = models.JSONField(default=list)
    #: Those of the scopes that its credential was only lent.
    lent = models.JSONField(default=list)
    tool = models.CharField(max_length=64)
    revision = models.CharField(max_length=10)
    #: The params of the call, the origin of its request, and the answers given before the task began, each as JSON.
    #: Texts that come from clients are no JSONField, since that cannot hold every string that JSON allows.
    params = models.TextField()
    origin = models.TextField()
    answers = models.TextField()
    state = models.CharField(max_length=9, choices=State.choices, default=State.QUEUED)
    message = models.TextField(blank=True)
    #: The result or the error, as JSON.
    outcome = models.TextField(blank=True)
    #: Names the present run. The process that runs it renews the lease; when the lease ends, that process is gone.
    run = models.CharField(max_length=32, blank=True)
    lease_until = models.DateTimeField(null=True)
    #: When the task was last given to the workers, and how often it was given to them since it last ran.
    queued_at = models.DateTimeField()
    tries = models.PositiveSmallIntegerField(default=0)
    #: How many rounds of questions there were.
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
    #: The key by which the client knows the question. No other question of the task ever has it.
    key = models.CharField(max_length=200)
    #: The key by which the tool knows the question, and the digest of the question as it was asked.
    asked_as = models.TextField()
    digest = models.CharField(max_length=64)
    #: The method and params of the question, and the client's answer, as JSON.
    request = models.TextField()
    answer = models.TextField(null=True)

    class Meta:
        verbose_name = _("question of a task")
        verbose_name_plural = _("questions of tasks")
        ordering = ["pk"]
        constraints = [models.UniqueConstraint(fields=["task", "key"], name="mcp_django_task_question_once")]

    def __str__(self) -> str:
        return self.key
