"""Answering on an event loop: the work in a worker, the stream on the loop."""

from __future__ import annotations

import asyncio
import logging

from mcp_django.protocol.errors import InternalError, Overloaded
from mcp_django.push.attachment import Attachment
from mcp_django.push.hub import get_hub
from mcp_django.sites import MCPSite
from mcp_django.transports.http.answering import Answering
from mcp_django.transports.http.calls import Call
from mcp_django.transports.http.core import Conversation
from mcp_django.transports.http.incoming import Answer, Incoming
from mcp_django.transports.http.streams import ListenerStream
from mcp_django.workers import get_workers

logger = logging.getLogger("mcp_django")


async def answer(site: MCPSite, incoming: Incoming) -> Answer:
    """The answer to a request. When the caller is cancelled, so is the request where its era says so."""
    # From the first request on, this process hears at once what is revoked or switched off in another one.
    attachment = Attachment(get_hub())
    conversation = Conversation(site, incoming, attachment)
    answered: Answer | None = None
    try:
        # What a legacy client has asked for is done, whether it waits for the answer or not.
        answered = await Call(conversation).answer() if conversation.needs_worker() else conversation.answer()
    except Overloaded as error:
        answered = conversation.refuse(error)
    except Exception:
        logger.exception("A request could not be answered")
        answered = conversation.refuse(InternalError())
    except asyncio.CancelledError:
        if conversation.cancelled_by_disconnect:
            conversation.cancel()
        raise
    finally:
        stream = None if answered is None else answered.stream
        attachment.leave(but=stream.listener if isinstance(stream, ListenerStream) else None)
    return answered


async def answer_in_worker(answering: Answering) -> Answer:
    """The answer to a request that is done in one go."""
    # From the first request on, this process hears at once what is revoked or switched off in another one.
    get_hub()
    try:
        return await get_workers().run(answering.answer, principal_key=answering.principal_key)
    except Overloaded as error:
        return answering.refuse(error)
