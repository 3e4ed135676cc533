"""Products and what everybody may know of the shop."""

from django.db.models import ProtectedError
from rest_framework import status, viewsets
from rest_framework.decorators import action, api_view, permission_classes
from rest_framework.exceptions import APIException, NotFound
from rest_framework.filters import SearchFilter
from rest_framework.permissions import AllowAny, DjangoModelPermissions, IsAuthenticated
from rest_framework.response import Response
from rest_framework.views import APIView

from tests.api.project.models import Order, Product
from tests.api.project.paginations import Offsets
from tests.api.project.serializers import PriceSerializer, ProductSerializer

HOURS = {"monday": "9-17", "friday": "9-15", "saturday": "10-12"}


class InUse(APIException):
    """Something else needs what should be deleted."""

    status_code = status.HTTP_409_CONFLICT
    default_detail = "It is still used."


class ProductViewSet(viewsets.ModelViewSet):
    """Products, which a user with the permissions of the model may change."""

    queryset = Product.objects.all()
    serializer_class = ProductSerializer
    permission_classes = [DjangoModelPermissions]
    pagination_class = Offsets
    filter_backends = [SearchFilter]
    search_fields = ["name"]

    def perform_destroy(self, instance):
        try:
            instance.delete()
        except ProtectedError as error:
            raise InUse from error

    @action(detail=False, methods=["post"], serializer_class=PriceSerializer)
    def prices(self, request):
        """Set the prices of several products, sent as a list."""
        serializer = self.get_serializer(data=request.data, many=True)
        serializer.is_valid(raise_exception=True)
        for row in serializer.validated_data:
            Product.objects.filter(pk=row["product"].pk).update(price=row["price"])
        return Response(serializer.data)


class HourViewSet(viewsets.ViewSet):
    """The opening hours, which are in no table."""

    permission_classes = [AllowAny]

    def list(self, request):
        """Name the hours of all days."""
        return Response([{"day": day, "hours": hours} for day, hours in HOURS.items()])

    def retrieve(self, request, pk=None):
        """Name the hours of one day."""
        if pk not in HOURS:
            raise NotFound
        return Response({"day": pk, "hours": HOURS[pk]})


class ReportView(APIView):
    """The number of orders, and a better guess of it."""

    permission_classes = [IsAuthenticated]

    def get(self, request):
        """Count the orders of the current user."""
        return Response({"orders": Order.objects.filter(owner=request.user).count()})

    def post(self, request):
        """Compare a guess with the number of orders."""
        count = Order.objects.filter(owner=request.user).count()
        return Response({"right": request.data.get("guess") == count})


@api_view(["GET", "POST"])
@permission_classes([AllowAny])
def echo(request):
    """Answer what was sent."""
    return Response({"method": request.method, "query": request.query_params.dict(), "data": request.data or None})


@api_view(["GET"])
@permission_classes([IsAuthenticated])
def cash_registers(request):
    """Name the cash registers, whose path only looks like that of a registration."""
    return Response([{"number": 1, "place": "door"}, {"number": 2, "place": "yard"}])


@api_view(["GET"])
@permission_classes([AllowAny])
def hotplates(request):
    """Name the hotplates, whose path only looks like that of a one-time password."""
    return Response(ProductSerializer(Product.objects.filter(slug__startswith="hotplate"), many=True).data)
