"""From a command line to a cluster: bootstrap address, client properties, settings."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.cli.faults import BadInput, Misuse, text_of
from ottla.client.blocking.admin import Admin
from ottla.client.model import ClientSettings
from ottla.client.security import security_of
from ottla.config.option import ConfigError, Option, OptionKind, at_least
from ottla.config.properties import parse_properties
from ottla.config.units import plain_numbers


def read_properties(path: str, *, trim: bool = True) -> dict[str, str]:
    """A Java properties file; `trim` takes blanks off the ends of values, as Kafka's clients do but its readers and
    formatters do not."""
    try:
        found = parse_properties(text_of(path))
    except ValueError as fault:
        raise BadInput(f"{path}: {fault}") from None
    return {key: value.strip() for key, value in found.items()} if trim else found


def parse_pairs(pairs: list[str]) -> dict[str, str]:
    """`key=value` arguments."""
    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise Misuse(f"Invalid command line properties: {' '.join(pairs)}")
        found[key.strip()] = value
    return found


def client_settings(properties: Mapping[str, str], client_id: str = "ottla-cli") -> ClientSettings:
    """Settings from Kafka's client options. Options that would make the connection unsafe or impossible are refused."""
    try:
        security = security_of(properties)
    except ValueError as fault:
        raise Misuse(str(fault)) from None
    defaults = ClientSettings()
    return ClientSettings(
        client_id=properties.get("client.id", client_id),
        request_timeout_ms=number(properties, "request.timeout.ms", defaults.request_timeout_ms),
        api_timeout_ms=number(properties, "default.api.timeout.ms", defaults.api_timeout_ms),
        metadata_max_age_ms=number(
            properties, "metadata.max.age.ms", defaults.metadata_max_age_ms, kind=OptionKind.LONG
        ),
        retry_backoff_ms=number(properties, "retry.backoff.ms", defaults.retry_backoff_ms, kind=OptionKind.LONG),
        bootstrap_timeout_ms=0,
        security=security,
    )


def number(
    properties: Mapping[str, str], name: str, default: float, *, least: int = 0, kind: OptionKind = OptionKind.INT
) -> int:
    """An option that is a whole number within Kafka's bounds; Misuse in Kafka's words if it is none."""
    if name not in properties:
        return int(default)
    try:
        option = Option(name, None, kind, check=at_least(least))
        found = option.parse(plain_numbers(properties, {name: option})[0][name])
    except ConfigError as fault:
        raise Misuse(str(fault)) from None
    assert isinstance(found, int)
    return found


def admin(bootstrap: str, properties: Mapping[str, str] | None = None) -> Admin:
    """An Admin for these addresses; Misuse if they are none."""
    try:
        return Admin(bootstrap, settings=client_settings(properties or {}))
    except ValueError as fault:
        raise Misuse(str(fault)) from None


def admin_from(bootstrap: str, command_config: str | None) -> Admin:
    """An Admin with the properties of a `--command-config` file."""
    return admin(bootstrap, read_properties(command_config) if command_config else None)
