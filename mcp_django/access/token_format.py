"""The check of a token's form for rooms that have no other use of ``exchange``: what fails it needs no query."""

from mcp_django.exchange.token_format import is_well_formed

__all__ = ["is_well_formed"]
