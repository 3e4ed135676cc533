"""Bytes in, bytes out: HTTP, WebSocket and stdio, and the quirks of the servers below them.

A transport reads messages, hands each to ``server.dispatch``, and writes the reply and what goes ahead of it. It imports
``server``, ``push``, ``sessions`` and what stands below them, but for tools, prompts, resources and models.
"""
