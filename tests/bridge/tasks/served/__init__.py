"""A project with tools that become tasks, for tests with several processes."""
