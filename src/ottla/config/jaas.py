"""`sasl.jaas.config`: one line of Java's login configuration, as Kafka's files hold it."""

from __future__ import annotations

import re
from typing import NamedTuple

_TOKEN = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^\s"=;]+)|(=)|(;))')
_FLAGS = ("required", "requisite", "sufficient", "optional")


class Jaas(NamedTuple):
    """A login module and its options."""

    module: str
    """The last part of the class name: `PlainLoginModule`."""
    options: dict[str, str]


class WrongJaas(ValueError):
    """A text that is no login configuration. Its words are not repeated: it holds passwords."""


def parse_jaas(text: str) -> Jaas:
    """Read `CLASS required key="value" ...;`; WrongJaas says what is wrong, without the values."""
    tokens = _tokens(text)
    if len(tokens) < 3 or tokens[-1] != (";", False):
        raise WrongJaas('it must be CLASS required key="value" ...; with a semicolon at its end')
    (module, _), (flag, _) = tokens[:2]
    if flag not in _FLAGS:
        raise WrongJaas(f"after the class comes one of {', '.join(_FLAGS)}")
    options: dict[str, str] = {}
    rest = tokens[2:-1]
    if len(rest) % 3:
        raise WrongJaas("its options must be key=value, separated by blanks")
    for at in range(0, len(rest), 3):
        (key, _), equals, (value, _) = rest[at : at + 3]
        if equals != ("=", False):
            raise WrongJaas(f"after option {at // 3 + 1} there is no =")
        if key in options:
            raise WrongJaas(f"{key} is given twice")
        options[key] = value
    return Jaas(module.rpartition(".")[2], options)


def _tokens(text: str) -> list[tuple[str, bool]]:
    """Words, `=` and `;`, each with whether it was quoted."""
    found, at = [], 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            raise WrongJaas("a quote is not closed")
        quoted, word, equals, end = match.groups()
        found.append((re.sub(r"\\(.)", r"\1", quoted), True) if quoted is not None else (word or equals or end, False))
        at = match.end()
    return found
