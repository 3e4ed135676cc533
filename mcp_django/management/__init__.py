"""The management commands of the project's developer. They import transports and the packages below it."""
