"""Connectors by their names."""

import pytest

from ottla.connect.errors import ConfigException
from ottla.connect.plugins.file_stream import FileStreamSinkConnector, FileStreamSourceConnector
from ottla.connect.plugins.known import connector, connectors


@pytest.mark.parametrize(
    "name",
    ["org.apache.kafka.connect.file.FileStreamSourceConnector", "FileStreamSourceConnector", "FileStreamSource"],
)
def test_a_connector_has_the_three_names_that_kafka_gives_it(name):
    assert connector(name) is FileStreamSourceConnector


def test_an_unknown_class_is_refused_with_the_nearest_and_all_that_there_are():
    with pytest.raises(ConfigException, match=r"matches FileStreamSnk \(did you mean FileStreamSink\?\), available"):
        connector("FileStreamSnk")


def test_an_installed_package_offers_connectors_by_an_entry_point(monkeypatch):
    class Point:
        name = "ours"

        def load(self):
            return type("Ours", (FileStreamSinkConnector,), {"java_class": "org.example.OursConnector"})

    monkeypatch.setattr("ottla.connect.plugins.known.entry_points", lambda group: [Point()])
    connectors.cache_clear()
    try:
        assert connector("Ours").java_class == "org.example.OursConnector"
    finally:
        connectors.cache_clear()
