"""The choice of what happens to a record that cannot be handled, and the record of such a fault. Pure."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum

from ottla.config.option import nearest
from ottla.streams.errors import TopologyError
from ottla.streams.values import Input


class Choice(StrEnum):
    """The run ends, or the record is left out at the node that failed, or it is left out and kept as a dead letter."""

    FAIL = "fail"
    SKIP = "skip"
    DEAD_LETTER = "dead-letter"


@dataclass(frozen=True, slots=True)
class OnError:
    """A choice for each stage, named as Kafka's exception handlers are."""

    deserialization: Choice = Choice.FAIL
    """A record that the serdes of its source cannot read."""
    processing: Choice = Choice.FAIL
    """A function or a processor of the user's that failed."""
    production: Choice = Choice.FAIL
    """A result that the serdes of its sink cannot write."""

    @property
    def uses_letters(self) -> bool:
        """True if any stage sends dead letters."""
        return Choice.DEAD_LETTER in (self.deserialization, self.processing, self.production)


STAGES = tuple(field.name for field in fields(OnError))


def chosen(text: str | OnError) -> OnError:
    """A choice for all stages (`skip`), or for some (`deserialization=skip,processing=dead-letter`); others fail."""
    if isinstance(text, OnError):
        return text
    if "=" not in text:
        return OnError(*[_choice(text, text)] * len(STAGES))
    chosen: dict[str, Choice] = {}
    for part in text.split(","):
        stage, equals, word = (each.strip() for each in part.partition("="))
        if stage not in STAGES:
            raise TopologyError(f"on_error={text}: no stage {stage!r}{nearest(stage, STAGES)}; {_HELP}")
        if stage in chosen:
            raise TopologyError(f"on_error={text}: {stage} is named twice")
        chosen[stage] = _choice(word if equals else "", text)
    return OnError(**chosen)


_WORDS = tuple(choice.value for choice in Choice)
_HELP = f"write one of {', '.join(_WORDS)}, or STAGE=CHOICE with a stage of {', '.join(STAGES)}"


def _choice(word: str, text: str) -> Choice:
    if word not in _WORDS:
        raise TopologyError(f"on_error={text}: no choice {word!r}{nearest(word, _WORDS)}; {_HELP}")
    return Choice(word)


@dataclass(frozen=True, slots=True)
class Fault:
    """A record that a node left out. A punctuation that failed has read no record, so it becomes no letter."""

    stage: str
    node: str
    reason: str
    """A sentence with the node and the record's place."""
    exception: str
    trace: str
    read: Input | None
    """The record that the task had read."""
    letter: bool
    """True if it is to be kept as a dead letter: once, however many nodes left it out."""
