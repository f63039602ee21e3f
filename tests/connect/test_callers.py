"""Workers that act as their callers do: users with different rights, over HTTP, against a broker with ACLs."""

import base64
import json
import time
import urllib.error
import urllib.request

import pytest
from tests.access.identity import Provider, served
from tests.access.limited import Limited
from tests.access.limited_servers import grant_worker, tokens_file, url_of, worker_file, worker_process
from tests.access.rights_requests import acl

from ottla.cli.main import main
from ottla.connect.errors import ConfigException
from ottla.connect.rest.listener import guarded
from ottla.connect.standalone import read_worker
from ottla.kernel.acls import CLUSTER_NAME, Operation, ResourceKind

TOPIC, GROUP, CLUSTER = ResourceKind.TOPIC, ResourceKind.GROUP, ResourceKind.CLUSTER


@pytest.fixture(scope="module")
def limited():
    one = Limited(["alice", "bob", "carol", "worker", "weak"])
    with one.broker:
        grant_worker(one, "worker")
        one.make_topic("salaries")
        yield one


@pytest.fixture(scope="module", params=["alone", "of a group"])
def url(request, limited, tmp_path_factory):
    file = worker_file(limited, tmp_path_factory.mktemp("worker"), "worker", request.param)
    with url_of(worker_process(file)) as found:
        yield found


