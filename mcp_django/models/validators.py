"""Validators and defaults of the models' fields. Migrations name them, so they stay importable."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from mcp_django.core.prompt_templates import compile_template
from mcp_django.exchange import scopes
from mcp_django.exchange.addresses import parse_networks
from mcp_django.exchange.rates import parse_limits
from mcp_django.protocol.names import NAME


def default_scopes() -> list[str]:
    return [scopes.READ]


def validate_scopes(value: Any) -> None:
    if not isinstance(value, list):
        raise ValidationError(_("must be a list of scopes"))
    try:
        scopes.parse(value)
    except (ValueError, TypeError, AttributeError) as error:
        raise ValidationError(str(error)) from None


def validate_addresses(value: Any) -> None:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValidationError(_("must be a list of addresses and networks"))
    try:
        parse_networks(value)
    except ValueError as error:
        raise ValidationError(str(error)) from None


def validate_limits(value: Any) -> None:
    try:
        parse_limits(value)
    except ValueError as error:
        raise ValidationError(str(error)) from None


def validate_name(value: str) -> None:
    if not NAME.fullmatch(value):
        raise ValidationError(_("Use 1 to 64 letters, digits, _ and -, since clients refuse other names."))


def validate_template(value: str) -> None:
    compile_template(value)
