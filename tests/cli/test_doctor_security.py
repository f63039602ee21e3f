"""`ottla doctor --config`: what is open, weak or about to expire in a broker's options and files."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from tests.access.certificates import an_rsa_certificate

from ottla.cli.doctor_security import SecurityFinding, of_brokers, of_file
from ottla.cli.main import main

NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    assert main(["secure", "init", "--dir", str(tmp_path), "--host", "b.example.org"]) == 0
    return tmp_path


def found(path: Path, now: datetime.datetime = NOW) -> list[SecurityFinding]:
    return list(of_file(str(path), now))


def wrong(path: Path, now: datetime.datetime = NOW) -> list[str]:
    return [f"{one.what} | {one.advice}" for one in found(path, now) if one.advice]


def test_a_folder_as_it_was_made_is_in_order(folder: Path) -> None:
    [one] = found(folder / "server.properties")
    assert "good until" in one.what
    assert main(["doctor", "--config", str(folder / "server.properties")]) == 0


def test_certificates_are_told_a_month_before_they_expire_and_after(folder: Path) -> None:
    path = folder / "server.properties"
    assert wrong(path, NOW + 330 * DAY) == []
    [soon] = wrong(path, NOW + 340 * DAY)
    assert "expires in 2" in soon
    assert "days | `ottla secure renew` signs another one" in soon
    both = wrong(path, NOW + 4000 * DAY)
    assert len(both) == 2
    assert "rotate-ca" in both[1]


@pytest.mark.parametrize("file", ["broker.pem", "first-users.json"])
def test_a_secret_that_others_can_read_is_told_with_the_command(folder: Path, file: str) -> None:
    (folder / file).chmod(0o640)
    [one] = wrong(folder / "server.properties")
    assert f"mode 640) | chmod 600 {folder / file}" in one


def test_weak_keys_and_ciphers_are_told(folder: Path) -> None:
    (folder / "ca.pem").write_text(an_rsa_certificate(1024))
    path = folder / "server.properties"
    path.write_text(path.read_text() + "ssl.cipher.suites=TLS_RSA_WITH_RC4_128_SHA\n")
    told = "\n".join(wrong(path))
    assert "1024 bits" in told
    assert "allows TLS_RSA_WITH_RC4_128_SHA | leave ssl.cipher.suites out" in told


@pytest.mark.parametrize(
    ("listeners", "said"),
    [
        ("PLAINTEXT://0.0.0.0:9092", "PLAINTEXT on 0.0.0.0 asks nobody"),
        ("PLAINTEXT://:9092", "PLAINTEXT on every address asks nobody"),
        ("SASL_PLAINTEXT://[fd00::1]:9092", "SASL_PLAINTEXT on fd00::1 does not encrypt"),
    ],
)
def test_open_listeners_are_told(tmp_path: Path, listeners: str, said: str) -> None:
    path = tmp_path / "server.properties"
    path.write_text(f"listeners={listeners}\nsasl.enabled.mechanisms=SCRAM-SHA-256\n")
    [one] = wrong(path)
    assert said in one
    assert "ottla secure init" in one
    path.write_text("listeners=PLAINTEXT://127.0.0.1:9092,X://localhost:1\n"
                    "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,X:PLAINTEXT\n")  # fmt: skip
    assert wrong(path) == []


def test_passwords_in_a_readable_file_are_told(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("zookeeper.digest=a:b\n")
    path.chmod(0o644)
    assert "which holds passwords or keys, can be read by others" in wrong(path)[0]
    path.chmod(0o600)
    assert wrong(path) == []


def test_a_key_that_does_not_fit_is_told(folder: Path) -> None:
    (folder / "broker.pem").write_text("no key")
    assert "is neither PEM nor PKCS12 | a broker does not start by it" in wrong(folder / "server.properties")[0]


class Told:
    """A cluster whose brokers tell these options."""

    def __init__(self, texts: dict[str, str]) -> None:
        self.texts = texts
        self.plan = type("Plan", (), {"metadata": type("Metadata", (), {"brokers": {1: None}})()})()

    def run(self, question):
        name = question.cr_frame.f_locals["name"]
        question.close()
        return {1: self.texts[name]} if name in self.texts else {}


def test_running_brokers_tell_their_open_listeners() -> None:
    texts = {
        "listeners": "PLAINTEXT://127.0.0.1:9092,OUT://10.0.0.1:9093,SASL_SSL://0.0.0.0:9094",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,OUT:PLAINTEXT",
    }
    [one] = of_brokers(Told(texts))  # type: ignore[arg-type]
    assert one.what.startswith("broker 1: listener OUT on 10.0.0.1 asks nobody")


def test_tokens_that_strangers_could_make_or_use_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys, path = tmp_path / "keys.json", tmp_path / "server.properties"
    keys.write_text("{}")
    keys.chmod(0o664)
    monkeypatch.setenv("OTTLA_ALLOWED_URLS", f"http://identity.example.org/keys,https://a/keys,file://{keys}")

    def told(url: str, *more: str) -> list[str]:
        lines = ["listeners=SASL_PLAINTEXT://127.0.0.1:9092", "sasl.enabled.mechanisms=OAUTHBEARER",
                 f"sasl.oauthbearer.jwks.endpoint.url={url}", *more]  # fmt: skip
        path.write_text("\n".join(lines))
        path.chmod(0o600)
        return wrong(path)

    audience, issuer = "sasl.oauthbearer.expected.audience=kafka", "sasl.oauthbearer.expected.issuer=https://a"
    assert told("https://a/keys", audience, issuer) == []
    [plain] = told("http://identity.example.org/keys", audience, issuer)
    assert "without TLS" in plain
    [file] = told(f"file://{keys}", audience, issuer)
    assert f"can be written by others (mode 664) | chmod go-w {keys}" in file
    [other] = told("https://a/keys", issuer)
    assert "name no audience" in other
    assert [("audience" in one, "issuer" in one) for one in told("https://a/keys", "ottla.insecure=true")] == [
        (True, False),
        (False, True),
    ]


def test_a_key_for_kerberos_that_others_can_read_is_told(tmp_path: Path) -> None:
    key, path = tmp_path / "kafka.keytab", tmp_path / "server.properties"
    key.write_bytes(b"x")
    key.chmod(0o644)
    path.write_text(
        "listeners=SASL_PLAINTEXT://127.0.0.1:9092\n"
        "listener.name.sasl_plaintext.gssapi.sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule required "
        f'keyTab="{key}" principal="kafka/b@R";\n'
    )
    path.chmod(0o600)
    assert [f"chmod 600 {key}" in one for one in wrong(path)] == [True]
