"""What administrators decided about tools and prompts."""

from __future__ import annotations

from django.contrib.auth.models import Group
from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from mcp_django.models.validators import validate_name, validate_template


class AdminOverride(models.Model):
    """What an administrator decided about something that agents are offered under a name."""

    #: The protocol's list in which it stands.
    LIST: str

    site = models.CharField(_("site"), max_length=50, default="mcp", editable=False)
    name = models.CharField(_("name"), max_length=64, editable=False)
    enabled = models.BooleanField(
        pgettext_lazy("tool", "enabled"), default=False, help_text=_("When off, no agent can see or use it.")
    )
    groups = models.ManyToManyField(
        Group, blank=True, related_name="mcp_%(class)ss", verbose_name=_("groups"),
        help_text=_("Only members of these groups can use it. Without groups, everybody with the permissions can."),
    )  # fmt: skip

    #: Whether it has groups, or had groups that were deleted since. A receiver keeps it up to date.
    restricted = models.BooleanField(default=False, editable=False)

    class Meta:
        abstract = True
        ordering = ["site", "name"]
        constraints = [models.UniqueConstraint(fields=["site", "name"], name="mcp_django_%(class)s_name")]

    def __str__(self) -> str:
        return self.name


class Tool(AdminOverride):
    """What an administrator decided about one tool. A tool without a row is as it was declared."""

    LIST = "tools"

    description = models.TextField(
        _("description"), blank=True,
        help_text=_("What agents read about the tool. If empty, they read the declared description. Agents may follow "
                    "this text as an instruction, so write nothing here that you would not tell them yourself."),
    )  # fmt: skip
    asks = models.CharField(
        _("asks"), max_length=7, blank=True,
        choices=[("", _("nobody, or as declared")), ("ask", _("its user")), ("approve", _("other people"))],
        help_text=_("Who must agree before what the tool does is done. It can only be stricter than what is declared."),
    )  # fmt: skip
    #: The text of a query that a person saved as a tool; empty for tools that the project has.
    query = models.TextField(_("query"), blank=True, editable=False)

    class Meta(AdminOverride.Meta):
        verbose_name = _("tool")
        verbose_name_plural = _("tools")


class Prompt(AdminOverride):
    """What an administrator decided about a declared prompt, or a prompt that an administrator wrote."""

    LIST = "prompts"

    site = models.CharField(_("site"), max_length=50, default="mcp")
    name = models.CharField(
        _("name"), max_length=64, validators=[validate_name],
        help_text=_("Clients call the prompt by this name, and many show it as a command. Letters, digits, _ and -."),
    )  # fmt: skip
    enabled = models.BooleanField(_("enabled"), default=True, help_text=_("When off, no agent can see or use it."))
    title = models.CharField(
        _("title"), max_length=100, blank=True,
        help_text=_("What people read in a menu. If empty, they read the declared title, or else the name."),
    )  # fmt: skip
    description = models.TextField(
        _("description"), blank=True, max_length=2_000,
        help_text=_("What people and agents read about the prompt. If empty, they read the declared description. "
                    "Agents may follow this text as an instruction."),
    )  # fmt: skip
    text = models.TextField(
        _("text"), blank=True, max_length=20_000, validators=[validate_template],
        help_text=_("The agent receives this text word by word, in the name of the person who picks the prompt, and "
                    "follows it as an instruction. {{ topic }} makes an argument that clients ask for. {% if topic %} "
                    "… {% elif other %} … {% else %} … {% endif %} tests whether it was given. An argument is required "
                    "unless each {{ topic }} stands inside an {% if %} that names it, or reads "
                    "{{ topic|default:\"…\" }}."),
    )  # fmt: skip

    class Meta(AdminOverride.Meta):
        verbose_name = _("prompt")
        verbose_name_plural = _("prompts")
