"""Answers that depend on who asks, and how."""

from django.utils.decorators import method_decorator
from django.views.decorators.cache import cache_page
from django.views.decorators.vary import vary_on_cookie, vary_on_headers
from rest_framework.permissions import AllowAny, IsAuthenticated
from rest_framework.response import Response
from rest_framework.views import APIView

from tests.api.project import middleware
from tests.api.project.authentication import BearerAuthentication, ServiceAuth
from tests.api.project.permissions import FromInside, HasScope
from tests.api.project.throttles import BurstThrottle
from tests.api.project.versions import HeaderVersions, PathVersions


class CachedForTokensView(APIView):
    """The user's name, cached for each Authorization header."""

    permission_classes = [AllowAny]

    @method_decorator(cache_page(60, key_prefix="tokens"))
    @method_decorator(vary_on_headers("Authorization"))
    def get(self, request):
        return Response({"user": str(request.user)})


class CachedForCookiesView(APIView):
    """The user's name, cached for each cookie."""

    permission_classes = [AllowAny]

    @method_decorator(cache_page(60, key_prefix="cookies"))
    @method_decorator(vary_on_cookie)
    def get(self, request):
        return Response({"user": str(request.user)})


class VisitsView(APIView):
    """How often this session was here."""

    permission_classes = [AllowAny]

    def get(self, request):
        request.session["visits"] = request.session.get("visits", 0) + 1
        return Response({"visits": request.session["visits"]})


class MachineView(APIView):
    """For machines that have the key of the service."""

    authentication_classes = [ServiceAuth]
    permission_classes = [IsAuthenticated]

    def get(self, request):
        return Response({"user": str(request.user)})


class NobodyView(APIView):
    """The user of a view that authenticates nobody."""

    authentication_classes = []
    permission_classes = [AllowAny]

    def get(self, request):
        return Response({"user": str(request.user)})


class ScopedView(APIView):
    """For tokens with the scope of reports."""

    authentication_classes = [BearerAuthentication]
    permission_classes = [HasScope]
    required_scope = "reports"

    def get(self, request):
        return Response({"scopes": sorted(request.auth.scopes)})


class TokenOnlyView(APIView):
    """For tokens; answers the user whom the middleware saw."""

    authentication_classes = [BearerAuthentication]
    permission_classes = [IsAuthenticated]

    def get(self, request):
        return Response({"user": str(request.user), "seen": str(request._request.seen_user)})


class SeenUserView(APIView):
    """The user whom the middleware saw, for everybody."""

    permission_classes = [AllowAny]

    def get(self, request):
        return Response({"user": str(request.user), "seen": str(request._request.seen_user)})


class TenantView(APIView):
    """The tenant that the middleware named, by both of its ways."""

    permission_classes = [AllowAny]

    def get(self, request):
        thread = getattr(middleware.local, "tenant", None)
        return Response({"context": middleware.tenant.get(), "thread": thread})


class AddressView(APIView):
    """For requests from inside."""

    permission_classes = [FromInside]

    def get(self, request):
        return Response({"inside": True})


class ThrottledView(APIView):
    """Three times in a minute."""

    permission_classes = [IsAuthenticated]
    throttle_classes = [BurstThrottle]

    def get(self, request):
        return Response({"user": str(request.user)})


class PathVersionView(APIView):
    """A greeting whose version is in the path."""

    permission_classes = [AllowAny]
    versioning_class = PathVersions

    def get(self, request, version):
        text = "Hello" if request.version == "v1" else f"Hello {request.user.get_username() or 'guest'}"
        return Response({"version": request.version, "text": text})


class HeaderVersionView(APIView):
    """A greeting whose version is in the Accept header."""

    permission_classes = [AllowAny]
    versioning_class = HeaderVersions

    def get(self, request):
        return Response({"version": request.version})
