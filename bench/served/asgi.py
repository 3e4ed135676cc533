"""The ASGI application: our application for HTTP and WebSocket, with Django behind it; and Channels' own echo."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "bench.served.settings")

from django.core.asgi import get_asgi_application as get_django_application

#: HTTP through Django's own handler, and our view behind it.
django_application = get_django_application()

from channels.generic.websocket import AsyncWebsocketConsumer  # noqa: E402
from channels.routing import ProtocolTypeRouter  # noqa: E402

from mcp_django.routing import get_asgi_application  # noqa: E402

application = get_asgi_application(django_application)


class Echo(AsyncWebsocketConsumer):  # type: ignore[misc]
    """What a consumer costs that does nothing."""

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        await self.send(text_data=text_data, bytes_data=bytes_data)


echo = ProtocolTypeRouter({"websocket": Echo.as_asgi()})
