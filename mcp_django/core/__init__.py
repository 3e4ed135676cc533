"""What everything else stands on: threads and the event loop, databases, events between processes, parts of Django.

It also has small tools that several packages above share: pages outside of the admin, CSV cells, the compiler of
prompts, and hooks of the project. It imports protocol, exceptions, conf and types. It knows no principal and no tool.
"""
