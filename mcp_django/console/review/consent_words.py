"""What a change needs, in words of a page. An inventory has the words of the code, and a lock compares them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from mcp_django.bridge.declared.consent import Approval, Consent, Level, name_of

_LEVELS: Mapping[Level, Any] = {Level.PREVIEW: _("preview"), Level.ASK: _("ask"), Level.APPROVE: _("approve")}


def in_words(consent: Consent) -> str:
    """A declared consent for people: its level, and of an approval by whom, by how many and when."""
    if not isinstance(consent, Approval):
        return str(_LEVELS[Level.named(consent)])
    said = [str(_LEVELS[Level.APPROVE])]
    if by := consent.by if isinstance(consent.by, str) else name_of(consent.by):
        said.append(gettext("by %(name)s") % {"name": by})
    if consent.count > 1:
        said.append(ngettext("%(count)d person", "%(count)d people", consent.count) % {"count": consent.count})
    if consent.when is not None:
        said.append(gettext("when %(rule)s") % {"rule": name_of(consent.when)})
    return ", ".join(said)
