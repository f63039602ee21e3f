"""The brokers of the lake's commands: by -b, a profile, a file of client options, or the lake itself; with a login."""

import json

import pytest
from tests.access.secured import Secured

from ottla import lake
from ottla.cli.main import main
from ottla.client import Admin, Producer
from ottla.client.admin.admin import NewTopic
from ottla.client.security import PLAINTEXT
from ottla.lake.commands import load_arguments
from ottla.lake.commands.parser import Parser

LOGIN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "bob", "sasl.password": "b"}


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    one = Secured(tmp_path_factory.mktemp("secured"))
    with one.broker:
        yield one


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("OTTLA_BOOTSTRAP_SERVERS", "OTTLA_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def address_of(secured):
    host, port = secured.address("SASL_PLAINTEXT")
    return f"{host}:{port}"


def client_file(folder, **options):
    file = folder / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in (LOGIN | options).items()))
    return file


def filled(secured, topic):
    with Producer(address_of(secured), security=LOGIN) as producer:
        Admin(cluster=producer.cluster).create_topics([NewTopic(topic)])
        producer.produce(topic, b"x")


def loaded(*options):
    """The brokers and the security that a load gets by these words."""
    parser = Parser(prog="ottla lake")
    load_arguments.add_verb(parser.add_subparsers(dest="verb", required=True))
    given, security = load_arguments.chosen(parser.parse_args(["load", *options]))
    return given.get("bootstrap"), security


def test_all_verbs_that_ask_a_cluster_log_in_by_a_file_of_client_options(secured, home, capsys):
    filled(secured, "parcels")
    file = client_file(home, **{"bootstrap.servers": address_of(secured)})
    where = ["--to", str(home / "lake"), "--command-config", str(file)]
    assert main(["lake", "load", "parcels", *where, "--on", "local"]) == 0
    assert main(["lake", "audit", *where]) == 0
    capsys.readouterr()
    assert main(["lake", "status", *where, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["behind"] == 0
    assert main(["lake", "picture", *where, "--out", str(home / "page.html")]) == 0
    assert LOGIN["sasl.username"] not in (home / "lake" / "_ottla" / "options.json").read_text()


def test_a_topic_that_the_cluster_lacks_is_behind_by_nobody_knows_how_much(secured, home, capsys):
    filled(secured, "gone")
    assert lake.load("gone", to=home / "lake", bootstrap=address_of(secured), security=LOGIN).rows == 1
    with Admin(address_of(secured), security=LOGIN) as admin:
        admin.delete_topics(["gone"])
    where = ["--to", str(home / "lake"), "-b", address_of(secured), "--command-config", str(client_file(home))]
    assert main(["lake", "status", *where, "--format", "json"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)[0]["behind"] is None
    assert "has no topic gone, so how far the lake is behind is not known: it was deleted" in told.err


def test_a_wrong_password_is_told_and_the_lakes_own_state_is_shown(secured, home, capsys):
    filled(secured, "pears")
    lake.load("pears", to=home / "lake", bootstrap=address_of(secured), security=LOGIN)
    wrong = client_file(home, **{"sasl.password": "x"})
    assert (
        main(["lake", "status", "--to", str(home / "lake"), "-b", address_of(secured), "--command-config", str(wrong)])
        == 0
    )
    told = capsys.readouterr()
    assert "pears" in told.out and "refused the login by PLAIN" in told.err


def test_a_profile_brings_its_brokers_and_its_client_options(home):
    file = client_file(home)
    assert main(["profile", "add", "safe", "-b", "far:9094", "--command-config", str(file)]) == 0
    brokers, security = loaded("t", "--to", str(home / "lake"), "--profile", "safe")
    assert (brokers, security.user) == ("far:9094", "bob")
    assert loaded("t", "--to", str(home / "lake"), "-b", "near:9092") == ("near:9092", PLAINTEXT)


def test_brokers_that_the_lake_knows_come_before_those_of_the_profile_in_use(secured, home):
    filled(secured, "plums")
    lake.load("plums", to=home / "lake", bootstrap=address_of(secured), security=LOGIN)
    file = str(client_file(home))
    assert main(["profile", "add", "other", "-b", "far:9094", "--command-config", file, "--use"]) == 0
    assert loaded("--to", str(home / "lake")) == (None, PLAINTEXT)
    assert loaded("t", "--to", str(home / "new"))[0] == "far:9094"
    assert main(["profile", "add", "same", "-b", address_of(secured), "--command-config", file, "--use"]) == 0
    brokers, security = loaded("--to", str(home / "lake"))
    assert (brokers, security.user) == (address_of(secured), "bob")


def test_client_options_that_will_not_do_are_refused_by_name(home, capsys):
    file = client_file(home, **{"sasl.mecanism": "PLAIN"})
    with pytest.raises(SystemExit) as ended:
        main(["lake", "status", "--to", str(home / "lake"), "--command-config", str(file)])
    assert ended.value.code == 2
    assert "sasl.mecanism is not an option of this client (did you mean sasl.mechanism?)" in capsys.readouterr().err
    with pytest.raises(ValueError, match=r"security: sasl\.mecanism is not an option of it"):
        lake.load("t", to=home / "lake", security={"sasl.mecanism": "PLAIN"})
