"""The options of a subscription to clients' metrics: the resource `client-metrics` (KIP-714)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.config.option import ConfigError, OptionKind, OptionSet, between, nearest, option
from ottla.kernel.patterns import BadPattern, Matcher, compile_pattern

ALL_METRICS = "*"
MATCHED = (
    "client_id", "client_instance_id", "client_software_name", "client_software_version", "client_source_address",
    "client_source_port",
)  # fmt: skip
"""The attributes of a client that a subscription can match."""


class ClientMetricsConfig(OptionSet):
    """One subscription."""

    # fmt: off
    metrics: tuple[str, ...] = option(
        "metrics", (), OptionKind.LIST,
        doc="The prefixes of the metrics to push, with commas; * for all.",
    )
    interval_ms: int = option(
        "interval.ms", 300_000, OptionKind.INT, check=between(100, 3_600_000),
        doc="How often a client pushes.",
    )
    match: tuple[str, ...] = option(
        "match", (), OptionKind.LIST,
        doc="The clients, as NAME=REGEX with commas, all of which must fit whole; empty: all clients. The names are "
            f"{', '.join(MATCHED)}.",
    )
    # fmt: on


def matchers(match: Iterable[str]) -> dict[str, Matcher]:
    """The patterns that clients must fit, by name; ConfigError where it cannot be read."""
    found = {}
    for part in match:
        name, equals, pattern = part.partition("=")
        if name not in MATCHED or not equals or not pattern:
            raise ConfigError(
                f"Illegal client matching pattern: {part}{nearest(name, MATCHED)}: it is NAME=REGEX, "
                f"with a name of {', '.join(MATCHED)}"
            )
        if name in found:
            raise ConfigError(f"Illegal client matching pattern: {name} is given twice")
        try:
            found[name] = compile_pattern(pattern)
        except BadPattern as fault:
            raise ConfigError(f"Illegal client matching pattern: {part}: {fault}") from None
    return found


def client_metrics_problems(texts: Mapping[str, str]) -> str | None:
    """The fault of a subscription's options; None if they may be stored."""
    for name in texts:
        if name not in ClientMetricsConfig.BY_NAME:
            return f"Unknown client metrics configuration: {name}{nearest(name, ClientMetricsConfig.BY_NAME)}"
    try:
        matchers(ClientMetricsConfig.of_texts(texts).match)
    except ConfigError as fault:
        return fault.problems[0]
    return None
