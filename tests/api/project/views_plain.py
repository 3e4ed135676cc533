"""Views without a class, of which some are Django's own."""

from django.http import JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET
from rest_framework.decorators import api_view, authentication_classes, permission_classes
from rest_framework.exceptions import ParseError
from rest_framework.permissions import AllowAny
from rest_framework.response import Response

from tests.api.project.models import Product


@csrf_exempt
@api_view(["POST"])
@authentication_classes([])
@permission_classes([AllowAny])
def webhook(request):
    """Take what another service tells us."""
    if not isinstance(request.data, dict):
        raise ParseError("Send an object.")
    return Response({"taken": sorted(request.data), "user": str(request.user)}, status=202)


@api_view(["GET"])
@permission_classes([AllowAny])
def health(request):
    """Tell that we are alive."""
    return Response({"ok": True})


@require_GET
def plain(request):
    """Count the products, without REST framework."""
    return JsonResponse({"products": Product.objects.count(), "user": str(request.user)})


async def asynchronous(request):
    """Count the products on the event loop."""
    user = await request.auser()
    return JsonResponse({"products": await Product.objects.acount(), "user": str(user)})
