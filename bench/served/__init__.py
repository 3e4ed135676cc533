"""Our own server as it is measured: the demo, with a tool more, and its flights open to everybody or by token."""
