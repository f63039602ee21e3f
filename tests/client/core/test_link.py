"""Frames, correlation ids, versions: one connection without its socket, also against a lying peer."""

from __future__ import annotations

import struct
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.core.link import Inbox, Link, api_of, api_versions_request, response_of
from ottla.client.errors import ProtocolViolation, UnsupportedVersion
from ottla.client.model import MAX_RESPONSE_BYTES
from ottla.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.schema.codec import encode


def feed(inbox: Inbox, content: bytes) -> list[bytes]:
    """Feed the bytes in pieces that fit; return all complete frames."""
    frames = []
    while content:
        target = inbox.target()
        part = content[: len(target)]
        target[: len(part)] = part
        content = content[len(part) :]
        frame = inbox.received(len(part))
        if frame is not None:
            frames.append(bytes(frame))
    return frames


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


@settings(max_examples=50, deadline=None)
@given(bodies=st.lists(st.binary(min_size=4, max_size=300), max_size=5), cut=st.integers(1, 7))
def test_frames_come_out_whole_however_the_bytes_are_cut(bodies: list[bytes], cut: int) -> None:
    inbox, stream, frames = Inbox(), b"".join(map(framed, bodies)), []
    for start in range(0, len(stream), cut):
        frames += feed(inbox, stream[start : start + cut])
    assert frames == bodies


def test_a_frame_larger_than_its_first_buffer_comes_out_whole() -> None:
    body = bytes(range(256)) * 20_000
    assert feed(Inbox(), framed(body)) == [body]


def frame_of(inbox: Inbox, body: bytes) -> memoryview:
    """The view that the caller of an inbox gets."""
    content = framed(body)
    while True:
        target = inbox.target()
        count = min(len(target), len(content))
        target[:count], content = content[:count], content[count:]
        frame = inbox.received(count)
        if frame is not None:
            assert not content
            return frame


def test_memory_of_a_large_frame_is_used_again_for_a_smaller_one() -> None:
    inbox = Inbox()
    first = frame_of(inbox, b"a" * (3 << 20))
    memory = first.obj
    first.release()
    second = frame_of(inbox, b"b" * (2 << 20))
    assert second.obj is memory
    assert second == b"b" * (2 << 20)


