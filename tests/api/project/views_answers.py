"""Answers of other forms than one JSON object of a model."""

import time

from django.http import HttpResponse, HttpResponseRedirect, StreamingHttpResponse
from django.urls import reverse
from rest_framework import generics
from rest_framework.permissions import AllowAny, IsAuthenticated
from rest_framework.renderers import JSONRenderer, TemplateHTMLRenderer
from rest_framework.response import Response
from rest_framework.views import APIView

from tests.api.project.models import Order
from tests.api.project.renderers import CSVRenderer, EnvelopeRenderer
from tests.api.project.serializers import OrderListSerializer
from tests.api.project.views_orders import visible_orders


class CSVOrdersView(generics.ListAPIView):
    """The orders as CSV alone."""

    serializer_class = OrderListSerializer
    permission_classes = [IsAuthenticated]
    renderer_classes = [CSVRenderer]

    def get_queryset(self):
        return visible_orders(self.request.user)


class ExportedOrdersView(CSVOrdersView):
    """The orders as JSON, or as CSV where the query has ``format=csv``."""

    renderer_classes = [JSONRenderer, CSVRenderer]


class EnvelopedOrdersView(generics.ListAPIView):
    """The orders in an envelope."""

    serializer_class = OrderListSerializer
    permission_classes = [IsAuthenticated]
    renderer_classes = [EnvelopeRenderer]

    def get_queryset(self):
        return visible_orders(self.request.user)


class OrdersPageView(APIView):
    """The orders as a page that a template renders."""

    permission_classes = [IsAuthenticated]
    renderer_classes = [TemplateHTMLRenderer]

    def get(self, request):
        return Response({"orders": visible_orders(request.user)}, template_name="api_project/orders.html")


class ImprintView(APIView):
    """A page of HTML that no renderer has made."""

    permission_classes = [AllowAny]

    def get(self, request):
        return HttpResponse("<h1>A small shop</h1>", content_type="text/html")


class MovedView(APIView):
    """An address that has moved."""

    permission_classes = [AllowAny]

    def get(self, request):
        return HttpResponseRedirect(reverse("health"))


class StreamView(APIView):
    """A text of three lines, one after the other."""

    permission_classes = [AllowAny]

    def get(self, request):
        return StreamingHttpResponse((f"line {number}\n" for number in (1, 2, 3)), content_type="text/plain")


class EndlessView(APIView):
    """A text that never ends."""

    permission_classes = [AllowAny]

    def get(self, request):
        return StreamingHttpResponse(self.ticks(), content_type="text/plain")

    def ticks(self):
        while True:
            yield "tick\n"
            time.sleep(0.01)


class NewestOrderView(APIView):
    """A single object, which is no row of a serializer."""

    permission_classes = [IsAuthenticated]

    def get(self, request):
        order = visible_orders(request.user).order_by("-placed_at", "-pk").first()
        return Response({"number": order.number, "lines": order.lines.count()} if order else {})


class NumbersView(APIView):
    """A bare list of texts."""

    permission_classes = [IsAuthenticated]

    def get(self, request):
        return Response(list(visible_orders(request.user).values_list("number", flat=True)))


class OpenCountView(APIView):
    """A bare number."""

    permission_classes = [IsAuthenticated]

    def get(self, request):
        return Response(visible_orders(request.user).filter(status=Order.Status.OPEN).count())


class NothingView(APIView):
    """No content at all."""

    permission_classes = [AllowAny]

    def get(self, request):
        return Response(status=204)


class TextView(APIView):
    """A plain text."""

    permission_classes = [AllowAny]

    def get(self, request):
        return HttpResponse(f"Hello {request.user.get_username() or 'guest'}", content_type="text/plain")
