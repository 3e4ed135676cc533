"""The management commands of the project's developer. They import transports and the rooms below it."""
