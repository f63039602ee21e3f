"""`ottla token`: delegation tokens, by which others log in as a user for a while."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ottla.cli.command import Command, connected, noun, print_json, print_table, wants_json
from ottla.cli.faults import BadInput
from ottla.cli.options import Given, Option

if TYPE_CHECKING:
    from ottla.client.admin.tokens import Token
    from ottla.client.blocking.admin import Admin

_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


def command(arguments: Sequence[str]) -> int:
    return noun("token", VERBS, arguments)


def _create(given: Given) -> int:
    with connected(given) as admin:
        made = admin.create_token(
            given.text("owner"), tuple(dict.fromkeys(given.all("renewer"))), given.duration_ms("max-life")
        )
    if wants_json(given):
        print_json(_plain(made) | {"secret": made.secret})
        return 0
    sys.stderr.write(
        f"whoever has these lines is {made.owner} until {_time(made.expires_ms)}, and with renewals until "
        f"{_time(made.max_ms)}; put them into a file that only its users can read, below security.protocol\n"
    )
    sys.stdout.write(
        f"sasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config={_MODULE} required "
        f'username="{made.token_id}" password="{made.secret}" tokenauth="true";\n'
    )
    return 0


def _list(given: Given) -> int:
    with connected(given) as admin:
        tokens = admin.describe_tokens(given.all("owner") or None)
    if wants_json(given):
        print_json([_plain(each) for each in tokens])
    elif not tokens:
        sys.stderr.write("there is no delegation token that you may see; `ottla token create` makes one\n")
    else:
        rows = [
            [each.token_id, each.owner, ", ".join(each.renewers), _time(each.expires_ms), _time(each.max_ms)]
            for each in tokens
        ]
        print_table(["TOKEN", "OWNER", "RENEWERS", "EXPIRES", "AT LAST"], rows)
    return 0


def _renew(given: Given) -> int:
    with connected(given) as admin:
        token = _found(admin, given.words[0])
        expires_ms = admin.renew_token(token.hmac, given.duration_ms("for"))
    return _said(given, token, expires_ms, f"{token.token_id} of {token.owner} is good until {_time(expires_ms)}")


def _expire(given: Given) -> int:
    after_ms = given.duration_ms("in")
    with connected(given) as admin:
        token = _found(admin, given.words[0])
        expires_ms = admin.expire_token(token.hmac, after_ms)
    until = "at once" if after_ms is None else f"after {_time(expires_ms)}"
    text = f"nobody logs in by {token.token_id} of {token.owner} {until}; open connections go on until their end"
    return _said(given, token, expires_ms, text)


def _found(admin: Admin, token_id: str) -> Token:
    """The token of this id: its secret comes from the broker, and so is in no command line."""
    found = next((each for each in admin.describe_tokens() if each.token_id == token_id), None)
    if found is None:
        raise BadInput(f"there is no delegation token {token_id} that you may see; `ottla token list` shows them")
    return found


def _said(given: Given, token: Token, expires_ms: int, text: str) -> int:
    if wants_json(given):
        print_json({"token": token.token_id, "owner": token.owner, "expires_ms": expires_ms})
    else:
        sys.stdout.write(f"{text}\n")
    return 0


def _plain(token: Token) -> dict[str, object]:
    """A token without its secret."""
    return {
        "token": token.token_id,
        "owner": token.owner,
        "requester": token.requester,
        "renewers": list(token.renewers),
        "issued_ms": token.issued_ms,
        "expires_ms": token.expires_ms,
        "max_ms": token.max_ms,
    }


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(sep=" ", timespec="seconds")


VERBS = {
    "create": Command(
        "ottla token create [--owner USER] [--renewer USER]",
        "Make a token, and print the options by which a client logs in by it.",
        _create,
        [
            Option("owner", "The user as whom others log in; default: you. Another one takes CREATE_TOKENS.", "USER"),
            Option("renewer", "A user who may renew and expire it, beside you; may be repeated.", "USER"),
            Option(
                "max-life", "How long it can be renewed; default and most: the brokers'.", "TIME", "Duration"
            ),
        ],
    ),
    "renew": Command(
        "ottla token renew TOKEN [--for TIME]",
        "Let a token be good for a time from now on.",
        _renew,
        [Option("for", "The time, such as 12h; default: delegation.token.expiry.time.ms.", "TIME", "Duration")],
        words=(1, 1),
    ),
    "expire": Command(
        "ottla token expire TOKEN [--in TIME]",
        "Let nobody log in by a token any more.",
        _expire,
        [Option("in", "Not at once but after this time, such as 10m.", "TIME", "Duration")],
        words=(1, 1),
    ),
    "list": Command(
        "ottla token list [--owner USER]",
        "Show the tokens that you may see, without their secrets.",
        _list,
        [Option("owner", "Only tokens that this user owns or may renew; may be repeated.", "USER")],
    ),
}  # fmt: skip
