"""Views of Django REST framework, their filters and their schemas: whom they take a request for, and what they say."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

_FORCED = "_force_auth_user"


def forced(user: Any) -> Mapping[str, Any]:
    """The attributes of a request by which each view takes the user for the one who makes it.

    Private: ``_force_auth_user``. Seen with: Django REST framework 3.16 to 3.18. Public way: ``force_authenticate`` of
    its test client, which sets it.
    """
    return {_FORCED: user}


def without_force(request: Any) -> None:
    """Let the view find out again who makes the request.

    Private: ``_force_auth_user``. Seen with: Django REST framework 3.16 to 3.18. Public way: none.
    """
    vars(request).pop(_FORCED, None)


def label_of(one: Any) -> str:
    """The label that the project has given to a filter of django-filter, or "".

    Private: ``Filter._label``. Seen with: django-filter 26.2. Public way: ``Filter.label``, which makes one up of the
    name where there is none.
    """
    return str(getattr(one, "_label", None) or "")


def declaring_alone(schema: Any) -> Any:
    """A copy of an ``AutoSchema`` of drf-spectacular whose serializers are those that ``extend_schema`` names, or None.

    Private: ``AutoSchema._get_serializer``. Seen with: drf-spectacular 0.30. Public way: ``get_request_serializer``,
    which guesses one where none is named: of an action, that of its view, which its code may not use.
    """
    found = copy(schema)
    found._get_serializer = lambda: None
    return found
