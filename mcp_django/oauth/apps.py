"""The optional app: ``mcp_django.oauth`` in INSTALLED_APPS, beside ``mcp_django``."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class OAuthConfig(AppConfig):
    name = "mcp_django.oauth"
    label = "mcp_django_oauth"
    #: As that of mcp_django: in the admin the two are one section.
    verbose_name = _("Model Context Protocol")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from django.contrib.auth import get_user_model
        from django.db.models.signals import post_save

        from mcp_django.models.tokens import first_used
        from mcp_django.oauth import checks, grants  # noqa: F401

        first_used.connect(grants.note_first_use, dispatch_uid="mcp_django.oauth")
        post_save.connect(grants.forget_codes, sender=get_user_model(), dispatch_uid="mcp_django.oauth")
