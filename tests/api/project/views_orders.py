"""Orders: the largest viewset, its lines, and views of single purposes."""

from django.db.models import Count, Sum
from django.shortcuts import get_object_or_404
from django.utils.dateparse import parse_date
from django_filters.rest_framework import DjangoFilterBackend
from rest_framework import generics, viewsets
from rest_framework.decorators import action
from rest_framework.exceptions import ValidationError
from rest_framework.filters import OrderingFilter, SearchFilter
from rest_framework.generics import get_object_or_404 as get_by_text_or_404
from rest_framework.permissions import IsAdminUser, IsAuthenticated
from rest_framework.response import Response

from tests.api.project.filters import OrderFilter, on_day
from tests.api.project.models import Line, Order
from tests.api.project.paginations import Pages
from tests.api.project.serializers import (
    CheckoutSerializer,
    CredentialsSerializer,
    LineSerializer,
    NoteSerializer,
    OrderListSerializer,
    OrderSerializer,
    PaySerializer,
    StaffOrderSerializer,
    StatusSerializer,
)


def visible_orders(user):
    """A user's own orders, and for staff those of all."""
    orders = Order.objects.select_related("owner").prefetch_related("lines")
    return orders if user.is_staff else orders.filter(owner_id=user.pk)


class OrderViewSet(viewsets.ModelViewSet):
    """The orders of the current user."""

    serializer_class = OrderSerializer
    permission_classes = [IsAuthenticated]
    pagination_class = Pages
    filter_backends = [DjangoFilterBackend, SearchFilter, OrderingFilter]
    filterset_class = OrderFilter
    search_fields = ["number", "note", "customer__name"]
    ordering_fields = ["number", "total", "placed_at"]
    ordering = ["number"]

    def get_queryset(self):
        return visible_orders(self.request.user)

    def get_serializer_class(self):
        if self.action == "list":
            return OrderListSerializer
        if self.action in {"create", "retrieve", "update", "partial_update"} and self.request.user.is_staff:
            return StaffOrderSerializer
        return super().get_serializer_class()

    def perform_create(self, serializer):
        serializer.save(owner=self.request.user)

    @action(detail=True, methods=["post"], serializer_class=PaySerializer)
    def pay(self, request, pk=None):
        """Pay an open order."""
        order = self.get_object()
        serializer = self.get_serializer(data=request.data, context={"request": request, "order": order})
        serializer.is_valid(raise_exception=True)
        if order.status != Order.Status.OPEN:
            raise ValidationError({"status": "Only an open order can be paid."})
        order.status = Order.Status.PAID
        order.save()
        return Response(OrderSerializer(order, context={"request": request}).data)

    @action(detail=True, methods=["post"])
    def cancel(self, request, pk=None):
        """Cancel an order that is not paid."""
        order = self.get_object()
        if order.status == Order.Status.PAID:
            raise ValidationError({"status": "A paid order cannot be cancelled."})
        order.status = Order.Status.CANCELLED
        order.save()
        return Response({"number": order.number, "status": order.status})

    @action(
        detail=True,
        methods=["post"],
        url_path="mark-as",
        serializer_class=StatusSerializer,
        permission_classes=[IsAdminUser],
    )
    def set_status(self, request, pk=None):
        """Give an order any status, which only staff may do."""
        serializer = self.get_serializer(self.get_object(), data=request.data)
        serializer.is_valid(raise_exception=True)
        serializer.save()
        return Response(serializer.data)

    @action(detail=True, methods=["get"], serializer_class=NoteSerializer)
    def note(self, request, pk=None):
        """Read the note of an order."""
        return Response(self.get_serializer(self.get_object()).data)

    @note.mapping.put
    def write_note(self, request, pk=None):
        """Write the note of an order."""
        serializer = self.get_serializer(self.get_object(), data=request.data)
        serializer.is_valid(raise_exception=True)
        serializer.save()
        return Response(serializer.data)

    @action(detail=False, methods=["get"])
    def summary(self, request):
        """Count and add up the orders, of one day if the query has a ``day``."""
        orders = self.get_queryset().order_by()
        if text := request.query_params.get("day"):
            try:
                day = parse_date(text)
            except ValueError:
                day = None
            if day is None:
                raise ValidationError({"day": "Write a day as 2024-05-31."})
            orders = on_day(orders, day)
        return Response(orders.aggregate(count=Count("pk"), total=Sum("total")))

    @action(detail=False, methods=["post"], url_path="bulk-note")
    def bulk_note(self, request):
        """Write the same ``note`` on all orders whose ``numbers`` are named."""
        numbers, note = request.data.get("numbers"), request.data.get("note")
        if not isinstance(numbers, list) or not isinstance(note, str):
            raise ValidationError({"numbers": "Send a list of numbers and a note."})
        orders = Order.objects.filter(
            pk__in=self.get_queryset().filter(number__in=numbers).values_list("pk", flat=True)
        )
        return Response({"changed": orders.update(note=note[:200])})


class LineViewSet(viewsets.ModelViewSet):
    """The lines of one order."""

    serializer_class = LineSerializer
    permission_classes = [IsAuthenticated]

    def get_order(self):
        return get_by_text_or_404(visible_orders(self.request.user), pk=self.kwargs["order_pk"])

    def get_queryset(self):
        return Line.objects.filter(order=self.get_order())

    def perform_create(self, serializer):
        serializer.save(order=self.get_order())


class OrderByNumberViewSet(viewsets.ReadOnlyModelViewSet):
    """Orders that are found by their number."""

    serializer_class = OrderListSerializer
    permission_classes = [IsAuthenticated]
    lookup_field = "number"

    def get_queryset(self):
        return visible_orders(self.request.user)


class CheckoutView(generics.CreateAPIView):
    """Write an order and its lines at once."""

    serializer_class = CheckoutSerializer
    permission_classes = [IsAuthenticated]

    def perform_create(self, serializer):
        serializer.save(owner=self.request.user)


class CredentialsView(generics.RetrieveUpdateAPIView):
    """The key by which a machine of the customer's reads an order."""

    serializer_class = CredentialsSerializer
    permission_classes = [IsAuthenticated]

    def get_object(self):
        return get_object_or_404(visible_orders(self.request.user), pk=self.kwargs["pk"])
