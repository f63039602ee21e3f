"""URLs of lakes: accepted ones, and the errors for others."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from store_rigs import BUCKET

from ottla.stores import LakeRefused, catalog_url, lake_url, open_store
from ottla.stores.objects import ObjectStore
from ottla.stores.urls import LakeUrlParts, place_of


@pytest.mark.parametrize(
    ("given", "url", "place"),
    [
        ("s3://bucket/a/prefix", "s3://bucket/a/prefix", LakeUrlParts("s3", "bucket", "a/prefix")),
        ("S3A://bucket/prod/", "s3://bucket/prod", LakeUrlParts("s3", "bucket", "prod")),
        ("s3://bucket", "s3://bucket", LakeUrlParts("s3", "bucket", "")),
        ("gs://bucket.example.com/p", "gs://bucket.example.com/p", LakeUrlParts("gs", "bucket.example.com", "p")),
        ("gcs://bucket/p", "gs://bucket/p", LakeUrlParts("gs", "bucket", "p")),
        ("az://container/p", "az://container/p", LakeUrlParts("az", "container", "p")),
        ("abfs://container/p", "abfs://container/p", LakeUrlParts("abfs", "container", "p")),
        (
            "abfss://container@account.dfs.core.windows.net/p",
            "abfss://container@account.dfs.core.windows.net/p",
            LakeUrlParts("abfss", "container", "p", "account"),
        ),
        (
            "hdfs://node:8020/lakes/prod/",
            "hdfs://node:8020/lakes/prod",
            LakeUrlParts("hdfs", "node:8020", "lakes/prod"),
        ),
        ("hdfs://service/lake", "hdfs://service/lake", LakeUrlParts("hdfs", "service", "lake")),
        ("hdfs://[::1]:8020/lake", "hdfs://[::1]:8020/lake", LakeUrlParts("hdfs", "[::1]:8020", "lake")),
    ],
)  # fmt: skip
def test_a_place_in_a_store_is_taken_apart(given, url, place):
    assert lake_url(given) == url
    assert place_of(url) == place


def test_a_path_and_a_file_url_are_the_same_place(tmp_path):
    assert lake_url(tmp_path / "a lake") == lake_url(f"file://{tmp_path}/a%20lake") == (tmp_path / "a lake").as_uri()
    assert lake_url("relative") == (Path.cwd() / "relative").as_uri()
    (tmp_path / "other").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "other" / "below", target_is_directory=True)
    assert lake_url(tmp_path / "link" / ".." / "lake") == (tmp_path / "other" / "lake").resolve().as_uri()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("ftp://host/lake", "cannot lie on ftp://; give a local path, file://, s3://"),
        ("http://host/lake", "cannot lie on http://"),
        ("file:relative", "write file:///absolute/path"),
        ("file://host/lake", "does not name a local directory"),
        ("s3://key:secret@bucket/lake", "no user and no password"),
        ("hdfs://me@namenode:8020/lake", "no user and no password"),
        ("s3://bucket/lake?endpoint=http://host", "holds no query"),
        ("s3://bucket/lake#part", "holds no query"),
        ("s3://", "does not name a bucket"),
        ("s3:///lake", "does not name a bucket"),
        ("s3://bucket:9000/lake", "does not name a bucket"),
        ("s3://bucket/a//b", "has an empty part"),
        ("s3://bucket/a/../b", "or '..' in its path"),
        ("hdfs:///lake", "does not name a folder of HDFS"),
        ("hdfs://namenode:8020", "does not name a folder of HDFS"),
        ("abfss://container@host.example.com/lake", "no user and no password"),
    ],
)
def test_what_is_no_place_for_a_lake_is_refused_by_a_sentence(given, sentence):
    with pytest.raises(LakeRefused, match=sentence.replace(".", r"\.").replace("?", r"\?")):
        lake_url(given)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            "s3:/bucket/x",
            "half a URL: write s3://bucket/prefix; for a local directory of that name write ./s3:/bucket/x",
        ),
        ("s3:x", "half a URL"),
        ("S3A:/x", "half a URL: write s3a://"),
        ("gs:/x", "half a URL"),
        ("abfss:x", "half a URL"),
        ("s3//bucket/x", "half a URL: write s3://bucket"),
        ("hdfs:/x", "half a URL: write hdfs://host:port/path"),
        (Path("s3://bucket/x"), "'s3:/bucket/x' is half a URL"),
        ("s3n:/x", "s3n: is not known (did you mean s3://?); for a local directory of that name write ./s3n:/x"),
        ("hdf:/x", "did you mean hdfs://?"),
        ("lake:2026", "lake: is not known; for a local directory of that name write ./lake:2026"),
        ("s4://bucket/x", "cannot lie on s4:// (did you mean s3://?)"),
        ("hfds://host/x", "did you mean hdfs://?"),
        ("file:/x", "write file:///absolute/path"),
        ("", "is empty"),
        ("  ", "is empty"),
        (" s3://bucket/x", "begins or ends with a space"),
        ("~/lake", "write the home directory out"),
    ],
)
def test_half_a_url_is_never_taken_for_a_local_directory(given, sentence):
    with pytest.raises(LakeRefused) as refused:
        lake_url(given)
    assert sentence in str(refused.value)


def test_a_local_directory_with_a_colon_is_taken_where_it_cannot_be_a_url(tmp_path):
    assert lake_url("./s3:/x") == (Path.cwd() / "s3:" / "x").as_uri()
    assert lake_url(tmp_path / "a:b") == (tmp_path / "a:b").as_uri()
    assert lake_url("lakes/a:b") == (Path.cwd() / "lakes/a:b").as_uri()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("catalog.db", "give sqlite:///catalog.db, postgresql://"),
        ("sqlite:catalog.db", "is not a catalog's URL"),
        ("sqlite:/catalog.db", "is not a catalog's URL"),
        ("sqlite://catalog.db", "does not name a file: write sqlite:///catalog.db"),
        ("sqlite://", "does not name a file"),
        ("sqlite:///:memory:", "does not name a file"),
        ("http:/host", "is not a catalog's URL"),
        ("http://", "is not a catalog's URL"),
        ("postgre://host/db", "did you mean postgres"),
        ("mysql://host/db", "is not a catalog's URL"),
        ("sqlitex:///a.db", "did you mean sqlite://?"),
    ],
)
def test_half_a_url_of_a_catalog_is_refused(given, sentence):
    with pytest.raises(LakeRefused) as refused:
        catalog_url(given)
    assert sentence in str(refused.value)


def test_urls_of_catalogs_are_taken_as_they_are_and_sqlite_files_by_their_whole_path():
    for url in (
        "http://host:8181",
        "https://host/x",
        "postgresql+psycopg://u:p@host/db",
        "sqlite:////a/b.db?timeout=5",
    ):
        assert catalog_url(url) == url
    assert catalog_url("sqlite:///a/b.db") == f"sqlite:///{Path.cwd()}/a/b.db"


def test_a_refusal_does_not_repeat_the_password():
    with pytest.raises(LakeRefused) as refused:
        lake_url("s3://key:secret@bucket/lake")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(("url", "library"), [("s3://bucket/lake", "obstore"), ("hdfs://host:1/lake", "hdfs_native")])
def test_a_missing_library_is_named_with_the_command_that_brings_it(url, library):
    """Tested in a process of its own, in which the library cannot be found."""
    program = f"import sys; sys.modules['{library}'] = None\nfrom ottla.stores import open_store\nopen_store('{url}')"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert "LakeRefused" in ended.stderr
    assert "pip install 'ottla[lake]'" in ended.stderr


@pytest.mark.parametrize("library", ["obstore", "hdfs_native"])
def test_a_local_lake_loads_no_library_of_another_store(library, tmp_path):
    program = (
        "import sys\nfrom ottla.stores import lake_url, open_store\n"
        f"open_store(lake_url('{tmp_path}')).replace('a', b'')\nassert '{library}' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_every_object_store_opens_without_being_asked(monkeypatch):
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    for url in (
        "s3://bucket/p",
        "gs://bucket/p",
        "az://container/p",
        "abfss://container@account.dfs.core.windows.net/p",
    ):
        store = open_store(lake_url(url))
        assert isinstance(store, ObjectStore)
        assert store.url == url


def test_an_azure_container_without_an_account_is_refused_by_a_sentence(monkeypatch):
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(LakeRefused, match="Account must be specified"):
        open_store("az://container/p")


def test_every_url_of_the_guide_is_taken():
    guide = (Path(__file__).resolve().parents[3] / "docs/guide/lake-stores.md").read_text()
    table = guide.partition("The libraries come with")[0]
    urls = [url for url in re.findall(r"`([a-z0-9]+://[^`]*)`", table) if not url.endswith("://")]
    assert len(urls) == 7
    for url in urls:
        written = url.replace(":port", ":8020")
        assert lake_url(written) == written


def test_the_lifecycle_rule_of_the_guide_is_one(moto):
    guide = (Path(__file__).resolve().parents[3] / "docs/guide/lake-stores.md").read_text()
    rule = json.loads(guide.partition("--lifecycle-configuration \\")[2].partition("'")[2].partition("'")[0])
    moto.client().put_bucket_lifecycle_configuration(Bucket=BUCKET, LifecycleConfiguration=rule)
    found = moto.client().get_bucket_lifecycle_configuration(Bucket=BUCKET)["Rules"]
    assert found[0]["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 1}
