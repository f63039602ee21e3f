"""The loader's standing in a commit: a standing as text for people, and as it is kept in a table."""

from __future__ import annotations

import json
from collections.abc import Mapping

from ottla.kernel.ids import NO_TOPIC_ID, TopicId, parse_topic_id, topic_id_text
from ottla.lake.tables.base import LoaderStanding, TableRound
from ottla.stores.base import LakeRefused


def standing_after(done: TableRound) -> LoaderStanding:
    return LoaderStanding(done.loader, done.number, dict(done.offsets), dict(done.rows), done.topic_id)


def standing_to_json(standing: LoaderStanding) -> dict[str, object]:
    """A standing as JSON; a missing topic id is an empty text."""
    return {
        "loader": standing.loader,
        "round": standing.number,
        "topic_id": "" if standing.topic_id == NO_TOPIC_ID else topic_id_text(standing.topic_id),
        "offsets": {str(partition): offset for partition, offset in sorted(standing.offsets.items())},
        "rows": {str(partition): rows for partition, rows in sorted(standing.rows.items())},
    }


def standing_text(standing: LoaderStanding) -> str:
    return json.dumps(standing_to_json(standing), separators=(",", ":"))


def standing_from_text(text: str) -> LoaderStanding:
    """The standing behind `standing_text`."""
    stored: Mapping[str, object] = json.loads(text)
    offsets, rows, topic_id = stored["offsets"], stored["rows"], str(stored["topic_id"])
    assert isinstance(offsets, dict) and isinstance(rows, dict)
    return LoaderStanding(
        loader=str(stored["loader"]),
        number=int(str(stored["round"])),
        offsets={int(partition): int(offset) for partition, offset in offsets.items()},
        rows={int(partition): int(count) for partition, count in rows.items()},
        topic_id=parse_topic_id(topic_id) if topic_id else TopicId(NO_TOPIC_ID),
    )


def refuse_another_topic(standing: LoaderStanding | None, done: TableRound) -> None:
    """LakeRefused where a keyed table holds rows of an earlier topic of the same name, with offsets of its own."""
    ids = {NO_TOPIC_ID if standing is None else standing.topic_id, done.topic_id} - {NO_TOPIC_ID}
    if len(ids) > 1:
        raise LakeRefused(
            f"the topic {done.topic} was created anew: offsets of the keyed table belong to the earlier one. "
            "Load the new topic into another lake"
        )
