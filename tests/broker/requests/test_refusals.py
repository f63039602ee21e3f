"""Every API declares its refusal beside its message, and each refusal can be encoded in every version."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from building import messages
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.broker.requests.refusals import refusal
from ottla.kernel.errors import ErrorCode
from ottla.schema.codec import decode, encode
from ottla.schema.message import schema_of
from ottla.wire.apis import APIS, Api
from ottla.wire.hot import decode_fetch, decode_produce

ERROR = ErrorCode.POLICY_VIOLATION
BY_HAND = {0: decode_produce, 1: decode_fetch}
"""Produce and Fetch are read and refused in wire/."""
EVERY_API = pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)


def errors_in(message: Any, version: int) -> Iterator[int]:
    for field in schema_of(type(message)).fields:
        value = getattr(message, field.name)
        if field.name in ("error_code", "partition_error_code") and field.is_in(version):
            yield value
        if field.struct is not None and value is not None:
            for item in value if isinstance(value, list) else [value]:
                yield from errors_in(item, version)


def refused(api: Api, version: int, request: Any) -> Any:
    """The answer as a client decodes it; None where there is none."""
    call: Any = SimpleNamespace(api_key=api.key, api_version=version, correlation_id=7)
    if api.key in BY_HAND:
        asked, _ = BY_HAND[api.key](memoryview(encode(request, version)), 0, version)
        parts = refusal(call, asked, ERROR)
        head = 8 + api.response_header_version(version)
        return decode(api.response, version, b"".join(parts)[head:]) if parts else None
    answer = refusal(call, request, ERROR)
    return answer if answer is None else decode(api.response, version, encode(answer, version))


@EVERY_API
def test_every_api_declares_how_it_is_refused(api: Api) -> None:
    assert (api.refusal is None) == (api.key in BY_HAND)


@EVERY_API
@settings(max_examples=5)
@given(data=st.data())
def test_a_refusal_says_the_error_and_no_other_in_every_version(api: Api, data: st.DataObject) -> None:
    whole = [field for field in schema_of(api.response).fields if field.name == "error_code"]
    for version in range(api.served.first, api.served.last + 1):
        answer = refused(api, version, data.draw(messages(api.request, version)))
        if answer is None:
            assert api.key in BY_HAND or not any(field.is_in(version) for field in whole)
            continue
        said = set(errors_in(answer, version))
        assert said <= {ERROR, ErrorCode.NONE}
        assert api.key in BY_HAND or ERROR in said


def test_nothing_is_refused_that_was_not_asked_for() -> None:
    api = APIS[46]
    request = api.request(topics=None)
    assert refused(api, 0, request) == api.response(error_code=ERROR)
