"""Values come from defaults, file, environment, command line or dynamic settings; wrong ones are refused at start."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.config.group import GroupConfig
from ottla.config.known import broker_options
from ottla.config.option import ConfigError
from ottla.config.properties import parse_properties
from ottla.config.resolve import Layers, environment_texts, group_problems, read_static, topic_problems

KAFKA_FILE = """
# What config/server.properties of Apache Kafka 4.3 says.
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""


def test_kafkas_own_file_is_taken_unchanged_with_one_warning(tmp_path):
    file = tmp_path / "server.properties"
    file.write_text(KAFKA_FILE)
    static = read_static(file=file)
    config = Layers(static.texts).broker()
    assert config.listeners == ("PLAINTEXT://:9092",)
    assert config.advertised_listeners == ("PLAINTEXT://localhost:9092",)
    assert config.data_directories == ("/tmp/kraft-combined-logs",)
    assert config.offsets_topic_replication_factor == 1
    (warning,) = static.warnings
    assert warning.startswith("without effect here: ")
    assert "num.network.threads" in warning
    assert "log.retention.hours" not in warning


def test_the_command_line_goes_over_the_environment_and_that_over_the_file(tmp_path):
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=2\nlog.retention.ms=2\nmessage.max.bytes=2000\n")
    static = read_static(
        file=file,
        environment={"KAFKA_LOG_RETENTION_MS": "3", "KAFKA_MESSAGE_MAX_BYTES": "3000", "PATH": "/bin"},
        command_line={"message.max.bytes": "4000"},
    )
    layers = Layers(static.texts)
    assert layers.broker().num_partitions == 2
    assert layers.topic().retention_ms == 3
    assert layers.topic().max_message_bytes == 4000
    assert static.warnings == ()


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("KAFKA_LOG_RETENTION_MS", "log.retention.ms"),
        ("KAFKA_A__B", "a-b"),
        ("KAFKA_LISTENER_NAME_MY___NAME_X", "listener.name.my_name.x"),
    ],
)
def test_an_environment_name_is_an_option_name_in_capitals(variable, name):
    assert environment_texts({variable: "v"}) == {name: "v"}


def test_what_kafkas_start_scripts_read_is_no_option():
    scripts = {"KAFKA_HEAP_OPTS": "-Xmx1g", "KAFKA_OPTS": "", "KAFKA_JMX_PORT": "1", "KAFKA_LOG4J_OPTS": ""}
    assert environment_texts(scripts) == {}


def test_an_unknown_name_is_an_error_in_a_file_and_on_the_command_line_and_a_warning_in_the_environment(tmp_path):
    file = tmp_path / "server.properties"
    file.write_text("num.partition=2\n")
    with pytest.raises(ConfigError, match=r"unknown option num\.partition \(did you mean num\.partitions\?\)"):
        read_static(file=file)
    with pytest.raises(ConfigError, match="did you mean"):
        read_static(command_line={"num.partition": "2"})
    static = read_static(environment={"KAFKA_NUM_PARTITION": "2"})
    assert "did you mean num.partitions" in static.warnings[0]
    assert static.texts == {}


def test_all_that_is_wrong_is_said_at_once_and_by_name(tmp_path):
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=none\nnope.nope=1\nlog.segment.bytes=1\n")
    with pytest.raises(ConfigError) as fault:
        read_static(file=file, command_line={"broker.session.timeout.ms": "-4"})
    said = "\n".join(fault.value.problems)
    assert len(fault.value.problems) == 4
    for name in ("num.partitions", "nope.nope", "log.segment.bytes", "broker.session.timeout.ms"):
        assert name in said


@pytest.mark.parametrize("other", ["replica.socket.timeout.ms", "replica.lag.time.max.ms"])
def test_a_follower_may_not_wait_for_longer_than_it_is_waited_for(other):
    assert read_static(command_line={"replica.fetch.wait.max.ms": "300", other: "300"}).texts[other] == "300"
    with pytest.raises(ConfigError, match=f"{other}.*replica.fetch.wait.max.ms|replica.fetch.wait.max.ms.*{other}"):
        read_static(command_line={"replica.fetch.wait.max.ms": "301", other: "300"})


AUTHORIZER = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}


