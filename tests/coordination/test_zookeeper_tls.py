"""TLS to a real ZooKeeper: both sides show certificates, and a server of another authority or name is left."""

from __future__ import annotations

import socket
import ssl
import subprocess
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from coordination_stores import RealKind
from tests.access.certificates import Authority, authority
from tests.conftest import NO_ZOOKEEPER
from tests.ports import free_port
from zookeeper_ensemble import java_command, zookeeper_jars

from ottla.config.option import ConfigError
from ottla.config.resolve import read_static
from ottla.config.zookeeper import zookeeper_tls
from ottla.coordination.zookeeper import ZookeeperCoordination, _Handler
from ottla.kernel.ids import BrokerId
from ottla.kernel.seams import Written
from ottla.tls.contexts import server_context
from ottla.tls.settings import tls_settings

PASSWORD = "secret"


class SecureZookeeper(RealKind):
    """One server that speaks TLS alone, and asks its clients for certificates of `ours`."""

    def __init__(self, libs: Path, folder: Path, ours: Authority) -> None:
        super().__init__()
        self.port = free_port()
        server, client = ours.sign("zookeeper"), ours.sign("broker")
        key, trust = server.store(folder, PASSWORD, "server.p12"), folder / "ours.pem"
        trust.write_text(ours.certificate_pem)
        lines = [
            "tickTime=500", f"dataDir={folder / 'data'}", f"secureClientPort={self.port}", "admin.enableServer=false",
            "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
            f"ssl.keyStore.location={key}", f"ssl.keyStore.password={PASSWORD}", "ssl.keyStore.type=PKCS12",
            f"ssl.trustStore.location={trust}", "ssl.trustStore.type=PEM", "ssl.hostnameVerification=false",
        ]  # fmt: skip
        (folder / "zoo.cfg").write_text("\n".join(lines) + "\n")
        self.texts = {
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.ssl.keystore.location": client.store(folder, PASSWORD, "client.p12"),
            "zookeeper.ssl.keystore.password": PASSWORD,
            "zookeeper.ssl.truststore.location": str(trust),
        }
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(java_command(libs, folder / "zoo.cfg"), stdout=log, stderr=log)

    def connect(self, texts: Mapping[str, str], *, within_s: float, host: str = "localhost") -> ZookeeperCoordination:
        tls, problems = zookeeper_tls(texts)
        assert not problems
        opened = ZookeeperCoordination(
            f"{host}:{self.port}", BrokerId(1), self.callbacks.put, tls=tls, first_connection_s=within_s
        )
        self.opened.append(opened)
        return opened

    def stop(self) -> None:
        self.close()
        self._process.kill()
        self._process.wait()


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureZookeeper]:
    libs = zookeeper_jars()
    if libs is None:
        pytest.skip(NO_ZOOKEEPER)
    one = SecureZookeeper(libs, tmp_path_factory.mktemp("zookeeper"), authority())
    yield one
    one.stop()


def test_a_broker_reads_and_writes_over_tls(secure: SecureZookeeper) -> None:
    store = secure.connect(secure.texts, within_s=120)  # the server is on its way up
    assert secure.wait(store.head()) == 0
    assert isinstance(secure.wait(store.append([b"one"], 0)), Written)
    assert [entry.body for entry in secure.wait(store.read(0))] == [b"one"]


@pytest.mark.parametrize("host", ["127.0.0.2", "localhost"])
def test_a_server_that_cannot_show_who_it_is_is_not_spoken_to(
    secure: SecureZookeeper, host: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its certificate is not of 127.0.0.2; and at localhost it is of another authority."""
    texts = dict(secure.texts)
    if host == "localhost":
        other = tmp_path / "other.pem"
        other.write_text(authority().certificate_pem)
        texts["zookeeper.ssl.truststore.location"] = str(other)
    store = secure.connect(texts, within_s=1, host=host)
    asked = store.head()
    assert secure.wait_until(lambda: asked.full)
    assert isinstance(asked.error, OSError)
    began = time.monotonic()
    while "certificate verify failed" not in caplog.text and time.monotonic() - began < 60:
        time.sleep(0.05)
    assert "certificate verify failed" in caplog.text


def test_an_answer_in_the_record_of_the_one_before_it_is_seen_at_once() -> None:
    """A proxy that speaks TLS for ZooKeeper may put answers together."""
    signer = authority()
    server = signer.sign("zookeeper")
    theirs, _ = tls_settings(
        {"ssl.keystore.key": server.key_pem(), "ssl.keystore.certificate.chain": server.certificate_pem}
    )
    ours = ssl.create_default_context(cadata=signer.certificate_pem)
    near, far = socket.socketpair()
    with ThreadPoolExecutor(1) as pool:
        shaking = pool.submit(server_context(theirs).wrap_socket, far, server_side=True)
        with ours.wrap_socket(near, server_hostname="localhost") as client, shaking.result() as proxy:
            proxy.sendall(b"one answer, another")
            assert client.recv(11) == b"one answer,"
            other, _other = socket.socketpair()
            with other, _other:
                assert _Handler(1.0, None).select([client, other], [], [], 5.0)[0] == [client]


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ({"zookeeper.ssl.keystore.location": "x"}, "no effect without zookeeper.ssl.client.enable=true"),
        (
            {"zookeeper.ssl.client.enable": "true", "zookeeper.ssl.endpoint.identification.algorithm": "LDAPS"},
            "zookeeper.ssl.endpoint.identification.algorithm must be https or empty",
        ),
        ({"zookeeper.ssl.client.enabled": "true"}, "did you mean zookeeper.ssl.client.enable"),
    ],
)
def test_options_that_would_not_encrypt_are_refused(texts: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_static(command_line={"listeners": "PLAINTEXT://127.0.0.1:0", **texts})
