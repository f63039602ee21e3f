"""`ottla mirror check`: what a property file would do, asked of the clusters that it names. Changes nothing."""

from __future__ import annotations

from ottla.client.aio.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.kernel.errors import ApiError
from ottla.mirror.notes import MirrorNotes
from ottla.mirror.options import OPTIONS, FlowSettings, Mirrors
from ottla.mirror.topics import MirroredTopics, chosen

_FACTORS = [option.name for option in OPTIONS if option.name.endswith("replication.factor")]


async def check(mirrors: Mirrors) -> tuple[list[str], int]:
    """Lines about all flows, and how many of them tell of something wrong."""
    lines: list[str] = []
    wrong = 0
    for flow in mirrors.flows:
        try:
            found, faults = await _check_flow(flow)
        except (ApiError, ClientError, ValueError) as fault:
            found, faults = [fault.message if isinstance(fault, ApiError) else str(fault)], 1
        lines += [f"{flow.name}: {each.removeprefix(f'{flow.name}: ')}" for each in found]
        wrong += faults
    return lines, wrong


async def _check_flow(flow: FlowSettings) -> tuple[list[str], int]:
    async with (
        Cluster(flow.source.bootstrap, settings=flow.source.client) as source,
        Cluster(flow.target.bootstrap, settings=flow.target.client) as target,
    ):
        topics = MirroredTopics(flow, source, target, MirrorNotes(target, ""))
        await topics.meet()
        lines: list[str] = []
        wrong = 0
        brokers = len(await target.brokers())
        for name in _FACTORS:
            if flow.options[name] > brokers:
                lines.append(f"{name} is {flow.options[name]}, and {flow.target.alias} has {brokers} brokers")
                wrong += 1
        there, here = await source.topics(), await target.topics()
        looping = await topics.looping(chosen(flow, there))
        for name in chosen(flow, there):
            remote = flow.policy.remote_topic(flow.source.alias, name)
            if name in looping:
                lines.append(f"{name} would go round: its records come from {flow.target.alias}")
                wrong += 1
            else:
                state = "is there" if remote in here else "will be made"
                lines.append(f"{name} ({len(there[name].partitions)} partitions) to {remote}, which {state}")
        return lines, wrong
