"""Signatures of requests by HMAC-SHA256, in the forms that services use. Pure."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_VARIABLE: Final = re.compile(r"\$\{(\w*)\}")
_IN_HEADER: Final = frozenset({"hex", "base64", "timestamp"})
_IN_CONTENT: Final = frozenset({"body", "timestamp"})


@dataclass(frozen=True, slots=True)
class Form:
    """The places of a signature and a time, and the bytes that are signed."""

    header: str
    template: str
    """Parts with commas between, each with `${hex}`, `${base64}` or `${timestamp}`."""
    content: str = "${body}"
    timestamp_header: str = ""
    """The header of the time, where it is not in the template."""

    def __post_init__(self) -> None:
        found = _VARIABLE.findall(self.template)
        if strange := sorted(set(found) - _IN_HEADER):
            raise ValueError(f"the template has ${{{strange[0]}}}: there are ${{hex}}, ${{base64}} and ${{timestamp}}")
        if sum(found.count(each) for each in ("hex", "base64")) != 1:
            raise ValueError("the template has ${hex} or ${base64} once")
        if strange := sorted(set(_VARIABLE.findall(self.content)) - _IN_CONTENT):
            raise ValueError(f"the signed content has ${{{strange[0]}}}: there are ${{body}} and ${{timestamp}}")
        if _VARIABLE.findall(self.content).count("body") != 1:
            raise ValueError("the signed content has ${body} once")
        if self.signs_time and "timestamp" not in found and not self.timestamp_header:
            raise ValueError("the signed content has ${timestamp}: name its header, or put it into the template")

    @property
    def signs_time(self) -> bool:
        """True if an old request can be told from a new one."""
        return "${timestamp}" in self.content


FORMS: Final[Mapping[str, Form]] = {
    "github": Form("x-hub-signature-256", "sha256=${hex}"),
    "stripe": Form("stripe-signature", "t=${timestamp},v1=${hex}", "${timestamp}.${body}"),
    "slack": Form("x-slack-signature", "v0=${hex}", "v0:${timestamp}:${body}", "x-slack-request-timestamp"),
    "shopify": Form("x-shopify-hmac-sha256", "${base64}"),
}


def refusal(
    form: Form, secrets: Sequence[bytes], headers: Mapping[str, str], body: bytes, *, now_s: float, tolerance_s: float
) -> str | None:
    """The reason why a request is not to be trusted, None for one that is. Compares in constant time."""
    given = headers.get(form.header.lower())
    if given is None:
        return f"there is no header {form.header}"
    found = _parsed(form.template, given)
    signatures = [each for name in ("hex", "base64") for text in found.get(name, ()) if (each := _digest(name, text))]
    if not signatures:
        return f"the header {form.header} has no signature like {form.template}"
    time_text = headers.get(form.timestamp_header.lower()) if form.timestamp_header else None
    time_text = next(iter(found.get("timestamp", ())), time_text)
    if form.signs_time:
        if time_text is None or not (time_text.isascii() and time_text.isdigit()):
            return "there is no time in seconds beside the signature"
        if abs(now_s - int(time_text)) > tolerance_s:
            return "the signature is too old, or the clocks differ"
    before, _, behind = form.content.replace("${timestamp}", time_text or "").partition("${body}")
    signed = before.encode() + body + behind.encode()
    wanted = [hmac.new(secret, signed, hashlib.sha256).digest() for secret in secrets]
    matches = [hmac.compare_digest(each, signature) for each in wanted for signature in signatures]
    return None if any(matches) else "the signature is of another secret or another body"


def _parsed(template: str, given: str) -> dict[str, list[str]]:
    """The variables of a header's parts. A part may come more than once, as at a change of secrets."""
    found: dict[str, list[str]] = {}
    patterns = [_pattern(part) for part in template.split(",")]
    for part in given.split(","):
        for pattern in patterns:
            if match := pattern.fullmatch(part.strip()):
                for name, text in match.groupdict().items():
                    found.setdefault(name, []).append(text)
    return found


def _pattern(part: str) -> re.Pattern[str]:
    pieces = re.split(r"\$\{(\w*)\}", part.strip())
    return re.compile("".join(f"(?P<{piece}>.+)" if at % 2 else re.escape(piece) for at, piece in enumerate(pieces)))


def _digest(name: str, text: str) -> bytes | None:
    try:
        return bytes.fromhex(text) if name == "hex" else base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        return None
