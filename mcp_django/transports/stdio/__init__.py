"""MCP over standard input and output: one message a line, both eras at once (2026-07-28 basic/transports/stdio).

The client starts the process, ``manage.py mcp_stdio``, and speaks for the user that is named there. Nothing is imported
here, since ``standard`` is needed before the app registry is there.
"""
