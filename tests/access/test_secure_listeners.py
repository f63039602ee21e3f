"""Listeners with TLS and SASL, by clients that are not ours and by bytes that no client sends."""

from __future__ import annotations

import logging
import socket
import ssl
import struct
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka import KafkaProducer
from tests.access.secured import Secured

from ottla.server.tls_listener import HANDSHAKES_A_TURN

METADATA = (3, 1, struct.pack(">i", 0))
GOOD, WRONG = b"\0bob\0b", b"\0bob\0x"


@pytest.fixture(scope="module")
def secured(tmp_path_factory) -> Iterator[Secured]:
    one = Secured(tmp_path_factory.mktemp("secured"))
    with one.broker:
        admin = AdminClient(one.login("SASL_SSL", "PLAIN", "admin", "secret"))
        edits = [
            UserScramCredentialUpsertion("carol", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), b"pw"),
            UserScramCredentialUpsertion("dave", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192), b"pw"),
        ]
        for done in admin.alter_user_scram_credentials(edits).values():
            done.result(20)
        yield one


def produced(settings: dict[str, str], topic: str, records: int = 300, size: int = 2000) -> None:
    producer, errors = Producer({**settings, "linger.ms": "0"}), []
    for number in range(records):
        producer.produce(
            topic, str(number).encode().ljust(size, b"."), on_delivery=lambda error, _: errors.append(error)
        )
    assert producer.flush(30) == 0
    assert [error for error in errors if error is not None] == []


def consumed(settings: dict[str, str], topic: str, records: int = 300) -> list[int]:
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[int] = []
    while len(found) < records:
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        found.append(int(message.value().rstrip(b".")))
    consumer.close()
    return found


def refused(settings: dict[str, str]) -> bool:
    try:
        AdminClient(settings).list_topics(timeout=1)
    except KafkaException:
        return True
    return False


@pytest.mark.parametrize(
    ("listener", "mechanism", "user", "password"),
    [
        ("SASL_SSL", "PLAIN", "bob", "b"),
        ("SASL_SSL", "SCRAM-SHA-256", "carol", "pw"),
        ("SASL_PLAINTEXT", "SCRAM-SHA-512", "dave", "pw"),
    ],
)
def test_librdkafka_logs_in_produces_and_consumes(secured: Secured, listener, mechanism, user, password) -> None:
    settings = secured.login(listener, mechanism, user, password)
    topic = f"by-{mechanism.lower()}"
    produced(settings, topic)
    assert consumed(settings, topic) == list(range(300))


def test_a_client_with_a_certificate_is_served_and_one_without_is_not(secured: Secured) -> None:
    key = secured.authority.sign("alice").file(secured.directory, "alice.pem")
    settings = secured.client("SSL", ssl_certificate_location=key, ssl_key_location=key)
    produced(settings, "by-certificate", size=20_000)
    assert consumed(settings, "by-certificate") == list(range(300))
    assert refused(secured.client("SSL"))
    foreign = secured.stranger.sign("alice").file(secured.directory, "foreign.pem")
    assert refused(secured.client("SSL", ssl_certificate_location=foreign, ssl_key_location=foreign))
    expired = secured.authority.sign("alice", valid=False).file(secured.directory, "expired.pem")
    assert refused(secured.client("SSL", ssl_certificate_location=expired, ssl_key_location=expired))


def test_kafka_python_logs_in_over_tls(secured: Secured) -> None:
    host, port = secured.address("SASL_SSL")
    producer = KafkaProducer(
        bootstrap_servers=f"{host}:{port}",
        security_protocol="SASL_SSL",
        ssl_cafile=str(secured.trusted),
        sasl_mechanism="SCRAM-SHA-256",
        sasl_plain_username="carol",
        sasl_plain_password="pw",
    )
    assert producer.send("by-kafka-python", b"x").get(30).offset == 0
    producer.close()


@pytest.mark.parametrize(
    ("mechanism", "user", "password"),
    [
        ("PLAIN", "bob", "x"),
        ("PLAIN", "carol", "pw"),
        ("SCRAM-SHA-256", "carol", "x"),
        ("SCRAM-SHA-512", "carol", "pw"),
        ("SCRAM-SHA-256", "nobody", "pw"),
    ],
)
def test_who_has_no_such_password_is_not_served(secured: Secured, mechanism, user, password) -> None:
    assert refused(secured.login("SASL_SSL", mechanism, user, password))


