"""Tests for what a project exposes: MCPClient asks its server within the test's own thread and transaction.

No server is started and no token is needed. Each message goes the way that it goes on a socket: it is written, read,
checked against its schema, answered by the method table, and written again. It imports console and the packages below
it.
"""

from mcp_django.test.client import MCPClient
from mcp_django.test.results import CallRefused, PromptResult, ProtocolError, ResourceResult, ToolResult

__all__ = ["CallRefused", "MCPClient", "PromptResult", "ProtocolError", "ResourceResult", "ToolResult"]
