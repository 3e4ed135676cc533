"""Middleware that does with responses what it may do."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

from django.http import StreamingHttpResponse
from django.utils.decorators import async_only_middleware

holding = asyncio.Event()
_release = asyncio.Event()


@async_only_middleware
def hold_back(get_response: Any) -> Any:
    """Lets nobody have a response: whoever waits for one gives up."""

    async def middleware(request: Any) -> Any:
        response = await get_response(request)
        holding.set()
        await _release.wait()
        return response

    return middleware


@async_only_middleware
def wrap_again(get_response: Any) -> Any:
    """Answers with a response of its own around the content of the one that it was given."""

    async def middleware(request: Any) -> Any:
        response = await get_response(request)
        if not response.streaming:
            return response
        wrapped = StreamingHttpResponse(response.streaming_content, headers=response.headers)
        del response
        gc.collect()
        await asyncio.sleep(0)
        return wrapped

    return middleware
