"""The rights that calls take, by the cluster's ACLs: a subject belongs to the topic that its name tells. Pure.

`routes.py` gives each call its rows. What has no topic, the registry's own configuration, takes rights on the cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.jobs.caller import HttpCaller, Right, cluster, filtered
from ottla.kernel.acls import Operation, ResourceKind
from ottla.registry import errors
from ottla.registry.calls import RegistryCall
from ottla.registry.errors import RegistryError
from ottla.registry.state import RegistryState
from ottla.registry.subjects import context_of, qualified, split

_SUFFIXES: Final = ("-key", "-value")


def topic_of(subject: str) -> str:
    """The topic whose rights count for a subject, in whichever context: its name without -key or -value."""
    name = split(subject)[1]
    for suffix in _SUFFIXES:
        if name.endswith(suffix):
            return name.removesuffix(suffix)
    return name


@dataclass(frozen=True, slots=True)
class StatedCall:
    """A call, and the state that its names are looked up in."""

    state: RegistryState
    call: RegistryCall


RegistryRight = Right[StatedCall]


def _subject(asked: StatedCall) -> Iterable[str]:
    """The topics of the subject in the path, and of the one that it is an alias of."""
    plain = asked.call.plain_subject()
    return dict.fromkeys((topic_of(plain), topic_of(asked.state.alias(plain))))


def _scope(asked: StatedCall) -> Iterable[str]:
    """The topic of the subject whose settings a call is about; none for those of a context or of the registry."""
    scope = asked.call.scope()
    return (topic_of(scope),) if scope is not None and split(scope)[1] else ()


def _wide_scope(asked: StatedCall) -> Iterable[str]:
    """The cluster, for settings of a context or of the registry."""
    return () if _scope(asked) else cluster(asked)


def _references(asked: StatedCall) -> Iterable[str]:
    """The topics of the subjects that the schema in the body refers to."""
    context = context_of(asked.call.plain_subject())
    return [topic_of(qualified(each.subject, context)) for each in asked.call.proposal().references]


_OF_SUBJECT: Final = "the topic of the subject"
_OF_SETTINGS: Final = "the topic of the subject, for its own settings"
_WIDE: Final = "`kafka-cluster`, for settings of a context or of the registry"
_TOPIC, _CLUSTER = ResourceKind.TOPIC, ResourceKind.CLUSTER
LISTED: Final[RegistryRight] = Right(
    Operation.DESCRIBE, _TOPIC, "the topic of each subject", filtered, told="what belongs to the subject is left out"
)
HELD: Final[RegistryRight] = Right(
    Operation.DESCRIBE, _TOPIC, "the topic of each subject that has the schema", filtered,
    told="the subject is left out; 404 if none is left",
)  # fmt: skip
READ: Final[RegistryRight] = Right(Operation.DESCRIBE, _TOPIC, _OF_SUBJECT, _subject, hides=True)
REGISTER: Final[RegistryRight] = Right(Operation.WRITE, _TOPIC, _OF_SUBJECT, _subject)
DELETE: Final[RegistryRight] = Right(Operation.DELETE, _TOPIC, _OF_SUBJECT, _subject, hides=True)
REFERENCES: Final[RegistryRight] = Right(
    Operation.DESCRIBE, _TOPIC, "the topics of the subjects that the schema refers to", _references,
    told="422, as if they were not there",
)  # fmt: skip
SETTINGS: Final[tuple[RegistryRight, ...]] = (
    Right(Operation.DESCRIBE_CONFIGS, _TOPIC, _OF_SETTINGS, _scope, hides=True),
    Right(Operation.DESCRIBE_CONFIGS, _CLUSTER, _WIDE, _wide_scope),
)
CHANGED_SETTINGS: Final[tuple[RegistryRight, ...]] = (
    Right(Operation.ALTER_CONFIGS, _TOPIC, _OF_SETTINGS, _scope),
    Right(Operation.ALTER_CONFIGS, _CLUSTER, _WIDE, _wide_scope),
)
WIDE_SETTINGS: Final[RegistryRight] = Right(Operation.DESCRIBE_CONFIGS, _CLUSTER, "`kafka-cluster`", cluster)
CHANGED_WIDE_SETTINGS: Final[RegistryRight] = Right(Operation.ALTER_CONFIGS, _CLUSTER, "`kafka-cluster`", cluster)
"""Changed modes take it too, those of single subjects: an imported id counts for all subjects of its context."""


def require(rights: Sequence[RegistryRight], caller: HttpCaller, state: RegistryState, call: RegistryCall) -> None:
    """Refuse a call for which the caller lacks a right: 40301, or as if there were no such subject."""
    asked = StatedCall(state, call)
    for right in rights:
        lacking = right.lacking(caller, asked)
        if lacking is None:
            continue
        if right is REFERENCES:
            raise _missing_reference(lacking, call)
        if right.is_hidden(caller, lacking):
            raise errors.subject_not_found(call.plain_subject())
        raise errors.not_authorized(caller.refusal(right.operation, right.resource, lacking))


def seen_by(caller: HttpCaller, state: RegistryState) -> RegistryState:
    """The state for reading, as a caller may see it."""
    if caller.rules is None:
        return state
    return state.only(lambda subject: caller.may(Operation.DESCRIBE, ResourceKind.TOPIC, topic_of(subject)))


def _missing_reference(topic: str, call: RegistryCall) -> RegistryError:
    """The refusal of a reference to a subject of this topic, as if there were no such subject."""
    context = context_of(call.plain_subject())
    hidden = next(each for each in call.proposal().references if topic_of(qualified(each.subject, context)) == topic)
    return errors.invalid_schema(errors.no_reference(hidden))
