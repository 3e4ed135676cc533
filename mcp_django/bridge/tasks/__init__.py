"""Tasks: tool calls that outlive their request. They are stored here, with their owners, for a framework to run.

The job that runs a task stands above, so the app hands it in.
"""
