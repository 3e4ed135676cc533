"""Users: passwords, registration, logging in, tokens, profiles and groups."""

from django.contrib.auth import login, update_session_auth_hash
from django.contrib.auth.models import Group
from rest_framework import generics, viewsets
from rest_framework.authtoken.views import ObtainAuthToken
from rest_framework.permissions import AllowAny, IsAdminUser, IsAuthenticated
from rest_framework.response import Response

from tests.api.project.serializers import GroupSerializer
from tests.api.project.serializers_accounts import (
    LoginSerializer,
    PasswordSerializer,
    ProfileSerializer,
    RegisterSerializer,
)


class PasswordView(generics.GenericAPIView):
    """Change the password of the current user."""

    serializer_class = PasswordSerializer
    permission_classes = [IsAuthenticated]

    def post(self, request):
        serializer = self.get_serializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        request.user.set_password(serializer.validated_data["new_password"])
        request.user.save()
        update_session_auth_hash(request._request, request.user)
        return Response({"detail": "The password was changed."})


class RegisterView(generics.CreateAPIView):
    """Register a new user."""

    serializer_class = RegisterSerializer
    permission_classes = [AllowAny]


class LoginView(generics.GenericAPIView):
    """Log in and begin a session."""

    serializer_class = LoginSerializer
    permission_classes = [AllowAny]

    def post(self, request):
        serializer = self.get_serializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        login(request._request, serializer.validated_data["user"])
        return Response({"username": serializer.validated_data["user"].username})


class TokenView(ObtainAuthToken):
    """Obtain a token by a name and a password."""

    permission_classes = [AllowAny]


class ProfileView(generics.RetrieveUpdateAPIView):
    """The profile of the current user."""

    serializer_class = ProfileSerializer
    permission_classes = [IsAuthenticated]

    def get_object(self):
        return self.request.user


class GroupViewSet(viewsets.ModelViewSet):
    """The groups of users, for staff."""

    queryset = Group.objects.order_by("name")
    serializer_class = GroupSerializer
    permission_classes = [IsAdminUser]