def ask(url, user, method, path, body=None):
    """The status and the JSON of an answer."""
    content = None if body is None else json.dumps(body).encode()
    header = "Basic " + base64.b64encode(f"{user}:{user}".encode()).decode()
    request = urllib.request.Request(
        f"{url}/{path}", content, {"Authorization": header, "Content-Type": "application/json"}, method=method
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read()
            return answer.status, json.loads(text) if text else None
    except urllib.error.HTTPError as refusal:
        return refusal.code, json.loads(refusal.read())


def until(holds):
    """Wait for a condition; the test's own timeout ends a wait in vain."""
    while not holds():
        time.sleep(0.1)


def test_each_user_may_do_with_connectors_what_the_acls_say(limited, url, tmp_path):
    (tmp_path / "in").write_text("one\n")
    source = {"connector.class": "FileStreamSource", "file": str(tmp_path / "in"), "topic": "lines"}
    limited.grant(
        acl("alice", Operation.ALL, GROUP, "connect-alice.", prefixed=True),
        acl("alice", Operation.WRITE, TOPIC, "lines"),
        acl("bob", Operation.DESCRIBE, GROUP, "connect-alice.", prefixed=True),
    )
    until(lambda: ask(url, "alice", "PUT", "connectors/alice.in/config", source)[0] in (200, 201))
    until(lambda: ask(url, "bob", "GET", "connectors/alice.in/status")[0] == 200)
    until(lambda: ask(url, "root", "GET", "connectors/alice.in/status")[1]["connector"]["state"] == "RUNNING")

    assert ask(url, "root", "PUT", "connectors/hidden/config", source | {"topic": "other"})[0] == 201
    for user, seen in (("alice", ["alice.in"]), ("bob", ["alice.in"]), ("carol", []), ("root", ["alice.in", "hidden"])):
        assert ask(url, user, "GET", "connectors") == (200, seen)
    for user in ("alice", "bob", "carol"):
        there, absent = (ask(url, user, "PUT", f"connectors/{name}/pause") for name in ("hidden", "nobody"))
        assert there[0] == 404
        assert json.dumps(there).replace("hidden", "nobody") == json.dumps(absent)
    status, found = ask(url, "bob", "PUT", "connectors/alice.in/pause")
    assert status == 403
    assert found["message"] == ("User:bob has no right to read on group connect-alice.in [GROUP_AUTHORIZATION_FAILED]")
    assert ask(url, "bob", "GET", "connectors/alice.in")[0] == 403, "a configuration takes a right of its own"
    assert ask(url, "alice", "PUT", "connectors/alice.in/pause")[0] == 202
    until(lambda: ask(url, "bob", "GET", "connectors/alice.in/status")[1]["connector"]["state"] == "PAUSED")
    for name in ("alice.in", "hidden"):
        assert ask(url, "root", "DELETE", f"connectors/{name}")[0] == 204


def test_the_worker_lends_nobody_its_own_rights_to_topics(limited, url, tmp_path):
    limited.grant(acl("alice", Operation.ALL, GROUP, "connect-alice.", prefixed=True))
    sink = {"connector.class": "FileStreamSink", "file": str(tmp_path / "out"), "topics": "salaries"}
    source = {"connector.class": "FileStreamSource", "file": str(tmp_path / "in"), "topic": "salaries"}
    for config, word in ((sink, "read"), (source, "write")):
        until(lambda: "group" not in ask(url, "alice", "PUT", "connectors/alice.x/config", source)[1]["message"])
        status, found = ask(url, "alice", "PUT", "connectors/alice.x/config", config)
        sentence = f"User:alice has no right to {word} on topic salaries [TOPIC_AUTHORIZATION_FAILED]"
        assert (status, found["message"]) == (403, sentence)
        assert ask(url, "root", "GET", "connectors/alice.x")[0] == 404


def test_commands_call_as_the_user_that_the_environment_names(url, monkeypatch, capsys):
    assert main(["connect", "list", "--url", url]) == 1
    assert "answers 401" in capsys.readouterr().err
    monkeypatch.setenv("OTTLA_CONNECT_USER", "carol")
    monkeypatch.setenv("OTTLA_CONNECT_PASSWORD", "carol")
    assert main(["connect", "list", "--url", url]) == 0
    assert main(["connect", "pause", "mine", "--url", url]) == 1
    assert "answers 404: Connector mine not found" in capsys.readouterr().err


def test_a_change_of_rights_counts_for_later_requests(limited, url):
    assert ask(url, "carol", "GET", "admin/loggers")[0] == 403
    limited.grant(acl("carol", Operation.DESCRIBE_CONFIGS, CLUSTER, CLUSTER_NAME))
    until(lambda: ask(url, "carol", "GET", "admin/loggers")[0] == 200)
    assert limited.take("carol") == 1
    until(lambda: ask(url, "carol", "GET", "admin/loggers")[0] == 403)


@pytest.mark.parametrize("kind", ["alone", "of a group"])
def test_a_worker_that_may_not_read_the_acls_does_not_start(kind, limited, tmp_path, capsys):
    limited.grant(acl("weak", Operation.ALL, TOPIC, "workers-", prefixed=True))
    assert main(["connect", "start", worker_file(limited, tmp_path, "weak", kind)]) == 1
    assert "Grant that user describe and describe-configs on the cluster" in capsys.readouterr().err


def test_rules_for_names_of_certificates_are_an_option_of_the_workers_address(limited, tmp_path, caplog):
    file = worker_file(limited, tmp_path, "worker", "alone")
    with open(file, "a") as more:
        more.write("listeners.https.ssl.principal.mapping.rules=DEFAULT\nssl.client.auth=required\n")
    assert read_worker(file)["ssl.client.auth"] == "required"
    assert not caplog.messages


def test_commands_act_as_the_owner_of_a_token(limited, tmp_path, monkeypatch, capsys):
    limited.grant(acl("carol", Operation.DESCRIBE, GROUP, "connect-", prefixed=True))
    provider = Provider()
    with served(provider) as provider_url:
        monkeypatch.setenv("OTTLA_ALLOWED_URLS", f"{provider_url}/jwks")
        tokens = {"ottla_rest_users": "", "ottla_rest_tokens": str(tokens_file(tmp_path, provider_url))}
        with url_of(worker_process(worker_file(limited, tmp_path, "worker", "alone", **tokens))) as url:
            assert main(["connect", "list", "--url", url]) == 1
            assert "HTTP 401 Unauthorized: give a token" in capsys.readouterr().err
            monkeypatch.setenv("OTTLA_CONNECT_TOKEN", provider.token("carol"))
            assert main(["connect", "list", "--url", url, "--format", "json"]) == 0
            assert json.loads(capsys.readouterr().out) == {}
            monkeypatch.setenv("OTTLA_CONNECT_TOKEN", provider.token("carol", exp=1))
            assert main(["connect", "list", "--url", url]) == 1
            assert "HTTP 401 Unauthorized: the token is not taken" in capsys.readouterr().err


def test_a_file_of_tokens_that_does_not_do_is_refused_by_its_name(tmp_path):
    with pytest.raises(ConfigException, match=r"ottla\.rest\.tokens: .*set sasl\.oauthbearer\.jwks"):
        (tmp_path / "tokens").touch()
        guarded(print, {"ottla.rest.tokens": str(tmp_path / "tokens")})
