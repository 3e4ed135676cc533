"""The signals of sites, in a module of their own: receivers are connected before any site is imported."""

from __future__ import annotations

from django.dispatch import Signal

#: Sent by a site when the models that it exposes may have changed, with the argument ``site``.
registry_changed = Signal()

#: Sent by a site when a request has shown actions that it did not know, with the argument ``site``.
actions_found = Signal()
