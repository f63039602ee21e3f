"""Pipelines, by their files: the picture with live rates and lag, the state of each part, and its dead letters."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from ottla.client.model import EARLIEST, LATEST, OffsetAtTime
from ottla.console.desk import Desk
from ottla.console.pictures import picture
from ottla.console.view import PageQuery, View
from ottla.kernel.ids import TopicPartition
from ottla.web.exchange import HttpError, Response

if TYPE_CHECKING:
    from ottla.pipeline.drawing import LiveNotes
    from ottla.pipeline.reading import PipelineFile


async def pipelines(desk: Desk, query: PageQuery) -> View:
    """One of the pipelines, and the names of all."""
    from ottla.pipeline import drawing, live

    names = [each.pipeline.name for each in desk.setting.pipelines]
    number = query.count("number", 0)
    values: dict[str, Any] = {"pipelines": names, "number": number}
    if not names:
        return View("pipelines.html", "Pipelines", {**values, "parts_of_it": []})
    one = _chosen(desk, number)
    status, records, lags = await _looked(desk, one)
    notes = _notes(desk, records, lags, status)
    letters, states = live.letters_by_part(one.pipeline), dict(status.get("parts", {}))
    labels = [part.label for part in one.pipeline.parts if part.section != "topics"]
    values |= {
        "name": one.pipeline.name,
        "file": str(one.path),
        "is_old": one.is_old,
        "runs": bool(status),
        "other_cluster": status.get("bootstrap", desk.setting.bootstrap) != desk.setting.bootstrap,
        "bootstrap_of_run": status.get("bootstrap", ""),
        "parts_of_it": [
            {
                "label": label,
                "state": states.get(label, ""),
                "bad": label in notes.bad,
                "lag": lags.get(label),
                "letters": letters.get(label, ""),
                "dead": records.get(letters.get(label, "")),
            }
            for label in dict.fromkeys([*labels, *states])
        ],
        "text": drawing.text(one.pipeline, one.flows, notes),
        "at": int(time.time() * 1000),
    }
    return View("pipelines.html", one.pipeline.name, values)


async def graph(desk: Desk, query: PageQuery) -> Response:
    """The picture of a pipeline. `at` makes a browser ask for it again, and says nothing."""
    from ottla.pipeline import drawing

    one = _chosen(desk, query.count("number", 0))
    status, records, lags = await _looked(desk, one)
    return picture(drawing.svg(one.pipeline, one.flows, _notes(desk, records, lags, status)).encode())


def _chosen(desk: Desk, number: int) -> PipelineFile:
    if number >= len(desk.setting.pipelines):
        raise HttpError(404, "no such pipeline was given: start the console with --pipeline FILE")
    return desk.setting.pipelines[number]


def _notes(desk: Desk, records: dict[str, int], lags: dict[str, int], status: dict[str, Any]) -> LiveNotes:
    from ottla.pipeline import live

    return live.notes(records, desk.watch.samples.topic_rates, lags, status.get("parts", {}))


async def _looked(desk: Desk, one: PipelineFile) -> tuple[dict[str, Any], dict[str, int], dict[str, int]]:
    """The run's status, the records that each topic keeps, and the lag of each part in the last sample."""
    from ottla.pipeline import live
    from ottla.pipeline.reading import state_folder

    desk.watch.wanted()
    status = await asyncio.to_thread(live.run_status, state_folder(one.pipeline))
    views = await desk.topics()
    there = [views[topic] for topic in live.topics_of(one.pipeline, one.flows) if topic in views]
    places = [
        TopicPartition(view.name, at) for view in there for at, part in view.partitions.items() if part.leader >= 0
    ]
    first, last = await asyncio.gather(
        *(desk.admin.list_offsets(dict.fromkeys(places, at)) for at in (EARLIEST, LATEST))
    )
    records: dict[str, int] = {}
    for place in places:
        begin, end = first[place], last[place]
        if isinstance(begin, OffsetAtTime) and isinstance(end, OffsetAtTime):
            records[place.topic] = records.get(place.topic, 0) + max(0, end.offset - begin.offset)
    groups = live.groups_of(one.pipeline, one.flows)
    lags = {
        label: desk.watch.samples.lags[group] for label, group in groups.items() if group in desk.watch.samples.lags
    }
    return status, records, lags