def test_the_authorizer_is_taken_by_the_name_that_kafka_gives_it():
    given = {**AUTHORIZER, "super.users": "User:admin;User:CN=ops,O=here"}
    assert read_static(command_line=given).texts["super.users"] == "User:admin;User:CN=ops,O=here"
    with pytest.raises(ConfigError, match=r"Kafka 4 has it no more; set org\.apache\.kafka\.metadata"):
        read_static(command_line={"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"})


@pytest.mark.parametrize(
    "texts",
    [
        {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"},
        {"authorizer.class.name": "com.example.MyAuthorizer"},
        {"super.users": "User:admin"},
        {"allow.everyone.if.no.acl.found": "true"},
        {**AUTHORIZER, "super.users": "admin"},
        {"config.providers": "env"},
        {"remote.log.storage.system.enable": "true"},
        {"listeners": "SSL://:9093"},
        {"listeners": "OUT://:9093", "listener.security.protocol.map": "OUT:SASL_PLAINTEXT"},
        {"listeners": "ssl://:9093"},
        {"listeners": "OUT://:9093", "listener.security.protocol.map": "out:SSL"},
        {"listeners": "out://:9093", "listener.security.protocol.map": "OUT :SSL"},
        {"listeners": "OUT://:9093", "listener.security.protocol.map": "OTU:SSL"},
        {"listeners": "OUT://:9093"},
        {"listeners": "localhost:9092"},
    ],
)
def test_what_would_run_more_open_than_was_asked_is_refused(texts):
    with pytest.raises(ConfigError):
        read_static(command_line=texts)


def test_names_of_listeners_are_read_without_regard_to_capitals_as_kafka_does():
    said = {
        "listeners": "plaintext://:9092,Out://:9094,controller://:9093",
        "advertised.listeners": "PLAINTEXT://here:9092,OUT://there:9094",
        "listener.security.protocol.map": "out:plaintext",
        "inter.broker.listener.name": "out",
        "controller.listener.names": "Controller",
    }
    config = Layers(read_static(command_line=said).texts).broker()
    assert config.listeners == ("PLAINTEXT://:9092", "OUT://:9094")
    assert config.advertised_listeners == ("PLAINTEXT://here:9092", "OUT://there:9094")
    assert config.inter_broker_listener_name == "OUT"


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ({"listeners": ""}, "listeners names none"),
        ({"listeners": "CONTROLLER://:9093", "controller.listener.names": "CONTROLLER"}, "listeners names none"),
        (
            {"listeners": "A://:9092,a://:9093", "listener.security.protocol.map": "A:PLAINTEXT"},
            "each listener must have a different name",
        ),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, "nonroutable meta-address"),
        ({"advertised.listeners": "PLAINTEXT://[::]:9092"}, "nonroutable meta-address"),
    ],
)
def test_listeners_at_which_no_client_could_reach_the_broker_are_refused(said, wrong):
    with pytest.raises(ConfigError, match=wrong):
        read_static(command_line=said)


@pytest.mark.parametrize(("name", "least"), [("log.roll.hours", 1), ("log.roll.jitter.hours", 0)])
def test_hours_that_no_topic_could_have_are_refused_at_the_start(name, least):
    with pytest.raises(ConfigError, match=rf"{name}: Value must be at least {least}"):
        read_static(command_line={name: str(least - 1)})
    Layers(read_static(command_line={name: str(least)}).texts).topic()


def test_what_no_group_could_have_is_refused_for_the_broker_too():
    """A value that passed would fail each group of the broker, as groups take their defaults from there."""
    for declared in GroupConfig.OPTIONS:
        for synonym in declared.synonyms:
            with pytest.raises(ConfigError):
                broker_options()[synonym.name].parse("-1")


def test_a_password_that_will_not_do_is_not_told():
    with pytest.raises(ConfigError) as fault:
        read_static(command_line={"zookeeper.digest": "secret"})
    assert str(fault.value) == "Invalid value [hidden] for configuration zookeeper.digest: it is not USER:PASSWORD"


