"""Events: in pages, all at once, and each with its own fields."""

from rest_framework import generics
from rest_framework.permissions import IsAuthenticated

from tests.api.project.models import Event
from tests.api.project.paginations import Cursors
from tests.api.project.serializers import EventSerializer, FeedSerializer


class EventListView(generics.ListAPIView):
    """The newest events, and older ones by a cursor."""

    serializer_class = EventSerializer
    permission_classes = [IsAuthenticated]
    pagination_class = Cursors

    def get_queryset(self):
        user = self.request.user
        return Event.objects.all() if user.is_staff else Event.objects.filter(owner_id=user.pk)


class AllEventsView(EventListView):
    """All events at once, however many."""

    pagination_class = None


class FeedView(EventListView):
    """The events of which each shows what its kind has."""

    serializer_class = FeedSerializer
    pagination_class = None

    def get_queryset(self):
        return super().get_queryset()[:12]
