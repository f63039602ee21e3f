"""The parsed options about typed values: their format, where schemas are found, and how bad values are treated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ottla.client.registry_client import registry_urls

FORMATS = ("binary", "text", "avro", "protobuf", "json")
WITH_SCHEMA = ("avro", "protobuf", "json")
MODES = ("failfast", "permissive")
VALUE, VALUE_ERROR = "value", "value_error"


@dataclass(frozen=True, slots=True)
class ValueOptions:
    """The kind of a source's or sink's values. Without URLs payloads have no prefix: all have the schema given."""

    kind: str = "binary"
    urls: tuple[str, ...] = ()
    schema: str = ""
    subject: str = ""
    message: str = ""
    permissive: bool = False

    @property
    def typed(self) -> bool:
        """True if the column `value` is anything but bytes."""
        return self.kind != "binary"

    @property
    def error_column(self) -> bool:
        """True if there is a column `value_error`."""
        return self.typed and self.permissive


BYTES = ValueOptions()


def value_options(text: Callable[[str], str | None]) -> ValueOptions:
    """Understand the options that `text` gives by name, or raise ValueError."""
    kind = (text("value.format") or "binary").strip().lower()
    if kind not in FORMATS:
        raise ValueError(f"Option 'value.format' must be one of {', '.join(FORMATS)}, got '{kind}'")
    mode = (text("value.mode") or MODES[0]).strip().lower()
    if mode not in MODES:
        raise ValueError(f"Option 'value.mode' must be failfast or permissive, got '{mode}'")
    given, schema, subject = text("registry.url"), text("value.schema") or "", text("value.subject") or ""
    message = (text("value.message") or "").strip()
    if message and kind != "protobuf":
        raise ValueError("Option 'value.message' needs option 'value.format' to be protobuf")
    if kind not in WITH_SCHEMA:
        for name, found in (("registry.url", given), ("value.schema", schema), ("value.subject", subject)):
            if found:
                raise ValueError(f"Option '{name}' needs option 'value.format' to be avro, protobuf or json")
        return ValueOptions(kind, permissive=mode == "permissive")
    if not given and not schema:
        raise ValueError(f"Option 'value.format' {kind} needs option 'registry.url', or 'value.schema'")
    if subject and not given:
        raise ValueError("Option 'value.subject' needs option 'registry.url'")
    urls = registry_urls(given) if given else ()
    return ValueOptions(kind, urls, schema, subject.strip(), message, mode == "permissive")
