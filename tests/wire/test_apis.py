"""The API table against the message classes, and its headers."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ottla.messages.headers import RequestHeader, ResponseHeader
from ottla.schema.codec import decode, encode
from ottla.schema.message import schema_of
from ottla.wire.apis import APIS, Api

EVERY_API = pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)


@EVERY_API
def test_an_api_serves_the_versions_that_its_classes_declare(api: Api) -> None:
    for cls in (api.request, api.response):
        assert schema_of(cls).versions == (api.served.first, api.served.last)
        assert schema_of(cls).flexible_since == api.flexible_since


@EVERY_API
def test_codecs_exist_for_every_version_served(api: Api) -> None:
    for version in range(api.served.first, api.served.last + 1):
        for cls, encode_into, decode_from in (
            (api.request, api.request_encoder(version), api.request_decoder(version)),
            (api.response, api.response_encoder(version), api.response_decoder(version)),
        ):
            out = bytearray()
            encode_into(cls(), out)
            assert decode_from(memoryview(out), 0) == (cls(), len(out))


def test_only_produce_and_init_producer_id_announce_other_versions_than_they_serve() -> None:
    different = {api.name: (api.served, api.announced) for api in APIS.values() if api.served != api.announced}
    assert different == {"Produce": ((3, 13), (0, 13)), "InitProducerId": ((0, 6), (0, 5))}


def test_old_librdkafka_finds_the_exact_versions_that_it_looks_for() -> None:
    wanted = {0: (0, 3), 1: (4,), 2: (1,), 8: (2,), 9: (1,), 10: (0,), 11: (0,), 12: (0,), 13: (0,), 14: (0,)}
    wanted |= {18: (0,), 22: (0,)}
    for key, versions in wanted.items():
        assert all(version in APIS[key].announced for version in versions), APIS[key]


def test_headers_are_flexible_with_their_requests_but_api_versions_answers_with_header_0() -> None:
    assert [APIS[0].request_header_version(version) for version in (8, 9)] == [1, 2]
    assert [APIS[0].response_header_version(version) for version in (8, 9)] == [0, 1]
    assert [APIS[18].request_header_version(version) for version in (2, 3)] == [1, 2]
    assert [APIS[18].response_header_version(version) for version in (2, 3)] == [0, 0]
    assert APIS[47].request_header_version(0) == 1


def test_the_client_id_keeps_its_two_byte_length_in_flexible_headers() -> None:
    header = RequestHeader(request_api_key=18, request_api_version=3, correlation_id=7, client_id="me")
    assert encode(header, 2) == bytes.fromhex("0012 0003 00000007 0002 6d65 00")
    assert decode(RequestHeader, 1, bytes.fromhex("0012 0000 00000007 ffff")).client_id is None
    assert encode(ResponseHeader(correlation_id=1), 1) == b"\0\0\0\1\0"


def test_importing_the_table_imports_no_messages() -> None:
    program = (
        "import sys, ottla.wire.apis as apis\n"
        "assert not [name for name in sys.modules if name.startswith('ottla.messages.')]\n"
        "apis.APIS[12].request\n"
        "print(*[name for name in sys.modules if name.startswith('ottla.messages.')])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["ottla.messages.heartbeat"]
