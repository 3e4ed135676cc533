"""Views that write and fail, or that end in unusual ways."""

from django.db import transaction
from django.utils.decorators import method_decorator
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.permissions import IsAuthenticated
from rest_framework.response import Response
from rest_framework.views import APIView

from tests.api.project.models import Event


class TextSerializer(serializers.Serializer):
    """A text for an event."""

    text = serializers.CharField(max_length=80)


class WritingView(APIView):
    """Write an event of the current user; what then happens is for the views below."""

    permission_classes = [IsAuthenticated]
    serializer_class = TextSerializer

    def write(self, request):
        serializer = self.serializer_class(data=request.data)
        serializer.is_valid(raise_exception=True)
        return Event.objects.create(owner=request.user, text=serializer.validated_data["text"])


@method_decorator(transaction.non_atomic_requests, name="dispatch")
class NonAtomicView(WritingView):
    """Write an event outside the transaction of the request."""

    def post(self, request):
        return Response({"text": self.write(request).text}, status=201)


class WrittenThenInvalidView(WritingView):
    """Write an event and then refuse it."""

    def post(self, request):
        self.write(request)
        raise ValidationError({"text": "It was written, and yet it is wrong."})


class WrittenThenCrashedView(WritingView):
    """Write an event and then break."""

    def post(self, request):
        self.write(request)
        return Response({"ratio": 1 / 0})


class ExitView(APIView):
    """End the process where the code is not 0."""

    permission_classes = [IsAuthenticated]

    def get(self, request, code):
        if code:
            raise SystemExit(code)
        return Response({"ended": False})


class TwiceView(APIView):
    """Read the body twice."""

    permission_classes = [IsAuthenticated]

    def post(self, request):
        return Response({"first": request.data, "second": sorted(request.data)})
