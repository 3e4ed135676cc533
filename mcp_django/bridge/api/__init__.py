"""The project's own API as tools: its operations, each called through MIDDLEWARE as a client of HTTP would."""