def test_a_secured_listener_of_a_file_is_refused_where_the_command_line_names_another(tmp_path):
    file = tmp_path / "server.properties"
    file.write_text("listeners=SASL_SSL://:9093\n")
    with pytest.raises(ConfigError, match=r"server.properties: --port and --listen would replace SASL_SSL://:9093"):
        read_static(file=str(file), command_line={"listeners": "PLAINTEXT://127.0.0.1:9092"})


def test_the_older_name_of_the_node_id_is_not_said_to_be_without_effect():
    assert read_static(command_line={"broker.id": "7"}).warnings == ()


def test_the_older_name_of_the_node_id_counts_where_the_newer_is_not_given():
    assert Layers(read_static(command_line={"broker.id": "7"}).texts).broker().node_id == 7
    both = {"broker.id": "7", "node.id": "8"}
    assert Layers(read_static(command_line=both).texts).broker().node_id == 8
    assert Layers(read_static(command_line={"broker.id": "-1"}).texts).broker().node_id == 1
    with pytest.raises(ConfigError, match="node"):
        read_static(command_line={"broker.id": "seven"})


@pytest.mark.parametrize(
    ("static", "retention_ms"),
    [
        ({}, 7 * 24 * 3_600_000),
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.hours": "-1"}, -1),
    ],
)
def test_the_finest_unit_that_is_set_wins(static, retention_ms):
    assert Layers(static).topic().retention_ms == retention_ms


def test_a_topics_own_option_goes_over_everything_and_the_brokers_over_the_default_of_all():
    layers = Layers({"log.segment.bytes": "2000000"}, {"log.segment.bytes": "3000000"}, {})
    assert layers.topic().segment_bytes == 3_000_000
    layers = Layers({}, {"log.segment.bytes": "3000000"}, {"log.segment.bytes": "4000000"})
    assert layers.topic().segment_bytes == 4_000_000
    assert layers.topic({"segment.bytes": "5000000"}).segment_bytes == 5_000_000


def test_the_internal_segment_size_goes_below_the_bound():
    assert Layers().topic({"internal.segment.bytes": "100"}).segment_bytes == 100


def test_lags_that_contradict_each_other_are_refused():
    wrong = {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}
    expected = "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)"
    assert topic_problems(wrong, Layers()) == expected


def test_a_groups_option_lies_between_the_brokers_bounds():
    name = "consumer.session.timeout.ms"
    assert group_problems({name: "50000"}, Layers()) is None
    assert group_problems({name: "5"}, Layers()) == (
        f"{name} must be greater than or equal to group.consumer.min.session.timeout.ms"
    )
    assert group_problems({name: "99999999"}, Layers()) == (
        f"{name} must be less than or equal to group.consumer.max.session.timeout.ms"
    )
    assert group_problems({name: "70000"}, Layers({"group.consumer.max.session.timeout.ms": "80000"})) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("a = b ", {"a": "b "}),
        ("a:b\nc d", {"a": "b", "c": "d"}),
        ("  # no\n! no\na", {"a": ""}),
        ("a=1,\\\n   2,\\\n   3", {"a": "1,2,3"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a\\ b\\=c=d", {"a b=c": "d"}),
        ("a=\\u0041\\t\\z", {"a": "A\tz"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\na=2", {"a": "2"}),
        ("a==b", {"a": "=b"}),
        ("a=# no comment", {"a": "# no comment"}),
        ("a=b\\", {"a": "b"}),
    ],
)
def test_a_properties_file_is_read_as_java_reads_it(text, expected):
    assert parse_properties(text) == expected


@given(st.dictionaries(st.text(alphabet="ab .=:#!\\é", min_size=1), st.text(alphabet="xy =:#\\\té")))
def test_what_is_escaped_as_java_escapes_it_comes_back(values):
    lines = [f"{_escaped(key, key=True)}={_escaped(value, key=False)}" for key, value in values.items()]
    assert parse_properties("\n".join(lines)) == values


def _escaped(text: str, *, key: bool) -> str:
    out = []
    for position, letter in enumerate(text):
        if letter in "=:#!\\" or (letter == " " and (key or position == 0)):
            out.append("\\" + letter)
        elif letter == "\t":
            out.append("\\t")
        elif ord(letter) > 126:
            out.append(f"\\u{ord(letter):04x}")
        else:
            out.append(letter)
    return "".join(out)
