"""Principals from certificates: the subject as Java prints it (RFC 2253), then `ssl.principal.mapping.rules`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import re2

ANONYMOUS = "User:ANONYMOUS"
Subject = Sequence[Sequence[tuple[str, str]]]
"""Relative names in the certificate's order, each of one or more (attribute, value); attributes by OpenSSL's names."""
_SHORT = {
    "commonName": "CN",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
_OTHERS = {
    "emailAddress": ("1.2.840.113549.1.9.1", 0x16),
    "serialNumber": ("2.5.4.5", 0x13),
    "surname": ("2.5.4.4", 0x0C),
    "givenName": ("2.5.4.42", 0x0C),
    "title": ("2.5.4.12", 0x0C),
    "initials": ("2.5.4.43", 0x0C),
    "dnQualifier": ("2.5.4.46", 0x13),
    "postalCode": ("2.5.4.17", 0x0C),
    "businessCategory": ("2.5.4.15", 0x0C),
    "pseudonym": ("2.5.4.65", 0x0C),
}
"""Attributes that Java prints as OID=#DER: the id, and the tag of the string in certificates that tools make today."""
_RULE = re.compile(r"RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)")


class UnknownName(ValueError):
    """A subject with an attribute that has no name here: no principal can be made of it."""


def distinguished_name(subject: Subject) -> str:
    """The subject as Java's X500Principal prints it: the last relative name first."""
    return ",".join("+".join(_attribute(*each) for each in relative) for relative in reversed(subject))


def _attribute(name: str, value: str) -> str:
    if (short := _SHORT.get(name)) is not None:
        return f"{short}={_escaped(value)}"
    if name not in _OTHERS:
        raise UnknownName(f"the certificate's subject has the attribute {name}, which no principal can hold")
    oid, tag = _OTHERS[name]
    data = value.encode()
    size = bytes([len(data)]) if len(data) < 128 else bytes([0x81, len(data)]) if len(data) < 256 else None
    if size is None:
        raise UnknownName(f"the certificate's subject has a {name} of {len(data)} bytes")
    return f"{oid}=#{(bytes([tag]) + size + data).hex()}"


def _escaped(value: str) -> str:
    escaped = re.sub(r'([,+"\\<>;#])', r"\\\1", value)
    if escaped.startswith(" "):
        escaped = "\\" + escaped
    if escaped.endswith(" ") and len(escaped) > 1 and not escaped.endswith("\\ "):
        escaped = escaped[:-1] + "\\ "
    return escaped


class WrongRules(ValueError):
    """A text that is no list of rules."""


def mapping(rules: str) -> Callable[[str], str | None]:
    """The function from a distinguished name to a user's name, by Kafka's rules; None where no rule fits.

    A rule counts for a name that its expression matches whole. WrongRules if the text holds something else.
    """
    steps = [_step(rule) for rule in _split(rules)]

    def user(name: str) -> str | None:
        return next((found for step in steps if (found := step(name)) is not None), None)

    return user


def _split(rules: str) -> list[str]:
    found, rest = [], rules.strip() or "DEFAULT"
    while rest:
        match = re.match(r"DEFAULT\s*(?:,|$)", rest) or re.match(rf"{_RULE.pattern}\s*(?:,|\s|$)", rest)
        if match is None:
            raise WrongRules(f"{rest!r} does not begin with DEFAULT or RULE:expression/replacement/ and L or U")
        found.append(match[0].rstrip().removesuffix(",").rstrip())
        rest = rest[match.end() :].lstrip()
    return found


def _step(rule: str) -> Callable[[str], str | None]:
    if rule == "DEFAULT":
        return lambda name: name
    match = _RULE.fullmatch(rule)
    if match is None:
        raise WrongRules(f"{rule!r} is no rule")
    pattern, replacement, case = match.groups()
    try:
        expression = re2.compile(pattern)
    except re2.error as fault:
        raise WrongRules(f"{rule!r}: {fault}") from None
    pieces = re.split(r"\$(\d)", replacement)
    if any(int(number) > expression.groups for number in pieces[1::2]):
        raise WrongRules(f"{rule!r} names a group that its expression does not have")

    def step(name: str) -> str | None:
        fits = expression.fullmatch(name)
        if fits is None:
            return None
        replaced = "".join(piece if not at % 2 else (fits[int(piece)] or "") for at, piece in enumerate(pieces))
        return {"L": replaced.lower(), "U": replaced.upper()}.get(case, replaced)

    return step
