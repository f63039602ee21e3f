"""The ACLs that a pipeline's file declares: a user, operations, and one kind of resource with its names. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.config.option import nearest
from ottla.kernel.acls import OPERATIONS_OF, WILDCARD, Acl, Operation, PatternType, Permission, ResourceKind
from ottla.pipeline.parts import PipelinePart

KINDS = {
    "topics": ResourceKind.TOPIC,
    "groups": ResourceKind.GROUP,
    "transactional_ids": ResourceKind.TRANSACTIONAL_ID,
}
_ON_IDS = (Operation.WRITE, Operation.DESCRIBE, Operation.TWO_PHASE_COMMIT)


def acls_of(part: PipelinePart) -> list[Acl]:
    """The rules of a part; ValueError says what is wrong. A name that ends with `*` is the beginning of names."""
    named = [kind for kind in KINDS if part.values.get(kind)]
    if len(named) != 1:
        raise ValueError(f"acls: {part.name} names one of {', '.join(KINDS)}")
    resource = KINDS[named[0]]
    user = str(part.values["user"])
    principal = user if user.startswith("User:") else f"User:{user}"
    host = str(part.values.get("host") or WILDCARD)
    operations = list(_operations(str(part.values["may"]), resource))
    return [
        Acl(resource, *_pattern(name), principal, host, operation, Permission.ALLOW)
        for name in _words(str(part.values[named[0]]))
        for operation in operations
    ]


def _operations(text: str, resource: ResourceKind) -> Iterator[Operation]:
    possible = {each.name.lower(): each for each in (Operation.ALL, *OPERATIONS_OF.get(resource, _ON_IDS))}
    for word in _words(text):
        name = word.lower().replace("-", "_")
        if name not in possible:
            kind = resource.name.lower().replace("_", " ")
            raise ValueError(f"there is no operation {word} on a {kind}{nearest(name, possible)}")
        yield possible[name]


def _pattern(name: str) -> tuple[str, PatternType]:
    if name != WILDCARD and name.endswith(WILDCARD):
        return name[:-1], PatternType.PREFIXED
    return name, PatternType.LITERAL


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