def test_a_frame_that_somebody_views_is_never_written_over() -> None:
    inbox, bodies = Inbox(), [bytes([at]) * ((2 << 20) + at) for at in range(6)]
    frames, slices = [], []
    for body in bodies:
        frame = frame_of(inbox, body)
        slices.append(frame[len(frame) // 2 :])
        frames.append(frame)
        if len(frames) > 2:
            frames[-2].release()  # its slice is still in use
    assert all(held == body[len(body) // 2 :] for held, body in zip(slices, bodies, strict=True))


def test_memory_of_few_frames_and_none_of_huge_ones_is_kept() -> None:
    inbox = Inbox()
    tracemalloc.start()
    try:
        views = [frame_of(inbox, b"a" * (2 << 20)) for _ in range(4)]
        huge = frame_of(inbox, b"a" * (17 << 20))
        del views, huge
        assert tracemalloc.get_traced_memory()[0] < 5 << 20
    finally:
        tracemalloc.stop()


def test_a_claimed_size_allocates_nothing_before_the_bytes_are_there() -> None:
    inbox = Inbox()
    tracemalloc.start()
    try:
        feed(inbox, struct.pack(">i", MAX_RESPONSE_BYTES))
        assert len(inbox.target()) <= 1 << 20
        assert tracemalloc.get_traced_memory()[1] < 2 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("size", [-1, 0, 3, MAX_RESPONSE_BYTES + 1, 2**31 - 1])
def test_an_impossible_size_is_refused(size: int) -> None:
    with pytest.raises(ProtocolViolation, match="Kafka listener"):
        feed(Inbox(), struct.pack(">i", size))


def a_link(**versions: tuple[int, int]) -> Link:
    link = Link("me")
    keys = {"heartbeat": 12, "api_versions": 18}
    link.learn(
        ApiVersionsResponse(
            api_keys=[
                ApiVersion(api_key=keys[name], min_version=low, max_version=high)
                for name, (low, high) in versions.items()
            ]
        )
    )
    return link


def test_the_newest_version_of_both_sides_is_chosen() -> None:
    link = a_link(heartbeat=(0, 3))
    assert link.choose(api_of(HeartbeatRequest)) == 3
    assert link.choose(api_of(HeartbeatRequest), most=1) == 1
    assert a_link(heartbeat=(2, 99)).choose(api_of(HeartbeatRequest)) == 4


def test_where_versions_do_not_meet_the_error_says_which_there_are() -> None:
    with pytest.raises(UnsupportedVersion, match="Heartbeat in versions 7-9"):
        a_link(heartbeat=(7, 9)).choose(api_of(HeartbeatRequest))
    with pytest.raises(UnsupportedVersion, match="does not serve Heartbeat"):
        a_link().choose(api_of(HeartbeatRequest))


@pytest.mark.parametrize("version", [0, 4])
def test_requests_carry_their_header_and_answers_are_read_behind_theirs(version: int) -> None:
    link = Link("me")
    number, frame = link.request(
        api_of(HeartbeatRequest), HeartbeatRequest(group_id="g"), version, response_of(HeartbeatRequest)
    )
    tags = b"\0" if version >= 4 else b""
    head = struct.pack(">hhih", 12, version, number, 2) + b"me" + tags
    assert frame == framed(head + encode(HeartbeatRequest(group_id="g"), version))
    answer = HeartbeatResponse(error_code=27)
    body = struct.pack(">i", number) + tags + encode(answer, version)
    assert link.answer(memoryview(body)) == (number, answer)


def test_the_answer_to_api_versions_never_has_tags_in_its_header() -> None:
    link = Link("me")
    number, _ = link.request(api_of(ApiVersionsRequest), api_versions_request(), 3, ApiVersionsResponse)
    answer = ApiVersionsResponse(api_keys=[ApiVersion(api_key=18, max_version=3)])
    assert link.answer(memoryview(struct.pack(">i", number) + encode(answer, 3))) == (number, answer)


def test_a_broker_that_knows_no_such_version_answers_in_the_oldest_form() -> None:
    link = Link("me")
    number, _ = link.request(api_of(ApiVersionsRequest), api_versions_request(), 4, ApiVersionsResponse)
    answer = ApiVersionsResponse(error_code=35, api_keys=[ApiVersion(api_key=18, max_version=2)])
    assert link.answer(memoryview(struct.pack(">i", number) + encode(answer, 0))) == (number, answer)


def test_an_answer_out_of_turn_is_a_violation() -> None:
    link = Link("me")
    with pytest.raises(ProtocolViolation, match="no request"):
        link.answer(memoryview(bytes(8)))
    link.request(api_of(HeartbeatRequest), HeartbeatRequest(), 0, HeartbeatResponse)
    with pytest.raises(ProtocolViolation, match="request 77"):
        link.answer(memoryview(struct.pack(">ih", 77, 0)))


@settings(max_examples=200, deadline=None)
@given(body=st.binary(max_size=60), version=st.sampled_from([0, 1, 4]))
def test_garbage_is_a_violation_and_nothing_else(body: bytes, version: int) -> None:
    link = Link("me")
    number, _ = link.request(api_of(HeartbeatRequest), HeartbeatRequest(), version, HeartbeatResponse)
    try:
        link.answer(memoryview(struct.pack(">i", number) + body))
    except ProtocolViolation:
        return
    assert len(body) >= 2


def test_a_field_that_the_version_cannot_carry_is_the_callers_mistake() -> None:
    with pytest.raises(ValueError, match="Heartbeat request does not fit version 0"):
        Link("me").request(api_of(HeartbeatRequest), HeartbeatRequest(group_id="x" * 40_000), 0, HeartbeatResponse)
