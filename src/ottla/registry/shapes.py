"""Checks the shape of metadata, rule sets and settings; raises on wrong ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ottla.registry import errors
from ottla.registry.errors import RegistryError
from ottla.registry.records import Json

RULE_KINDS = ("migrationRules", "domainRules", "encodingRules")
_RULE_TEXTS = ("name", "doc", "kind", "mode", "type", "expr", "onSuccess", "onFailure")
_TEXT_SETTINGS = ("alias", "compatibilityGroup", "compatibilityPolicy")
_FLAG_SETTINGS = ("normalize", "validateFields", "validateRules")


def check_metadata(metadata: Json) -> None:
    """Tags are lists of texts by name, properties texts by name, sensitive a list of names."""
    if metadata is None:
        return
    tags, properties = metadata.get("tags"), metadata.get("properties")
    if (
        not _is_map(tags, _is_texts)
        or not _is_map(properties, _is_text)
        or not _is_texts(metadata.get("sensitive") or [])
    ):
        raise RegistryError(422, "metadata has tags (lists by name), properties (texts by name) and sensitive (a list)")


def check_rule_set(rules: Json) -> None:
    """Rules are lists of objects with a name of their own and a type; 42210 where they are not."""
    if rules is None:
        return
    if not isinstance(rules.get("enableAt"), str | None):
        raise errors.invalid_rule_set("enableAt is not a text")
    seen: set[str] = set()
    for kind in RULE_KINDS:
        listed = rules.get(kind)
        if listed is not None and not isinstance(listed, list):
            raise errors.invalid_rule_set(f"{kind} is not a list")
        for rule in listed or ():
            name = _rule_name(rule)
            if name in seen:
                raise errors.invalid_rule_set(f"two rules are called {name}")
            seen.add(name)


def _rule_name(rule: Json) -> str:
    name = rule.get("name") if isinstance(rule, Mapping) else None
    if not isinstance(name, str) or not name:
        raise errors.invalid_rule_set("a rule has no name")
    if not rule.get("type"):
        raise errors.invalid_rule_set(f"the rule {name} has no type")
    texts = all(isinstance(rule.get(word), str | None) for word in _RULE_TEXTS)
    if not texts or not _is_map(rule.get("params"), _is_text) or not _is_texts(rule.get("tags") or []):
        raise errors.invalid_rule_set(f"the rule {name} has something that is not a text")
    return name


def check_settings(given: Mapping[str, Json]) -> None:
    """Settings are flags, texts, metadata and rule sets; null takes one away."""
    for name, value in given.items():
        if value is None:
            continue
        flag, text = name in _FLAG_SETTINGS, name in _TEXT_SETTINGS
        nested = name.endswith(("Metadata", "RuleSet"))
        if (flag and not isinstance(value, bool)) or (text and not _is_text(value)):
            raise RegistryError(422, f"{name} must be {'true or false' if flag else 'a string'}")
        if nested and not isinstance(value, dict):
            raise RegistryError(422, f"{name} must be an object")
        if name.endswith("Metadata"):
            check_metadata(value)
        elif name.endswith("RuleSet"):
            check_rule_set(value)


def _is_text(value: Json) -> bool:
    return isinstance(value, str)


def _is_texts(value: Json) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _is_map(value: Json, of: Callable[[Json], bool]) -> bool:
    return value is None or (isinstance(value, dict) and all(of(each) for each in value.values()))
