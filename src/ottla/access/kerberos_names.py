"""Names of users from Kerberos principals, by Kafka's `sasl.kerberos.principal.to.local.rules`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import re2

from ottla.access.names import WrongRules

_PRINCIPAL = re.compile(r"([^/@]+)(?:/([^/@]+))?@([^/@]+)")
_RULE = re.compile(r"RULE:\[(\d*):([^\]]*)\](?:\(([^)]*)\))?(?:s/([^/]*)/([^/]*)/(g)?)?/?([LU])?")
_Step = Callable[[Sequence[str]], str | None]


def short_names(rules: Sequence[str], own_realm: str) -> Callable[[str], str | None]:
    """The function from a principal to a user's name, by the first rule that fits; None where none does.

    WrongRules if a text is no rule. A name that still holds / or @ is nobody's, as in Kafka.
    """
    steps = [_step(rule.strip(), own_realm) for rule in rules]

    def user(principal: str) -> str | None:
        match = _PRINCIPAL.fullmatch(principal)
        if match is None:
            return None
        service, host, realm = match.groups()
        parts = [realm, service, *([host] if host else [])]
        found = next((found for step in steps if (found := step(parts)) is not None), None)
        return None if found is None or re.search("[/@]", found) else found

    return user


def _step(rule: str, own_realm: str) -> _Step:
    if rule == "DEFAULT":
        return lambda parts: parts[1] if parts[0] == own_realm else None
    match = _RULE.fullmatch(rule)
    if match is None:
        raise WrongRules(
            f"{rule!r} is neither DEFAULT nor RULE:[n:format](expression)s/pattern/replacement/g and L or U"
        )
    count, form, expression, pattern, replacement, everywhere, case = match.groups()
    if any(int(number) > int(count or 0) for number in re.findall(r"\$(\d+)", form)):
        raise WrongRules(f"{rule!r} names a component that its principals do not have")
    try:
        fits = None if expression is None else re2.compile(expression)
        replaced = None if pattern is None else re2.compile(pattern)
    except re2.error as fault:
        raise WrongRules(f"{rule!r}: {fault}") from None
    if replaced is not None and any(int(number) > replaced.groups for number in re.findall(r"\$(\d)", replacement)):
        raise WrongRules(f"{rule!r} names a group that its pattern does not have")
    new = re.sub(r"\$(\d)", r"\\\1", (replacement or "").replace("\\", "\\\\"))

    def step(parts: Sequence[str]) -> str | None:
        if len(parts) - 1 != int(count or 0):
            return None
        name = re.sub(r"\$(\d+)", lambda found: parts[int(found[1])], form)
        if fits is not None and fits.fullmatch(name) is None:
            return None
        if replaced is not None:
            name = replaced.sub(new, name, 0 if everywhere else 1)
        return {"L": name.lower(), "U": name.upper()}.get(case, name)

    return step
