"""Releases of Apache Kafka: their levels of metadata.version, and of the features that ottla has, too."""

from __future__ import annotations

METADATA_VERSION = "metadata.version"
NAMES = [
    *("3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2"),
    *("3.7-IV0", "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0"),
    *("4.0-IV0", "4.0-IV1", "4.0-IV2", "4.0-IV3", "4.1-IV0", "4.1-IV1", "4.2-IV0", "4.2-IV1", "4.3-IV0", "4.4-IV0"),
]
"""Names of the levels of metadata.version that Apache Kafka 4.3.1 knows, from the first on."""
_FIRST_LEVEL = 7
LATEST_STABLE = "4.3-IV0"
FEATURES = {"transaction.version": (2, "4.0-IV2"), "group.version": (1, "4.0-IV0")}
"""The level of each feature in a release, and the first release that has it: in releases before it the level is 0."""


def named(text: str) -> str | None:
    """The newest stable level of a release such as 3.7 or 3.7.1, or the one level that is named, such as 3.7-IV2."""
    name = ".".join(text.split(".")[:2])
    if name in NAMES:
        return name
    stable = NAMES[: NAMES.index(LATEST_STABLE) + 1]
    return next((level for level in reversed(stable) if level.partition("-")[0] == name), None)


def metadata_level(name: str) -> int:
    return NAMES.index(name) + _FIRST_LEVEL


def level_in(name: str, feature: str) -> int:
    level, since = FEATURES[feature]
    return level if NAMES.index(name) >= NAMES.index(since) else 0


def shown(feature: str, level: int) -> str:
    """A level as Kafka's tool shows it: of metadata.version by its name."""
    if feature != METADATA_VERSION:
        return str(level)
    place = level - _FIRST_LEVEL
    return NAMES[place] if 0 <= place < len(NAMES) else f"UNKNOWN {level}"


def why_unknown(feature: str, level: int) -> str | None:
    if feature == METADATA_VERSION:
        return None if 0 <= level - _FIRST_LEVEL < len(NAMES) else f"Unknown {METADATA_VERSION} {level}"
    if feature not in FEATURES:
        return f"Unknown feature: {feature}"
    return None if 0 <= level <= FEATURES[feature][0] else f"No feature:{feature} with feature level {level}"
