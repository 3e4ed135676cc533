"""The tools that agents call: the query tools, admin actions, and functions that a project declares."""
