"""Permissions on single rows: staff may view each second check."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.backends import BaseBackend


class RowPermissions(BaseBackend):
    def has_perm(self, user_obj: Any, perm: str, obj: Any = None) -> bool:
        return bool(perm == "watching.view_check" and obj is not None and user_obj.is_staff and obj.pk % 2)
