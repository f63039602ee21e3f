"""Faults of a schema as a whole; faults of single rows are sentences beside their row's number."""

from __future__ import annotations


class SchemaFault(ValueError):
    """The schema's text is not a schema, or it says something that has no place in columns."""


class Unresolvable(ValueError):
    """The values of one schema cannot be read as another schema wants them."""


class BadPayload(ValueError):
    """One payload is not what its schema says."""


class UnknownSchema(LookupError):
    """Nobody knows a schema of that id. Raised by the function that the decoder finds schemas with."""
