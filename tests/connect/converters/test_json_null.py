"""JSON's null, and no bytes at all."""

import pytest

from ottla.connect.converters.json import JsonConverter
from ottla.connect.records import SchemaAndValue


@pytest.mark.parametrize("enabled", ["true", "false"])
def test_no_bytes_are_a_tombstone_with_and_without_schemas(enabled):
    converter = JsonConverter({"converter.type": "value", "schemas.enable": enabled})
    assert converter.to_connect("t", None) == SchemaAndValue(None, None)
    assert converter.from_connect("t", None, None) is None
