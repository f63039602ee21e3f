"""Applications of Streams, by the instances that were named: state, lag, rows of stores, and the topology's picture."""

from __future__ import annotations

import asyncio
from typing import Any

from ottla.console.desk import Desk
from ottla.console.links import LinkedServer, LinkRefused
from ottla.console.pictures import picture
from ottla.console.view import PageQuery, View
from ottla.web.exchange import HttpError, Response


async def streams(desk: Desk, query: PageQuery) -> View:
    """All instances; one that does not answer is named."""
    links = desk.setting.streams
    found = await asyncio.gather(*(link.ask("GET") for link in links), return_exceptions=True)
    rows, faults = [], []
    for number, (link, told) in enumerate(zip(links, found, strict=True)):
        if isinstance(told, BaseException) and not isinstance(told, LinkRefused):
            raise told
        try:
            rows.append({"instance": number, "url": link.url, **_status(told, link)})
        except LinkRefused as fault:
            faults.append(str(fault))
    values = {"instances": rows, "faults": faults, "given": [link.url for link in links]}
    return View("streams.html", "Streams", values)


async def stream(desk: Desk, query: PageQuery) -> View:
    """One instance."""
    number = query.count("instance", 0)
    link = _link(desk, number)
    found = _status(await link.ask("GET"), link)
    return View("stream.html", found["application"], {"instance": number, "url_of_instance": link.url, **found})


async def topology(desk: Desk, query: PageQuery) -> Response:
    """The picture of an instance's topology."""
    return picture(await _link(desk, query.count("instance", 0)).picture("topology"))


def _status(told: Any, link: LinkedServer) -> dict[str, Any]:
    """The status of an instance, with or without Spark, in the words of a page; LinkRefused where there is none."""
    if isinstance(told, LinkRefused):
        raise told
    if not isinstance(told, dict) or "application" not in told or "lag" not in told:
        raise LinkRefused(502, f"{link.url} is no instance of Streams: give the URL that --query-port serves")
    parts = told.get("sub_topologies")
    listed = [f"sub-topology {part['number']} after batch {part['batch']}" for part in parts or ()]
    return {
        "application": told["application"],
        "state": told.get("state") or "on Spark",
        "tasks": listed if parts is not None else told.get("tasks", []),
        "task_count": sum(part["tasks"] for part in parts) if parts is not None else len(told.get("tasks", ())),
        "lag": told["lag"],
        "stores": told.get("stores", {}),
        "left_out": {**told.get("dropped", {}), **told.get("failed", {})},
    }


def _link(desk: Desk, number: int) -> LinkedServer:
    if number >= len(desk.setting.streams):
        raise HttpError(404, "no such instance of Streams was given: start the console with --streams URL")
    return desk.setting.streams[number]
