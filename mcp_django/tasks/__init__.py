"""Tasks, calls that outlive their request: how they are stored, who owns them, and which framework runs them.

Imports access, models and what stands below them. What a task runs is handed in: it stands above.
"""
