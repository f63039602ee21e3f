"""Cases of HDFS alone: users, a name node that is gone, and files that a killed writer left open."""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hdfs_native import Client, WriteOptions
from store_rigs import MiniHdfs, StoreProcess

from ottla.connect.records import SinkRecord
from ottla.kernel.ids import TopicPartition
from ottla.sinks.files.connectors import HdfsSinkConnector
from ottla.stores import LakeRefused, StoreUnreachable, open_store
from ottla.stores.hdfs import HdfsStore, _claim_named, _name_of
from ottla.stores.lease import Claim
from ottla.stores.urls import LakeUrlParts


@pytest.fixture
def client(mini_hdfs: MiniHdfs) -> Client:
    return Client(mini_hdfs.url)


def path_of(url: str) -> str:
    return "/" + url.split("/", 3)[3]


def test_of_racing_renames_the_name_node_lets_one_through(client, hdfs_url):
    """`create` and the lease rely on this; the test asks the name node itself."""
    folder = path_of(hdfs_url)
    for number in range(8):
        client.create(f"{folder}/from-{number}", WriteOptions(create_parent=True)).close()
    start = threading.Barrier(8)

    def rename(number: int) -> bool:
        start.wait()
        try:
            client.rename(f"{folder}/from-{number}", f"{folder}/to", False)
        except FileExistsError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(rename, range(8))) == 1
    assert len(list(client.list_status(folder))) == 8


def test_a_file_that_a_killed_writer_left_open_is_cleaned_away(client, hdfs_url):
    writer = StoreProcess(hdfs_url)
    assert writer.ask("write", "_ottla/tmp/7/a", "3") == "written"
    writer.kill()
    folder = f"{path_of(hdfs_url)}/_ottla/tmp/7"
    assert [status.path.startswith(f"{folder}/.a.") for status in client.list_status(folder)] == [True]
    store = open_store(hdfs_url)
    assert store.entries("_ottla/") == []
    store.remove_folder("_ottla/tmp/")
    with pytest.raises(FileNotFoundError):
        client.get_file_info(folder)


def test_files_belong_to_the_user_that_the_environment_names(client, hdfs_url, monkeypatch):
    folder = path_of(hdfs_url)
    client.mkdirs(folder, permission=0o777, create_parent=True)
    monkeypatch.setenv("HADOOP_USER_NAME", "bob")
    open_store(hdfs_url).replace("a", b"1")
    assert client.get_file_info(f"{folder}/a").owner == "bob"


def test_missing_rights_are_not_passing(client, hdfs_url, monkeypatch):
    client.mkdirs(path_of(hdfs_url), permission=0o755, create_parent=True)
    monkeypatch.setenv("HADOOP_USER_NAME", "bob")
    store = open_store(hdfs_url)
    for call in (
        lambda: store.create("a", b""),
        lambda: store.replace("a", b""),
        lambda: store.open_output("a"),
        lambda: store.hold("bob"),
    ):
        with pytest.raises(PermissionError, match="bob"):
            call()


def test_a_name_node_that_does_not_answer_is_a_passing_fault(monkeypatch):
    monkeypatch.setattr("ottla.stores.hdfs._PATIENCE", {"dfs.client.failover.max.attempts": "1"})
    store = open_store("hdfs://127.0.0.1:1/lake")
    for call in (lambda: store.read("a"), lambda: store.entries(""), lambda: store.replace("a", b"")):
        with pytest.raises(StoreUnreachable, match="refused"):
            call()


def test_a_service_that_no_configuration_knows_is_refused_by_a_sentence(monkeypatch):
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.delenv("HADOOP_HOME", raising=False)
    with pytest.raises(LakeRefused, match="HADOOP_CONF_DIR"):
        open_store("hdfs://service/lake")


def test_a_service_is_looked_up_in_the_configuration(mini_hdfs, hdfs_url, tmp_path, monkeypatch):
    settings = {
        "dfs.nameservices": "service",
        "dfs.ha.namenodes.service": "one",
        "dfs.namenode.rpc-address.service.one": f"127.0.0.1:{mini_hdfs.port}",
    }
    rows = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items()
    )
    (tmp_path / "hdfs-site.xml").write_text(f"<configuration>{rows}</configuration>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    store = open_store(f"hdfs://service{path_of(hdfs_url)}")
    store.replace("a", b"1")
    assert open_store(hdfs_url).read("a") == b"1"
    assert store.url.startswith("hdfs://service/")


def test_a_folder_of_leases_that_somebody_emptied_is_refused_by_name(client, hdfs_url):
    client.mkdirs(f"{path_of(hdfs_url)}/_ottla/lease", create_parent=True)
    with pytest.raises(LakeRefused, match="remove that folder"):
        open_store(hdfs_url).hold("one")


@pytest.mark.parametrize("owner", ["one", "loader 3 on host.example.com:17", "ü/%.\n", "x" * 500, "é" * 300, ""])
def test_a_claim_fits_into_a_file_name(owner):
    claim = Claim(owner, os.urandom(16).hex(), 12345, 20.0)
    name = _name_of(claim)
    assert len(name.encode()) <= 255
    assert "/" not in name
    found = _claim_named(name)
    assert found is not None
    assert owner.startswith(found.owner.rstrip("\ufffd%"))
    assert (found.token, found.count, found.seconds, found.free) == (claim.token, 12345, 20.0, claim.free)


@pytest.mark.parametrize("name", ["", "free", "a.b.c.d", "a.1.x.d"])
def test_a_file_that_is_no_claim_is_not_taken_for_one(name):
    assert _claim_named(name) is None


def test_the_hdfs_sink_writes_below_the_root_and_goes_on_behind_its_files(mini_hdfs):
    """A lake has a folder; `hdfs.url` of Confluent's sink is often the name node alone."""
    place = TopicPartition("rooted", 0)
    config = {"hdfs.url": mini_hdfs.url, "format.class": "JsonFormat", "flush.size": "2"}

    async def put(*offsets):
        task = HdfsSinkConnector.task(config)
        await task.open([place])
        await task.put([SinkRecord("rooted", 0, None, None, None, each, offset=each) for each in offsets])
        flushed = await task.flush()
        await task.close()
        return flushed

    assert asyncio.run(put(0, 1, 2)) == {place: 2}
    assert asyncio.run(put(0, 1, 2, 3)) == {place: 4}
    store = HdfsStore(LakeUrlParts("hdfs", mini_hdfs.url.removeprefix("hdfs://"), ""))
    folder = "topics/rooted/partition=0/rooted+0+"
    assert [each.name for each in store.entries("topics/rooted/")] == [
        f"{folder}0000000000+0000000001.json", f"{folder}0000000002+0000000003.json",
    ]  # fmt: skip
    assert store.read(f"{folder}0000000002+0000000003.json") == b"2\n3\n"