def test_a_user_who_is_removed_cannot_log_in_again(secured: Secured) -> None:
    admin = AdminClient(secured.login("SASL_SSL", "PLAIN", "admin", "secret"))
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    admin.alter_user_scram_credentials([UserScramCredentialUpsertion("erin", info, b"pw")])["erin"].result(20)
    assert not refused(secured.login("SASL_PLAINTEXT", "SCRAM-SHA-256", "erin", "pw"))
    removal = UserScramCredentialDeletion("erin", ScramMechanism.SCRAM_SHA_256)
    admin.alter_user_scram_credentials([removal])["erin"].result(20)
    assert refused(secured.login("SASL_PLAINTEXT", "SCRAM-SHA-256", "erin", "pw"))
    with pytest.raises(KafkaException, match="does not exist"):
        admin.describe_user_scram_credentials(["erin"])["erin"].result(20)


def test_plain_bytes_on_tls_and_tls_on_plain_bytes_end_the_connection(secured: Secured) -> None:
    for data in (b"\0\0\0\x10" + bytes(16), b"GET / HTTP/1.1\r\n\r\n", bytes(100)):
        with secured.connected("SASL_SSL") as raw:
            raw.socket.sendall(data)
            while raw.socket.recv(100):  # an alert may come before the end
                pass
    for listener in ("PLAINTEXT", "SASL_PLAINTEXT"):
        context = ssl.create_default_context(cafile=str(secured.trusted))
        with socket.create_connection(secured.address(listener), timeout=20) as sock, pytest.raises(OSError):
            context.wrap_socket(sock, server_hostname="localhost")


def test_more_handshakes_than_a_turn_takes_are_all_done(secured: Secured) -> None:
    def shake(sock: socket.socket) -> str | None:
        with context.wrap_socket(sock, server_hostname="localhost") as tls:
            return tls.version()

    context = ssl.create_default_context(cafile=str(secured.trusted))
    socks = [socket.create_connection(secured.address("SASL_SSL"), timeout=60) for _ in range(4 * HANDSHAKES_A_TURN)]
    with ThreadPoolExecutor(len(socks)) as pool:
        assert set(pool.map(shake, socks)) == {"TLSv1.3"}


def test_tls_1_1_is_refused(secured: Secured) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with pytest.warns(DeprecationWarning):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    with socket.create_connection(secured.address("SASL_SSL"), timeout=20) as sock, pytest.raises(OSError):
        context.wrap_socket(sock, server_hostname="localhost")


def test_nothing_is_served_before_the_login(secured: Secured) -> None:
    for key in (*range(17), *range(19, 36), *range(37, 80), 17_000, -1):
        with secured.connected() as raw:
            assert raw.ask(key, 0, bytes(64)) is None, f"API {key}"
    with secured.connected() as raw:
        assert raw.token(GOOD) is None, "a token without a handshake"


def test_api_versions_come_once_before_the_login_and_announce_it(secured: Secured) -> None:
    with secured.connected() as raw:
        answer = raw.ask(18, 0, b"")
        assert answer is not None
        keys = [struct.unpack_from(">h", answer, at)[0] for at in range(6, len(answer), 6)]
        assert 17 in keys
        assert 36 in keys
        assert raw.ask(18, 0, b"") is None


@pytest.mark.parametrize("version", [0, 1])
def test_a_login_by_hand_serves_what_comes_behind_it_in_the_same_packet(secured: Secured, version: int) -> None:
    with secured.connected() as raw:
        assert raw.handshake("PLAIN", version)[0] == 0
        token = GOOD if version == 0 else struct.pack(">hhih", 36, 0, 7, -1) + struct.pack(">i", len(GOOD)) + GOOD
        frames = [token, struct.pack(">hhih", *METADATA[:2], 8, -1) + METADATA[2]]
        raw.socket.sendall(b"".join(struct.pack(">i", len(each)) + each for each in frames))
        first, second = raw.receive(), raw.receive()
        assert first == (b"" if version == 0 else struct.pack(">ihhi", 7, 0, -1, 0))
        assert second is not None
        assert struct.unpack(">i", second[:4]) == (8,)


