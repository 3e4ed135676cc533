"""The system checks of logging in."""
