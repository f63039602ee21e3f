"""Credentials for S3 come from the environment or a profile (through boto3), never from the URL."""

from __future__ import annotations

import pytest
from fault_proxy import STATUS, FaultProxy

from ottla.stores import LakeRefused, open_store

OURS = "AKIAFROMPROFILE"


@pytest.fixture
def signed(moto, s3_url, monkeypatch):
    """A proxy for all requests, which shows their signatures."""
    proxy = FaultProxy(moto.port)
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
    yield proxy
    proxy.stop()


@pytest.fixture
def profiles(tmp_path, monkeypatch):
    """A credentials file with one profile, and nothing in the environment."""
    path = tmp_path / "credentials"
    path.write_text(f"[lake]\naws_access_key_id = {OURS}\naws_secret_access_key = secret\n[empty]\nregion = x\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(path))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")


def test_the_environment_is_enough(signed, s3_url):
    open_store(s3_url).replace("a", b"1")
    assert "Credential=test/" in signed.last_signature


def test_a_profile_is_read_through_boto3(signed, s3_url, profiles, monkeypatch):
    monkeypatch.setenv("AWS_PROFILE", "lake")
    store = open_store(s3_url)
    store.replace("a", b"1")
    assert store.read("a") == b"1"
    assert f"Credential={OURS}/" in signed.last_signature


def test_keys_in_the_environment_go_before_a_profile_as_with_awss_own_tools(signed, s3_url, profiles, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_PROFILE", "lake")
    open_store(s3_url).replace("a", b"1")
    assert "Credential=test/" in signed.last_signature


def test_a_default_profile_in_the_credentials_file_is_found(signed, s3_url, profiles, tmp_path):
    with open(tmp_path / "credentials", "a") as file:
        file.write(f"[default]\naws_access_key_id = {OURS}\naws_secret_access_key = secret\n")
    open_store(s3_url).replace("a", b"1")
    assert f"Credential={OURS}/" in signed.last_signature


@pytest.mark.parametrize("profile", ["nobody", "empty"])
def test_a_profile_without_credentials_is_refused_by_its_name(s3_url, profiles, monkeypatch, profile):
    monkeypatch.setenv("AWS_PROFILE", profile)
    with pytest.raises(LakeRefused, match=profile):
        open_store(s3_url)


def test_credentials_that_the_store_refuses_are_a_matter_of_rights(signed, s3_url):
    with signed.rule("PUT", "/a", STATUS, status=403), pytest.raises(PermissionError):
        open_store(s3_url).replace("a", b"1")


def test_an_error_holds_no_secret(signed, s3_url, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "very-secret")
    with signed.rule("PUT", "/a", STATUS, status=403), pytest.raises(PermissionError) as refused:
        open_store(s3_url).replace("a", b"1")
    assert "very-secret" not in str(refused.value)
