"""Changes of topics: create, delete, configure, add partitions, delete records."""

from __future__ import annotations

import json
import shlex

from ottla.client.admin.admin import ConfigOperation, NewTopic, Resource, ResourceType
from ottla.client.model import EARLIEST, LATEST
from ottla.console.change import AskedChange, assignments, command, raise_faults
from ottla.console.desk import Desk
from ottla.console.messages import partitions_of
from ottla.console.urls import url
from ottla.console.view import PageQuery, wrong
from ottla.kernel.ids import TopicPartition


async def create(desk: Desk, form: PageQuery) -> AskedChange:
    """A new topic; the broker checks it before it is asked for."""
    name = form.need("topic").strip()
    configs = assignments(form.text("configs"))
    made = NewTopic(
        name,
        form.count("partitions", -1, least=1, most=100_000),
        form.count("replicas", -1, least=1, most=1_000),
        configs,
    )
    raise_faults(await desk.admin.create_topics([made], validate_only=True))
    words = ["topic", "create", name]
    words += ["-p", str(made.partitions)] if made.partitions > 0 else []
    words += ["-r", str(made.replication_factor)] if made.replication_factor > 0 else []
    words += [word for key, value in configs.items() for word in ("-c", f"{key}={value}")]

    async def carry_out() -> str:
        raise_faults(await desk.admin.create_topics([made]))
        return f"The topic {name} was created."

    return AskedChange(f"Create the topic {name}", command(desk, *words), carry_out, url("topic", name=name))


async def delete(desk: Desk, form: PageQuery) -> AskedChange:
    """A topic less, with all its records."""
    name = form.need("topic")
    count = len(await partitions_of(desk, name))
    internal = (await desk.topics())[name].is_internal

    async def carry_out() -> str:
        raise_faults(await desk.admin.delete_topics([name]))
        return f"The topic {name} was deleted."

    lines = [f"All records of its {count} partitions are lost."]
    words = ["topic", "delete", name, *(["--internal"] if internal else [])]
    if internal:
        lines.append("It is an internal topic: what keeps its state there loses it.")
    return AskedChange(f"Delete the topic {name}", command(desk, *words), carry_out, url("topics"), lines, is_loss=True)


async def configure(desk: Desk, form: PageQuery) -> AskedChange:
    """One configuration of a topic: set, or back to its default where the value is empty."""
    name, key, value = form.need("topic"), form.need("key").strip(), form.text("value")
    resource = Resource(ResourceType.TOPIC, name)
    operation = ConfigOperation.SET if value else ConfigOperation.DELETE
    change = {resource: [(key, operation, value or None)]}
    found = (await desk.admin.describe_configs([resource], keys=[key]))[resource]
    if isinstance(found, Exception):
        raise found
    before = next((each.value for each in found if each.name == key), None)
    raise_faults(await desk.admin.alter_configs(change, validate_only=True))
    words = ["config", "set", "topic", name, f"{key}={value}"] if value else ["config", "unset", "topic", name, key]

    async def carry_out() -> str:
        raise_faults(await desk.admin.alter_configs(change))
        return f"{key} of {name} is {value} now." if value else f"{key} of {name} has its default again."

    lines = [f"{key}: {before} → {value or 'the default'}"]
    return AskedChange(f"Configure {name}", command(desk, *words), carry_out, url("topic", name=name), lines)


async def add_partitions(desk: Desk, form: PageQuery) -> AskedChange:
    """More partitions. Keys go to other ones from then on."""
    name = form.need("topic")
    before, count = len(await partitions_of(desk, name)), form.count("partitions", 0, least=1, most=100_000)
    if count <= before:
        raise wrong(f"{name} has {before} partitions: give a greater number, as partitions are never taken away")
    raise_faults(await desk.admin.create_partitions({name: count}, validate_only=True))

    async def carry_out() -> str:
        raise_faults(await desk.admin.create_partitions({name: count}))
        return f"{name} has {count} partitions now."

    lines = [
        f"Partitions: {before} → {count}.",
        "New records of a key may go to another partition than the older ones: their order is lost.",
    ]
    words = ("topic", "alter", name, "-p", str(count))
    return AskedChange(
        f"Add partitions to {name}", command(desk, *words), carry_out, url("topic", name=name), lines, is_loss=True
    )


async def delete_records(desk: Desk, form: PageQuery) -> AskedChange:
    """All records of a partition below an offset, or of all partitions as they end now."""
    name = form.need("topic")
    partitions = [TopicPartition(name, index) for index in await partitions_of(desk, name)]
    first = await desk.admin.cluster.list_offsets(partitions, EARLIEST)
    last = await desk.admin.cluster.list_offsets(partitions, LATEST)
    before = {place: form.count(f"before-{place.partition}", last[place].offset) for place in partitions}

    async def carry_out() -> str:
        raise_faults(await desk.admin.delete_records(before))
        return f"The records of {name} below these offsets were deleted."

    rows = [
        (place.partition, first[place].offset, at, max(0, at - first[place].offset)) for place, at in before.items()
    ]
    settled = {f"before-{place.partition}": str(at) for place, at in before.items()}
    asked = [{"topic": name, "partition": place.partition, "offset": at} for place, at in before.items()]
    document = shlex.quote(json.dumps({"partitions": asked, "version": 1}))
    words = f"kafka-delete-records --bootstrap-server {desk.setting.bootstrap} --offset-json-file <(echo {document})"
    return AskedChange(
        f"Delete the records of {name}",
        f"ottla {words}",
        carry_out,
        url("topic", name=name),
        ["Records that are written meanwhile stay."],
        ("partition", "first", "delete below", "records"),
        rows,
        settled,
        is_loss=True,
    )
