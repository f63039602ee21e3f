"""The topic's bytes equal those of Confluent's registry and Karapace, in both directions."""

from __future__ import annotations

import pytest

from ottla.registry.identity import fingerprint, guid
from ottla.registry.records import (
    ClearedSubject,
    ContextKey,
    ContextValue,
    DeletedThrough,
    GreatestIds,
    Key,
    ModeValue,
    NoopKey,
    OtherKey,
    Reference,
    SchemaKey,
    SchemaValue,
    SubjectConfig,
    SubjectKey,
    UnreadableRegistryRecord,
    Value,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)

KEYS: list[tuple[bytes, Key]] = [
    (b'{"keytype":"SCHEMA","subject":"orders-value","version":1,"magic":1}', SchemaKey("orders-value", 1)),
    (b'{"keytype":"CONFIG","subject":"orders-value","magic":0}', SubjectKey("CONFIG", "orders-value")),
    (b'{"keytype":"CONFIG","magic":0}', SubjectKey("CONFIG", None)),
    (b'{"keytype":"MODE","subject":"orders-value","magic":0}', SubjectKey("MODE", "orders-value")),
    (b'{"keytype":"MODE","magic":0}', SubjectKey("MODE", None)),
    (b'{"keytype":"DELETE_SUBJECT","subject":"orders-value","magic":0}', SubjectKey("DELETE_SUBJECT", "orders-value")),
    (b'{"keytype":"CLEAR_SUBJECT","subject":"orders-value","magic":0}', SubjectKey("CLEAR_SUBJECT", "orders-value")),
    (b'{"keytype":"CONTEXT","tenant":"default","context":".lab","magic":0}', ContextKey(".lab")),
    (b'{"keytype":"NOOP","magic":0}', NoopKey()),
    ('{"keytype":"SCHEMA","subject":"größe","version":1,"magic":1}'.encode(), SchemaKey("größe", 1)),
]

STRING_MD5 = b'"md5":"CV1xzxJVa51eMwrVdbPfXQ=="'


@pytest.mark.parametrize(("content", "key"), KEYS)
def test_keys_are_equal_byte_by_byte(content: bytes, key: Key) -> None:
    assert decode_key(content) == key
    assert encode_key(key) == content


def test_keys_of_karapace_are_understood() -> None:
    assert decode_key(b'{"keytype":"CONFIG","subject":null,"magic":0}') == SubjectKey("CONFIG", None)
    assert decode_key(b'{"subject":"a","version":2,"magic":1,"keytype":"SCHEMA"}') == SchemaKey("a", 2)


VALUES: list[tuple[Key, bytes, Value]] = [
    (SubjectKey("CONFIG", None), b'{"compatibilityLevel":"FULL"}', SubjectConfig({"compatibilityLevel": "FULL"})),
    (
        SubjectKey("CONFIG", "a"),
        b'{"subject":"a","normalize":true,"compatibilityLevel":"FULL"}',
        SubjectConfig({"normalize": True, "compatibilityLevel": "FULL"}),
    ),
    (SubjectKey("MODE", "a"), b'{"subject":"a","mode":"READONLY"}', ModeValue("READONLY")),
    (SubjectKey("DELETE_SUBJECT", "a"), b'{"subject":"a","version":3}', DeletedThrough(3)),
    (SubjectKey("CLEAR_SUBJECT", "a"), b'{"subject":"a"}', ClearedSubject()),
    (ContextKey(".lab"), b'{"tenant":"default","context":".lab"}', ContextValue()),
    (NoopKey(), b'{"greatestIds":{".":7}}', GreatestIds({".": 7})),
    (
        SchemaKey("a", 1),
        b'{"subject":"a","version":1,"id":4,' + STRING_MD5 + b',"schema":"\\"string\\"","deleted":false}',
        SchemaValue("a", 1, 4, '"string"'),
    ),
    (
        SchemaKey("a", 2),
        b'{"subject":"a","version":2,"id":5,"md5":"AAAAAAAAAAAAAAAAAAAAAA==","schemaType":"JSON",'
        b'"references":[{"name":"n","subject":"b","version":1}],"metadata":{"properties":{"k":"v"}},'
        b'"schema":"{}","deleted":true}',
        SchemaValue(
            "a",
            2,
            5,
            "{}",
            "JSON",
            (Reference("n", "b", 1),),
            {"properties": {"k": "v"}},
            None,
            deleted=True,
        ),
    ),
]


@pytest.mark.parametrize(("key", "content", "value"), VALUES)
def test_values_are_equal_byte_by_byte(key: Key, content: bytes, value: Value) -> None:
    decoded = decode_value(key, content)
    assert decoded == value
    assert encode_value(key, decoded) == content


def test_a_value_of_an_old_registry_has_no_fingerprint() -> None:
    old = b'{"subject":"a","version":1,"id":1,"schema":"\\"string\\"","deleted":false}'
    value = decode_value(SchemaKey("a", 1), old)
    assert isinstance(value, SchemaValue)
    assert value.guid_bytes == fingerprint('"string"', (), None, None)


@pytest.mark.parametrize(
    "content",
    [
        b'{"keytype":"SOMETHING","magic":0}',
        b'{"keytype":"SCHEMA","subject":"a","version":2147483648,"magic":1}',
    ],
)
def test_unknown_keys_are_left_alone(content: bytes) -> None:
    assert decode_key(content) == OtherKey(content)
    assert encode_key(OtherKey(content)) == content


@pytest.mark.parametrize("content", [b"", b"\x00\x01", b"[]", b'"x"'])
def test_what_is_no_record_is_said_to_be_none(content: bytes) -> None:
    with pytest.raises(UnreadableRegistryRecord):
        decode_key(content)


def test_a_schema_without_id_is_unreadable() -> None:
    with pytest.raises(UnreadableRegistryRecord):
        decode_value(SchemaKey("a", 1), b'{"subject":"a","version":1,"schema":"{}"}')


def test_the_guid_covers_references_metadata_and_rules() -> None:
    """MD5 over the parts in the order of the public Java client; each part changes it."""
    import hashlib

    reference = Reference("n", "s", 258)
    assert fingerprint("x", (reference,), None, None) == hashlib.md5(b"xns\x00\x00\x01\x02").digest()
    metadata = {"tags": {"t": ["p"]}, "properties": {"b": "2", "a": "1"}, "sensitive": ["z"]}
    assert fingerprint("x", (), metadata, None) == hashlib.md5(b"x\x01tpa1b2z").digest()
    rules = {"domainRules": [{"name": "r", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "true"}]}
    assert fingerprint("x", (), None, rules) == hashlib.md5(b"x\x01rCONDITIONWRITECELtrue").digest()
    assert guid(bytes(range(16))) == "00010203-0405-0607-0809-0a0b0c0d0e0f"


@pytest.mark.parametrize(
    "value",
    [
        b"[" * 100_000,
        b'{"id":1,"schema":"x","references":[{"name":"n","subject":"s","version":1099511627776}]}',
        b'{"id":2147483648,"schema":"x"}',
        b'{"id":1,"schema":"x","md5":"CV1xzxJVa51eMwrVdbPfXQ==","metadata":"x"}',
        b'{"id":1,"schema":"x","md5":"CV1xzxJVa51eMwrVdbPfXQ==","ruleSet":["x"]}',
    ],
)
def test_odd_records_are_unreadable(value: bytes) -> None:
    """Such a record must be left out: an instance that fails at it never starts again."""
    with pytest.raises(UnreadableRegistryRecord):
        decode_value(SchemaKey("a", 1), value)
