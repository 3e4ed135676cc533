"""What is done for each request before a view is called."""

import threading
from contextvars import ContextVar

from django.http import JsonResponse
from django.utils.functional import SimpleLazyObject

tenant: ContextVar[str] = ContextVar("tenant", default="")
local = threading.local()


class AuthorizationMiddleware:
    """Refuses an Authorization header that it cannot read."""

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request):
        header = request.headers.get("Authorization", "Bearer ")
        if not header.startswith("Bearer "):
            answer = {"detail": "Only bearer tokens can be read."}
            return JsonResponse(answer, status=401, headers={"WWW-Authenticate": "Bearer"})
        return self.get_response(request)


class SeenUserMiddleware:
    """Keeps the name of the user, which is looked up when it is first needed."""

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request):
        request.seen_user = SimpleLazyObject(lambda: str(request.user))
        return self.get_response(request)


class TenantMiddleware:
    """Names the tenant of the request in a context variable and for the thread."""

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request):
        name = f"{request.user.get_username() or 'public'}@{request.get_host()}"
        token = tenant.set(name)
        local.tenant = name
        try:
            return self.get_response(request)
        finally:
            del local.tenant
            tenant.reset(token)
