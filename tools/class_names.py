"""One name, one class: public classes of src that share a name with a class of another meaning.

Some rooms keep words that others use too. Structs have the names of Kafka's messages; the client's two faces show
one class twice; the simulator and a single connector have their own words.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

OWN_WORDS = ("messages/", "sim/", "connect/plugins/")
FACES = ("client/aio/", "client/blocking/")
ALLOWED = {
    "Call": "a request in the broker; in the client's faces the type of a method that one face awaits",
    "Changes": "the touched parts of the metadata, and the touched entries of a store of streams",
    "ConfigOperation": "Kafka's word for one enum, whose two copies neither floor may import from the other",
    "Field": "Kafka's word for a field of a message, and Connect's for a field of a struct",
    "Listener": "a listener of a registered broker, and the socket behind one",
    "Node": "Kafka's word for a broker, and Streams' for a step of a topology",
    "Option": "declared options of the broker, of a connector and of a command line: the rooms never meet",
    "Record": "users import one from the client and one from streams",
    "Table": "users import the one of streams; the other is a table of a lake",
    "Text": "a field's type in Kafka's messages, and a setting's in the client",
    "Type": "a type in Kafka's messages, of an option of a connector, and of a value of Connect",
}


def doubled(source: Path) -> Iterator[tuple[str, str]]:
    """Pairs of (module, fault): names that several classes below `source` have, and rows of ALLOWED without need."""
    places = places_of(source)
    several = {name: rooms for name, rooms in places.items() if len(rooms) > 1}
    for name, rooms in sorted(several.items()):
        if name not in ALLOWED:
            yield rooms[-1], f"class {name} is also in {', '.join(rooms[:-1])}: let each name say which {name} it is"
    for name in sorted(ALLOWED.keys() - several.keys()):
        yield "tools/class_names.py", f"{name} is in ALLOWED, and one class has the name"


def places_of(source: Path) -> dict[str, list[str]]:
    """The modules that have a public class, by the class's name; a class of both faces counts once."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted(source.rglob("*.py")):
        room = path.relative_to(source).as_posix()
        if room.startswith(OWN_WORDS):
            continue
        for name in public_classes(ast.parse(path.read_text(encoding="utf-8"), str(path)).body):
            if not (room.startswith(FACES) and any(other.startswith(FACES) for other in places[name])):
                places[name].append(room)
    return places


def public_classes(body: Iterable[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name
