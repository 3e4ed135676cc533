"""How requests without a session are authenticated."""

from rest_framework.authentication import BaseAuthentication, TokenAuthentication
from rest_framework.exceptions import AuthenticationFailed

SERVICE_KEY = "service-key-of-the-shop"


class ServiceAccount:
    """A machine that is no user."""

    is_authenticated = True
    is_staff = False
    pk = None

    def __str__(self) -> str:
        return "service"


class ServiceAuth(BaseAuthentication):
    """A machine is known by the key in ``X-Service-Key``."""

    def authenticate(self, request):
        key = request.headers.get("X-Service-Key")
        if key is None:
            return None
        if key != SERVICE_KEY:
            raise AuthenticationFailed("This key is unknown.")
        return ServiceAccount(), key

    def authenticate_header(self, request):
        return "X-Service-Key"


class BearerAuthentication(TokenAuthentication):
    """A token of ``rest_framework.authtoken``, whose scopes depend on the user."""

    keyword = "Bearer"

    def authenticate_credentials(self, key):
        user, token = super().authenticate_credentials(key)
        token.scopes = {"orders", "reports"} if user.is_staff else {"orders"}
        return user, token