@pytest.mark.parametrize("version", [0, 1])
def test_what_comes_behind_a_refused_login_is_never_served(secured: Secured, version: int) -> None:
    with secured.connected() as raw:
        raw.handshake("PLAIN", version)
        token = WRONG if version == 0 else struct.pack(">hhih", 36, 0, 7, -1) + struct.pack(">i", len(WRONG)) + WRONG
        frames = [token, struct.pack(">hhih", *METADATA[:2], 8, -1) + METADATA[2]]
        raw.socket.sendall(b"".join(struct.pack(">i", len(each)) + each for each in frames))
        if version == 1:
            answer = raw.receive()
            assert answer is not None
            assert struct.unpack(">ih", answer[:6]) == (7, 58)
        assert raw.is_closed()


def test_an_unknown_mechanism_is_told_those_there_are_and_closed(secured: Secured) -> None:
    with secured.connected() as raw:
        code, names = raw.handshake("GSSAPI")
        assert code == 33
        assert b"SCRAM-SHA-512" in names
        assert raw.is_closed()


def test_another_request_among_the_tokens_ends_the_connection(secured: Secured) -> None:
    with secured.connected() as raw:
        raw.handshake("PLAIN")
        assert raw.ask(*METADATA) is None
    with secured.connected() as raw:
        raw.handshake("PLAIN")
        assert raw.handshake("PLAIN")[0] == 34
        assert raw.is_closed()


def test_after_the_login_both_sasl_requests_are_out_of_order_and_the_connection_lives(secured: Secured) -> None:
    with secured.connected() as raw:
        raw.handshake("SCRAM-SHA-256")
        assert raw.token(b"n,,n=carol,r=abc") == 0
    with secured.connected() as raw:
        raw.handshake("PLAIN")
        assert raw.token(GOOD) == 0
        assert raw.token(GOOD) == 34
        assert raw.handshake("PLAIN")[0] == 34, "the session was begun less than a second ago"
        assert raw.ask(*METADATA) is not None


def lines_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    assert not [record for record in caplog.records if record.exc_info]
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("key", [17, 36])
@pytest.mark.parametrize("version", [-1, 9, 99, 32767])
def test_an_unserved_version_of_a_login_ends_the_connection_with_one_line(
    secured: Secured, caplog: pytest.LogCaptureFixture, key: int, version: int
) -> None:
    for is_in in (False, True):
        caplog.clear()
        with secured.connected() as raw:
            if is_in:
                raw.handshake("PLAIN")
                assert raw.token(GOOD) == 0
            assert raw.ask(key, version, bytes(20)) is None
        (line,) = lines_of(caplog)
        assert f"version {version} is not served" in line


def test_one_who_is_no_broker_of_the_cluster_is_closed_with_one_line(
    secured: Secured, caplog: pytest.LogCaptureFixture
) -> None:
    for first in (b"", b"\0" * 43, b"\0" * 45, b"\0\0\0\1" + b"\0" * 40):
        caplog.clear()
        with secured.connected() as raw:
            assert raw.handshake("OTTLA-PEER") is not None
            code = raw.token(first)
            if code == 0:
                code = raw.token(bytes(32))
            assert code == 58
            assert raw.is_closed()
        (line,) = lines_of(caplog)
        assert "is no broker of this cluster" in line


@pytest.mark.parametrize("size", [-1, -(2**31), 2**31 - 1, 524289])
def test_a_frame_that_no_login_needs_ends_the_connection(secured: Secured, size: int) -> None:
    with secured.connected() as raw:
        raw.socket.sendall(struct.pack(">i", size))
        assert raw.is_closed()


def test_a_frame_may_be_long_once_the_login_is_done(secured: Secured) -> None:
    with secured.connected() as raw:
        raw.handshake("PLAIN")
        assert raw.token(GOOD) == 0
        names = b"".join(struct.pack(">h", 200) + b"n" * 197 + b"%03d" % number for number in range(900))
        body = struct.pack(">i", 900 * 4) + names * 4
        assert len(body) > 524288
        assert raw.ask(3, 4, body + b"\0") is not None


def test_a_new_certificate_in_the_file_is_shown_to_the_next_connection(secured: Secured) -> None:
    def shown() -> bytes:
        context = ssl.create_default_context(cafile=str(secured.trusted))
        with (
            socket.create_connection(secured.address("SASL_SSL"), timeout=20) as sock,
            context.wrap_socket(sock, server_hostname="localhost") as tls,
        ):
            found = tls.getpeercert(binary_form=True)
            assert found is not None
            return found

    before = shown()
    secured.authority.sign("broker renewed").file(secured.directory, secured.keystore.name)
    deadline = time.monotonic() + 60
    while shown() == before:
        assert time.monotonic() < deadline
        time.sleep(0.05)
