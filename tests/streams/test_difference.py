"""Two versions of a topology: which changes keep the state, and which need a new application id."""

from __future__ import annotations

from collections.abc import Callable

from ottla.streams import TEXT, StreamsBuilder, TimeWindows, Topology, difference


def built(build: Callable[[StreamsBuilder], object]) -> Topology:
    builder = StreamsBuilder(value=TEXT)
    build(builder)
    return builder.build()


def counting(name: str | None, *, size_ms: int = 10) -> Topology:
    windows = TimeWindows(size_ms)
    return built(lambda b: b.stream("a").group_by_key().windowed_by(windows).count(store=name).to_stream().to("out"))


def test_the_same_topology_differs_in_nothing() -> None:
    found = difference(counting("kept"), counting("kept"))
    assert (found.breaking, found.harmless, found.needs_new_application_id) == ((), (), False)


def test_a_filter_before_a_named_store_is_harmless() -> None:
    plain = built(lambda b: b.stream("a").group_by_key().count(store="kept", name="counts"))
    filtered = built(lambda b: b.stream("a").filter(bool).group_by_key().count(store="kept", name="counts"))
    found = difference(plain, filtered)
    assert found.breaking == ()
    assert found.harmless == ("the node KSTREAM-FILTER-0000000001 is new",)


def test_a_filter_before_a_numbered_store_moves_its_number() -> None:
    plain = built(lambda b: b.stream("a").group_by_key().count())
    filtered = built(lambda b: b.stream("a").filter(bool).group_by_key().count())
    found = difference(plain, filtered)
    assert found.needs_new_application_id
    assert found.breaking[0] == (
        "the store KSTREAM-AGGREGATE-STATE-STORE-0000000001 is gone: its state would be lost; "
        "its name is a number that moved: name it by store= or name="
    )


def test_windows_of_another_size_do_not_fit_the_state() -> None:
    (sentence,) = difference(counting("kept"), counting("kept", size_ms=20)).breaking
    assert sentence == (
        "the store kept was a window store of text to int64, of 10 ms kept for 10 ms "
        "and is a window store of text to int64, of 20 ms kept for 20 ms"
    )


def test_a_store_that_lies_in_another_sub_topology_is_not_found_again() -> None:
    def kept(builder: StreamsBuilder) -> None:
        builder.stream("b", name="second").group_by_key().count(store="kept", name="counts")

    def behind_another(builder: StreamsBuilder) -> None:
        builder.stream("a", name="first").foreach(print, name="shown")
        kept(builder)

    found = difference(built(kept), built(behind_another))
    assert found.breaking == ("the store kept moved from sub-topology 0 to 1: its state would not be found",)
    assert "the topic a is read now" in found.harmless
