"""Topologies drawn."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from tests.streams.topologies import TOPOLOGIES, built

from ottla.streams.picture import svg

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_every_topic_and_store_is_drawn_once_a_sub_topology_and_no_two_boxes_overlap(name: str) -> None:
    topology = built(name)
    root = ElementTree.fromstring(svg(topology))
    boxes = [
        tuple(float(box.attrib[at]) for at in ("x", "y", "width", "height"))
        for box in root.iter(f"{SVG}rect")
        if box.attrib["class"] in ("node", "topic", "own", "store")
    ]
    for at, (x, y, width, height) in enumerate(boxes):
        for other_x, other_y, other_width, other_height in boxes[at + 1 :]:
            apart = x + width <= other_x or other_x + other_width <= x
            assert apart or y + height <= other_y or other_y + other_height <= y
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert {*topology.topics(), *topology.patterns()} <= set(texts)
    assert len(boxes) + len(topology.sub_topologies) == len(texts)
    assert len(boxes) >= len(topology.nodes) + len(topology.stores)
