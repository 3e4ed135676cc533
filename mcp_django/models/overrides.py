"""What administrators say of tools and prompts."""

from __future__ import annotations

from django.contrib.auth.models import Group
from django.db import models
from django.utils.translation import gettext_lazy as _

from mcp_django.models.validators import validate_name, validate_template


class AdminOverride(models.Model):
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


class Tool(AdminOverride):
    """An administrator's word on one tool. A tool without a row is as its declaration says."""

    LIST = "tools"

    description = models.TextField(
        _("description"), blank=True,
        help_text=_("What agents are told of the tool. Empty: its own description. Write nothing here that you would "
                    "not say to the agent yourself: it is read as an instruction."),
    )  # fmt: skip

    class Meta(AdminOverride.Meta):
        verbose_name = _("tool")
        verbose_name_plural = _("tools")


class Prompt(AdminOverride):
    """An administrator's word on a prompt that the project declares, or a prompt that an administrator wrote."""

    LIST = "prompts"

    site = models.CharField(_("site"), max_length=50, default="mcp")
    name = models.CharField(
        _("name"), max_length=64, validators=[validate_name],
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
        _("text"), blank=True, max_length=20_000, validators=[validate_template],
        help_text=_("What the agent is told, word by word, in the name of whoever picks the prompt: it is read as an "
                    "instruction. {{ topic }} makes an argument that clients ask for. {% if topic %} … {% elif "
                    "other %} … {% else %} … {% endif %} asks whether it was given. An argument must be given, unless "
                    "each {{ topic }} stands inside of an {% if %} that names it, or says {{ topic|default:\"…\" }}."),
    )  # fmt: skip

    class Meta(AdminOverride.Meta):
        verbose_name = _("prompt")
        verbose_name_plural = _("prompts")
