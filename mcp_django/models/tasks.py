"""Tasks, and the questions that they ask."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from mcp_django.models.tokens import AccessToken


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
