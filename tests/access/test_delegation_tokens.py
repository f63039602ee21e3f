"""Delegation tokens by a broker with an authorizer: made, shown, renewed, ended; our client and Java log in by them."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.access.limited import Limited
from tests.java_tools import java

from ottla.cli.main import main
from ottla.client import Admin
from ottla.client.admin.admin import Resource, ResourceType
from ottla.client.admin.tokens import Token
from ottla.client.errors import Refused
from ottla.client.security import security_of
from ottla.kernel.acls import Acl, Operation, PatternType, Permission, ResourceKind
from ottla.kernel.errors import ErrorCode
from ottla.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest

DAY_MS = 86_400_000
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
OPTIONS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "delegation.token.secret.key": "only brokers know this",
    "connection.failed.authentication.delay.ms": "1",
}


@pytest.fixture(scope="module")
def limited() -> Iterator[Limited]:
    one = Limited(["alice", "bob", "eve"], OPTIONS)
    with one.broker:
        yield one


def address(limited: Limited, listener: str = "SASL_PLAINTEXT") -> str:
    host, port = limited.broker._running().addresses[listener]
    return f"{host}:{port}"


def by_password(user: str) -> dict[str, str]:
    jaas = f'{PLAIN} required username="{user}" password="{user}";'
    return {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas}


def by_token(token_id: str, secret: str, mechanism: str = "SCRAM-SHA-256") -> dict[str, str]:
    jaas = f'{SCRAM} required username="{token_id}" password="{secret}" tokenauth="true";'
    return {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, "sasl.jaas.config": jaas}


@contextlib.contextmanager
def admin(limited: Limited, security: dict[str, str] | str) -> Iterator[Admin]:
    options = by_password(security) if isinstance(security, str) else security
    quick = {"bootstrap_timeout_ms": 5000, "api_timeout_ms": 10_000}
    with Admin(address(limited), security=options, **quick) as one:
        yield one


@contextlib.contextmanager
def refused(code: ErrorCode) -> Iterator[None]:
    with pytest.raises(Refused) as caught:
        yield
    assert caught.value.code == code


def grant(limited: Limited, user: str, operation: Operation, kind: ResourceKind, name: str) -> None:
    acl = Acl(kind, name, PatternType.LITERAL, f"User:{user}", "*", operation, Permission.ALLOW)
    with admin(limited, "root") as root:
        root.create_acls([acl])


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_token_lets_others_in_as_its_owner_but_not_to_further_tokens(limited: Limited, mechanism: str) -> None:
    topic = f"of-alice-{mechanism}"
    grant(limited, "alice", Operation.CREATE, ResourceKind.TOPIC, topic)
    with admin(limited, "alice") as alice:
        token = alice.create_token()
    assert token.expires_ms - token.issued_ms == DAY_MS
    assert token.max_ms - token.issued_ms == 7 * DAY_MS
    for _ in range(2):  # its keys are made at the first login only
        with admin(limited, by_token(token.token_id, token.secret, mechanism)) as shown:
            shown.cluster.topics()
    with admin(limited, by_token(token.token_id, token.secret, mechanism)) as shown:
        shown.create_topic(topic)
        for ask in (
            shown.create_token,
            shown.describe_tokens,
            lambda: shown.renew_token(token.hmac),
            lambda: shown.expire_token(token.hmac),
        ):
            with refused(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED):
                ask()


def test_a_wrong_secret_an_unknown_token_and_a_password_in_its_place_are_refused_alike(limited: Limited) -> None:
    with admin(limited, "alice") as alice:
        token = alice.create_token()
    wrong = [
        by_token(token.token_id, token.secret[:-4] + "AAA="),
        by_token("no-such-token", token.secret),
        {**by_token(token.token_id, token.secret), "sasl.jaas.config": f'{SCRAM} required username="{token.token_id}" '
         f'password="{token.secret}";'},
    ]  # fmt: skip
    said = set()
    for security in wrong:
        with admin(limited, security) as one, pytest.raises(Refused) as caught:
            one.cluster.topics()
        said.add(str(caught.value))
    assert len(said) == 1
    with admin(limited, "alice") as alice:
        alice.expire_token(token.hmac)
    gone = by_token(token.token_id, token.secret)
    with admin(limited, gone) as one, pytest.raises(Refused, match="refused the login"):
        one.cluster.topics()


def test_an_expired_token_lets_nobody_in_and_goes_with_the_next_new_one(limited: Limited) -> None:
    with admin(limited, "alice") as alice:
        token = alice.create_token(max_life_ms=1)
    assert token.expires_ms == token.max_ms == token.issued_ms + 1
    while time.time() * 1000 <= token.expires_ms + 1:
        time.sleep(0.001)
    with admin(limited, by_token(token.token_id, token.secret)) as shown, pytest.raises(Refused, match="has expired"):
        shown.cluster.topics()
    with admin(limited, "alice") as alice:
        with refused(ErrorCode.DELEGATION_TOKEN_EXPIRED):
            alice.renew_token(token.hmac)
        alice.create_token()
        assert token.token_id not in [each.token_id for each in alice.describe_tokens()]


def test_renewers_renew_and_expire_and_others_see_nothing(limited: Limited) -> None:
    with admin(limited, "alice") as alice:
        token = alice.create_token(renewers=["bob"])
    with admin(limited, "eve") as eve:
        assert eve.describe_tokens() == []
        for ask in (eve.renew_token, eve.expire_token):
            with refused(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH):
                ask(token.hmac)
            with refused(ErrorCode.DELEGATION_TOKEN_NOT_FOUND):
                ask(token.hmac[:-1])
    with admin(limited, "bob") as bob:
        assert [each.token_id for each in bob.describe_tokens()] == [token.token_id]
        assert token.expires_ms < bob.renew_token(token.hmac, 2 * DAY_MS) < token.max_ms
        assert bob.renew_token(token.hmac, 1 << 62) == token.max_ms
        assert bob.expire_token(token.hmac, 2 * DAY_MS) < token.max_ms
        bob.expire_token(token.hmac)
        assert bob.describe_tokens() == []


def test_a_right_lets_a_user_make_and_see_the_tokens_of_another(limited: Limited) -> None:
    with admin(limited, "eve") as eve, refused(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED):
        eve.create_token("bob")
    grant(limited, "eve", Operation.CREATE_TOKENS, ResourceKind.USER, "User:bob")
    with admin(limited, "eve") as eve:
        made = eve.create_token("bob")
        assert (made.owner, made.requester) == ("bob", "eve")
        assert eve.describe_tokens() == [made]
    with admin(limited, "bob") as bob:
        second: Token = bob.create_token()
    grant(limited, "eve", Operation.DESCRIBE, ResourceKind.DELEGATION_TOKEN, second.token_id)
    with admin(limited, "eve") as eve:
        assert {each.token_id for each in eve.describe_tokens()} == {made.token_id, second.token_id}
    limited.take("eve")
    grant(limited, "eve", Operation.DESCRIBE_TOKENS, ResourceKind.USER, "User:bob")
    with admin(limited, "eve") as eve:
        assert {each.token_id for each in eve.describe_tokens(["bob"])} == {made.token_id, second.token_id}
        assert eve.describe_tokens(["root"]) == eve.describe_tokens([]) == []
    limited.take("eve")


def test_nobody_without_a_name_gets_a_token_and_renewers_are_users(limited: Limited) -> None:
    with Admin(address(limited, "PLAINTEXT")) as anybody:
        for ask in (anybody.create_token, anybody.describe_tokens, lambda: anybody.renew_token(b"")):
            with refused(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED):
                ask()
    request = CreateDelegationTokenRequest(renewers=[CreatableRenewers(principal_type="Group", principal_name="g")])
    assert limited.ask("alice", 38, 3, request).error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
    assert limited.ask("root", 38, 1, CreateDelegationTokenRequest()).principal_name == "root"


def test_without_a_key_there_are_no_tokens(limited: Limited) -> None:
    keyless = Limited(["alice"])
    with keyless.broker, admin(keyless, "alice") as alice:
        for ask in (alice.create_token, alice.describe_tokens, lambda: alice.expire_token(b"x")):
            with refused(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED):
                ask()


def test_commands_make_list_renew_and_expire_without_a_secret_in_words(
    limited: Limited, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "alice.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in by_password("alice").items()))
    at = ["-b", address(limited), "--command-config", str(file)]

    def run(*words: str) -> str:
        assert main(["token", *words, *at]) == 0
        return capsys.readouterr().out

    shown = tmp_path / "token.properties"
    shown.write_text(f"security.protocol=SASL_PLAINTEXT\n{run('create', '--renewer', 'bob', '--max-life', '2h')}")
    assert main(["topic", "list", "-b", address(limited), "--command-config", str(shown)]) == 0
    capsys.readouterr()
    token_id = shown.read_text().partition('username="')[2].partition('"')[0]
    listed = next(each for each in json.loads(run("list", "--format", "json")) if each["token"] == token_id)
    assert (listed["owner"], listed["renewers"]) == ("alice", ["bob"])
    secret = shown.read_text().partition('password="')[2].partition('"')[0]
    assert secret not in run("list", "--format", "json") + run("list")
    assert f"{token_id} of alice is good until" in run("renew", token_id, "--for", "1h")
    assert "at once" in run("expire", token_id)
    assert main(["token", "expire", token_id, *at]) == 1
    assert "no delegation token" in capsys.readouterr().err


def test_a_token_is_for_scram_alone_and_its_secret_is_not_printed() -> None:
    plain: dict[str, Any] = by_password("t")
    with pytest.raises(ValueError, match="logs in by SCRAM"):
        security_of({**plain, "sasl.jaas.config": plain["sasl.jaas.config"].replace(";", ' tokenauth="true";')})
    security = security_of(by_token("t", "hunter2"))
    assert security.by_token
    assert "hunter2" not in repr(security)
    assert "hmac" not in repr(Token("t", b"hmac", "a", "a", (), 0, 0, 0))


@pytest.mark.kafka
def test_javas_client_makes_a_token_and_logs_in_by_it(limited: Limited, kafka_libs: Path, tmp_path: Path) -> None:
    own, shown = tmp_path / "own.properties", tmp_path / "shown.properties"
    own.write_text("".join(f"{name}={value}\n" for name, value in by_password("root").items()))
    at = ("--bootstrap-server", address(limited), "--command-config")
    said = java(
        kafka_libs, "DelegationTokenCommand", *at, str(own), "--create", "--max-life-time-period", "-1",
        "--renewer-principal", "User:alice",
    )  # fmt: skip
    with admin(limited, "alice") as alice:
        (token,) = (each for each in alice.describe_tokens() if each.owner == "root" and each.renewers == ("alice",))
    assert token.token_id in said
    assert token.secret in said
    security = by_token(token.token_id, token.secret, "SCRAM-SHA-512")
    shown.write_text("".join(f"{name}={value}\n" for name, value in security.items()))
    java(kafka_libs, "TopicCommand", *at, str(shown), "--create", "--topic", "by-java")
    with admin(limited, "root") as root:
        assert "by-java" in root.cluster.topics()


def test_the_key_is_shown_in_no_answer(limited: Limited) -> None:
    with admin(limited, "root") as root:
        assert "only brokers know this" not in repr(root.describe_configs([Resource(ResourceType.BROKER, "1")]))
