"""What Django's own handlers take: the demo's middleware, and a view that knows its answer."""

import json

from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt

from bench.peers.work import greeting

_ANSWER = json.dumps(
    {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": greeting("Ada")}], "isError": False}}
).encode()


@csrf_exempt
async def view(request: HttpRequest) -> HttpResponse:
    return HttpResponse(_ANSWER, content_type="application/json")


@csrf_exempt
def synchronous(request: HttpRequest) -> HttpResponse:
    return HttpResponse(_ANSWER, content_type="application/json")


urlpatterns = [path("mcp", view), path("sync", synchronous)]
