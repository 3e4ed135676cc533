"""Finds the client of an id, and keeps those that people have let in."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from django.utils.translation import gettext as _

from mcp_django.conf import get_conf
from mcp_django.oauth import documents, redirects, registration
from mcp_django.oauth.client_metadata import ClientMetadata, InvalidMetadata
from mcp_django.oauth.errors import UnusableRequest
from mcp_django.oauth.models import Client

#: Digits of a hash, enough to tell the few clients of one host apart.
_SHORT = 16


def key_of(client: ClientMetadata) -> str:
    """How the database names a client: the URL of its document, or the hash of its registration.

    Another name stands for a client whose document could not be fetched, so that it never has what the real one has.
    """
    proven, *unproven = keys_of(client.client_id)
    return unproven[0] if client.registered_by == "unproven" else proven


def keys_of(client_id: str) -> Sequence[str]:
    """The names that a client of this id may have in the database.

    A URL with capital letters is followed by a hash, since some databases compare without regard to case.
    """
    hashed = hashlib.sha256(client_id.encode()).hexdigest()
    if not documents.is_document_id(client_id):
        return [f"registration:{hashed}"]
    url = client_id if client_id == client_id.lower() else f"{client_id}#{hashed[:_SHORT]}"
    return [url, f"unproven:{hashed}"]


def needs_fetch(client_id: str, redirect_uri: str) -> bool:
    """Whether only a request to another host tells who the client is. It is made only for people who are logged in."""
    if not documents.is_document_id(client_id):
        return False
    try:
        documents.find(client_id, redirect_uri, person=None)
    except (documents.DocumentUnavailable, InvalidMetadata):
        return True
    return False


def find(client_id: str, redirect_uri: str, *, person: str) -> ClientMetadata:
    """The client, which may be sent to the redirect URI. Raises UnusableRequest with a sentence for the person.

    ``person`` is the key of the user who waits for it.
    """
    found: ClientMetadata | None
    if documents.is_document_id(client_id):
        found = _by_document(client_id, redirect_uri, person)
    else:
        mode = get_conf().OAUTH_REGISTRATION
        found = registration.read(client_id, mode) or _kept(client_id, mode)
    if found is None or Client.objects.filter(key__in=keys_of(client_id), blocked_at__isnull=False).exists():
        raise UnusableRequest(_("This site does not know the app that sent you here. Add the server to the app again."))
    if not found.allows(redirect_uri):
        raise UnusableRequest(
            _("The app that sent you here wants the answer at an address that is not its own. Nothing was sent there.")
        )
    return found


def keep(metadata: ClientMetadata) -> Client:
    """The client's row, which is made now if it is the first time that somebody lets it in."""
    values = {
        "client_id": metadata.client_id,
        "name": metadata.name,
        "redirect_uris": list(metadata.redirect_uris),
        "registered_by": metadata.registered_by,
    }
    return Client.objects.update_or_create(key=key_of(metadata), defaults=values)[0]


def _by_document(client_id: str, redirect_uri: str, person: str) -> ClientMetadata:
    try:
        return documents.find(client_id, redirect_uri, person=person)
    except documents.HostUnreachable as error:
        if not redirects.is_loopback(redirect_uri) or get_conf().OAUTH_REGISTRATION == "off":
            raise _unusable(error) from None
        # As a program on the person's machine that registers itself: nobody answers for it, whatever its id says.
        return ClientMetadata(client_id, "", (redirects.portless(redirect_uri),), "unproven")
    except (documents.DocumentUnavailable, InvalidMetadata) as error:
        raise _unusable(error) from None


def _unusable(error: Exception) -> UnusableRequest:
    return UnusableRequest(_("The description of the app that sent you here cannot be used."), str(error))


def _kept(client_id: str, mode: str) -> ClientMetadata | None:
    """A client that registered before registration was switched off, or whose registration was signed with a lost key.

    Its row still describes it.
    """
    row = Client.objects.filter(key__in=keys_of(client_id), registered_by=Client.RegisteredBy.REGISTRATION).first()
    if row is None:
        return None
    kept = tuple(uri for uri in row.redirect_uris if mode == "off" or registration.is_admitted(uri, mode))
    return ClientMetadata(client_id=client_id, name=row.name, redirect_uris=kept, registered_by="registration")
