"""Settings of a consumer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ottla.client.consume.assignors import ASSIGNORS, COOPERATIVE_STICKY, RANGE, Assignor
from ottla.client.model import ClientSettings, Isolation, IsolationLevel
from ottla.client.settings import (
    ChoiceText,
    FineMilliseconds,
    Flag,
    Milliseconds,
    Named,
    Number,
    OptionalText,
    Setting,
    Settings,
    Size,
    completed,
    field_names,
    refused,
    require_kind,
    require_known,
)

NO_RESET = "none"
_RESETS = ("earliest", "latest", NO_RESET)
_ARGUMENTS = ("bootstrap", "consumer", "settings")
_ASSIGNOR = Named(RANGE, ASSIGNORS, lambda given: isinstance(given, Assignor), "an Assignor")


class Assignors(Setting[tuple[Assignor, ...], Sequence[Assignor | str] | str]):
    """Assignors of a group, the preferred one first, each given as such or by its name."""

    def read(self, name: str, given: Any) -> tuple[Assignor, ...]:
        if not given or not isinstance(given, str | list | tuple):
            allowed = f"a sequence of assignors, of {', '.join(map(repr, ASSIGNORS))}"
            raise refused(name, given, allowed, wrong_type=bool(given))
        each = [given] if isinstance(given, str) else given
        return tuple(_ASSIGNOR.read(name, one) for one in each)


@dataclass(frozen=True, slots=True)
class FetchSettings(Settings):
    """Settings of a consumer's fetches; names and defaults follow Kafka's consumer options.

    ValueError or TypeError names a setting that is wrong.
    """

    min_bytes: Size = Size(1)
    """A broker answers once it has so many bytes."""
    max_wait_ms: Milliseconds = Milliseconds(500)
    """A broker answers after so long with what it has."""
    max_bytes: Size = Size(50 * 1024 * 1024)
    """The size of an answer. It always has one whole batch, if that is larger too."""
    max_partition_bytes: Size = Size(1024 * 1024)
    """The size of one partition's part of an answer."""
    isolation_level: Isolation = Isolation(IsolationLevel.READ_UNCOMMITTED)
    """With "read_committed" aborted records are left out, and nothing is read beyond the first open transaction."""
    check_crcs: Flag = Flag(True)
    """Raise CORRUPT_MESSAGE for a batch that fails its CRC."""


@dataclass(frozen=True, slots=True)
class ConsumerSettings(Settings):
    """Settings of a consumer; names and defaults follow Kafka's consumer options.

    Times are milliseconds, or text such as "5s", or a timedelta. ValueError or TypeError names a setting that is wrong.
    """

    group_id: OptionalText = OptionalText(None)
    """None: no group; partitions are assigned by hand and nothing is committed."""
    instance_id: OptionalText = OptionalText(None)
    """Makes a static member: it keeps its partitions through a restart that is shorter than the session timeout."""
    assignors: Assignors = Assignors((RANGE, COOPERATIVE_STICKY))
    """The group chooses one that all members offer. If all here are cooperative, partitions are kept while joining."""
    session_timeout_ms: Milliseconds = Milliseconds(45_000)
    """The group goes on without a member whose heartbeats were missing for so long."""
    heartbeat_interval_ms: Milliseconds = Milliseconds(3_000, least=1)
    """The time between two heartbeats; less than `session_timeout_ms`."""
    max_poll_interval_ms: Milliseconds = Milliseconds(300_000, least=1)
    """A member leaves the group when `poll` was not called for so long; the group waits as long for members to join."""
    max_poll_records: Number = Number(500, least=1)
    """The most records of one `poll`."""
    enable_auto_commit: Flag = Flag(True)
    """Commit the positions in `poll`, before joining again, and in `close`."""
    auto_commit_interval_ms: FineMilliseconds = FineMilliseconds(5_000)
    """The time between two automatic commits."""
    auto_offset_reset: ChoiceText[str] = ChoiceText("latest", {word: word for word in _RESETS})
    """earliest, latest, or none: raise where there is no committed offset."""
    allow_auto_create_topics: Flag = Flag(False)
    """Ask the broker to make subscribed topics that do not exist. Kafka's own consumers do; here you say so."""
    exclude_internal_topics: Flag = Flag(True)
    """A pattern does not match topics such as `__consumer_offsets`."""
    fetch: FetchSettings = field(default_factory=FetchSettings)

    def __post_init__(self) -> None:
        Settings.__post_init__(self)
        require_kind("fetch", self.fetch, FetchSettings)
        if self.group_id is not None and self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ValueError(
                f"heartbeat_interval_ms is less than session_timeout_ms, {self.session_timeout_ms}, "
                f"not {self.heartbeat_interval_ms}: a member would be taken for gone between two heartbeats"
            )


def settings_from(
    consumer: ConsumerSettings | None, settings: ClientSettings | None, options: Mapping[str, object]
) -> tuple[ConsumerSettings, ClientSettings]:
    """The settings of a consumer, with its fetches, and of its connections, completed by single ones.

    TypeError for those that there are not.
    """
    require_kind("consumer", consumer, ConsumerSettings)
    require_kind("settings", settings, ClientSettings)
    kinds = (ConsumerSettings, FetchSettings, ClientSettings)
    require_known("Consumer", options, [*_ARGUMENTS, *(name for kind in kinds for name in field_names(kind))])
    chosen = completed(consumer or ConsumerSettings(), options)
    fetch = completed(chosen.fetch, options)
    if fetch is not chosen.fetch:
        chosen = replace(chosen, fetch=fetch)
    return chosen, completed(settings or ClientSettings(), options)
