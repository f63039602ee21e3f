"""Values that begin as the last one of their topic did are read as if each came alone."""

from __future__ import annotations

import pytest

from ottla.connect.converters.json import JsonConverter
from ottla.connect.errors import DataException

A, B = '{"type":"int32"}', '{"type":"string","optional":true}'
GIVEN = {"converter.type": "value"}
DOCUMENTS = (
    f'{{"schema":{A},"payload":1}}',
    f'{{"schema":{B},"payload":"x"}}',
    f'{{"schema":{B},"payload":null}}',
    f'{{ "schema" : {A}, "payload" : 7 }}',
    f'{{"schema":{A},"payload":1}}\n',
    f'{{"payload":3,"schema":{A}}}',
    f'{{"schema":{A},"payload":1,"schema":{B},"payload":"the last one counts"}}',
    f'{{"schema":{A},"payload":1,"more":2}}',
    f'{{"schema":{A},"payload":1',
    f'{{"schema":{A},"payload":}}',
    f'{{"schema":{A},"payload":1}}}}',
    f'{{"schema":{A},"payload":"\ud800"}}',
    f'{{"schema":{A}}}',
    f'{{"schema":{A},"payload":[1}}]',
    '{"schema":null,"payload":{"a":[1,2.5]}}',
)  # fmt: skip


def read(converter: JsonConverter, text: str) -> object:
    """The value that a converter makes of a document, or its refusal."""
    try:
        return converter.to_connect("t", text.encode("utf-8", "surrogatepass"))
    except DataException as fault:
        return str(fault)


@pytest.mark.parametrize("before", DOCUMENTS)
@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_value_is_read_as_if_it_came_alone(before, document):
    alone, after = JsonConverter(GIVEN), JsonConverter(GIVEN)
    read(after, before)
    assert read(after, document) == read(alone, document)


def test_topics_keep_their_own_schemas_and_no_more_than_may_be_remembered():
    converter = JsonConverter({**GIVEN, "schemas.cache.size": "2"})
    for _ in range(2):
        for number in range(5):
            document = f'{{"schema":{{"type":"int32","version":{number}}},"payload":{number}}}'
            found = converter.to_connect(f"t{number}", document.encode())
            assert (found.schema.version, found.value) == (number, number)
    assert len(converter._heads._heads) <= 2
