"""A project with tools that become tasks, for processes of their own."""
