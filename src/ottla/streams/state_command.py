"""Verbs of `ottla streams` about an application's state: status, reset, stop, upgrade."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

from ottla.cli.command import connected, print_json, print_table, wants_json
from ottla.cli.connect import read_properties
from ottla.cli.group import offsets_at
from ottla.cli.options import Given
from ottla.streams.errors import TopologyError
from ottla.streams.named import application, found_topology, places
from ottla.streams.on_spark.job import application_note
from ottla.streams.on_spark.notes import Notes
from ottla.streams.on_spark.places import open_files
from ottla.streams.reset import Reset, carry_out, inactive, own_topics
from ottla.streams.status import ApplicationStatus, PartStatus, lag, state_status


def status(given: Given) -> int:
    """Show how far an application is."""
    application_id = application(given)
    _, state = places(given)
    found = state_status(application_id, state)
    if found is None and "checkpoint" in given:
        raise TopologyError(f"there is no state of an application in {state}")
    found = found or ApplicationStatus(application_id)
    with connected(given) as admin:
        found.lag = lag(admin, application_id)
    if not found.lag and not found.sub_topologies:
        raise TopologyError(f"the application {application_id} has neither state nor offsets: it has not run yet")
    if wants_json(given):
        print_json(found.to_json())
        return 0
    if found.sub_topologies:
        titles = ["SUB-TOPOLOGY", "TASKS", "BATCH", "RECORDS", "RESULTS", "STREAM TIME", "BYTES"]
        print_table(titles, [_part(part) for part in found.sub_topologies])
        print()
    for titles, counts in (
        (["STORE", "ROWS"], found.stores), (["NODE", "DROPPED"], found.dropped), (["TOPIC", "LAG"], found.lag),
    ):  # fmt: skip
        if counts:
            print_table(titles, list(counts.items()))
            print()
    return 0


def _part(part: PartStatus) -> list[object]:
    time = "-" if part.stream_time < 0 else datetime.fromtimestamp(part.stream_time / 1000, UTC).isoformat()
    batch = "-" if part.batch < 0 else part.batch
    return [part.number, part.tasks, batch, part.records, part.results, time, part.bytes]


def reset(given: Given) -> int:
    """Show what a reset would do, or do it."""
    application_id = application(given)
    checkpoint, state = places(given)
    there = Notes(open_files(state)).application() is not None
    if "checkpoint" in given and not there:
        raise TopologyError(f"there is no state of an application in {state}")
    with connected(given) as admin:
        inactive(admin, application_id)
        topics = own_topics(application_id, list(admin.list_topics()))
        wanted = given.all("input-topic") or sorted({each.topic for each in admin.committed_offsets(application_id)})
        partitions = [each for topic in wanted if topic not in topics for each in admin.cluster.partitions(topic)]
        offsets = offsets_at(admin, partitions, given.text("to") or "earliest")
        planned = Reset(application_id, topics, offsets, *((state, checkpoint) if there else (None, None)))
        rows: list[list[object]] = [["delete", f"topic {topic}"] for topic in topics]
        rows += [["delete", f"state in {state}"], ["delete", f"checkpoint in {checkpoint}"]] if there else []
        rows += [[f"begin at {offset}", str(place)] for place, offset in sorted(offsets.items())]
        if not rows:
            raise TopologyError(f"the application {application_id} has nothing to reset: name its --input-topic")
        if "execute" in given:
            carry_out(admin, planned)
    print_table(["STEP", "WHAT"], rows)
    if "execute" not in given:
        sys.stderr.write("nothing was changed: add --execute to do it\n")
    return 0


def stop(given: Given) -> int:
    """Ask an application on Spark to end."""
    _, state = places(given)
    notes = Notes(open_files(state))
    if notes.application() is None:
        raise TopologyError(f"there is no state of an application in {state}; send SIGTERM to a run without Spark")
    notes.wish_to_stop()
    print(f"{application(given)} ends within seconds, if it is running")
    return 0


def upgrade(given: Given) -> int:
    """Compare a topology with the state of an application."""
    topology, application_id = found_topology(given.words[0]), application(given)
    _, state = places(given)
    older = Notes(open_files(state)).application()
    if older is None:
        raise TopologyError(f"there is no state of an application in {state}: name its --checkpoint")
    config = given.text("command-config")
    kafka = read_properties(config) if config else {}
    kafka["bootstrap.servers"] = given.text("bootstrap-server") or "localhost:9092"
    newer, _, _ = application_note(topology, application_id, kafka)
    found = older.changes(newer)
    for sentence in (*found.breaking, *found.harmless):
        print(sentence)
    if found.breaking:
        print("this change needs a new application id, or a reset", file=sys.stderr)
        return 1
    print("the state can be carried over: stop the old version and start the new one")
    return 0
