"""What an agent can do: the query tools, admin actions, and functions that a project declares."""
