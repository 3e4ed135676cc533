"""Customers, tickets, documents and settings."""

from django.http import FileResponse
from rest_framework import generics, mixins, serializers, viewsets
from rest_framework.decorators import action
from rest_framework.parsers import MultiPartParser
from rest_framework.permissions import IsAuthenticated
from rest_framework.response import Response

from tests.api.project.filters import ClosedFilterBackend
from tests.api.project.models import Customer, Document, Setting, Ticket
from tests.api.project.paginations import Pages
from tests.api.project.permissions import IsOwnerOrStaff
from tests.api.project.serializers import (
    CustomerListSerializer,
    CustomerSerializer,
    DocumentSerializer,
    SettingSerializer,
    TicketSerializer,
)


class CustomerViewSet(viewsets.ModelViewSet):
    """Customers: a list of one's own, and single ones that a permission protects."""

    queryset = Customer.objects.all()
    serializer_class = CustomerSerializer
    permission_classes = [IsAuthenticated, IsOwnerOrStaff]

    def get_queryset(self):
        customers = super().get_queryset()
        if self.action == "list" and not self.request.user.is_staff:
            return customers.filter(owner=self.request.user)
        return customers

    def get_serializer_class(self):
        return CustomerListSerializer if self.action == "list" else super().get_serializer_class()

    def perform_create(self, serializer):
        serializer.save(owner=self.request.user)


class TicketViewSet(
    mixins.ListModelMixin,
    mixins.CreateModelMixin,
    mixins.RetrieveModelMixin,
    mixins.UpdateModelMixin,
    viewsets.GenericViewSet,
):
    """Tickets, which are closed and never deleted."""

    serializer_class = TicketSerializer
    permission_classes = [IsAuthenticated]
    pagination_class = Pages
    filter_backends = [ClosedFilterBackend]
    lookup_value_converter = "uuid"

    def get_queryset(self):
        user = self.request.user
        return Ticket.objects.all() if user.is_staff else Ticket.objects.filter(owner_id=user.pk)

    @action(detail=True, methods=["post"], serializer_class=serializers.Serializer)
    def close(self, request, pk=None):
        """Close a ticket."""
        ticket = self.get_object()
        ticket.closed = True
        ticket.save()
        return Response(status=204)


class DocumentViewSet(
    mixins.ListModelMixin,
    mixins.CreateModelMixin,
    mixins.RetrieveModelMixin,
    mixins.DestroyModelMixin,
    viewsets.GenericViewSet,
):
    """Documents, which are uploaded as a form."""

    serializer_class = DocumentSerializer
    permission_classes = [IsAuthenticated]
    parser_classes = [MultiPartParser]

    def get_queryset(self):
        user = self.request.user
        return Document.objects.all() if user.is_staff else Document.objects.filter(owner_id=user.pk)

    def perform_create(self, serializer):
        serializer.save(owner=self.request.user)

    @action(detail=True, methods=["get"])
    def download(self, request, pk=None):
        """Answer the file itself."""
        return FileResponse(self.get_object().file.open(), as_attachment=True, filename="document.txt")


class SettingListView(generics.ListCreateAPIView):
    """The settings of the current user."""

    serializer_class = SettingSerializer
    permission_classes = [IsAuthenticated]

    def get_queryset(self):
        return Setting.objects.filter(owner_id=self.request.user.pk)


class SettingView(generics.RetrieveUpdateDestroyAPIView):
    """One setting of the current user."""

    serializer_class = SettingSerializer
    permission_classes = [IsAuthenticated]

    def get_queryset(self):
        return Setting.objects.filter(owner_id=self.request.user.pk)
