"""What everything else stands on: threads and the event loop, databases, events between processes, parts of Django.

It imports protocol, exceptions, conf and types. It knows no principal and no tool.
"""
