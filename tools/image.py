"""Builds a container image without a container engine: `python tools/image.py [--extras registry,connect-sql] [--try]`.

The files come from packaging/image/rootfs.sh, the image's settings from packaging/image/Containerfile, so that an
engine that builds from that file makes the same image. The result is one archive for `docker load`, `podman load` and
`skopeo copy oci-archive:`. `--try` starts it as a container would: as its user, with read-only files and a data volume.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONTAINERFILE = ROOT / "packaging" / "image" / "Containerfile"
MOST_BYTES = 120_000_000
"""The image with the broker alone, unpacked."""
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
OWNED = ("var/lib/kafka",)
"""Folders of the image's user; all else is root's."""
USER = 1000


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--extras", default="", help="extras of the package, by commas: registry, connect-sql, ...")
    parser.add_argument("--tag", default="ottla:latest", help="the image's name")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "image", help="where it goes: build/image")
    parser.add_argument("--wheel", type=Path, help="a wheel that is built already")
    parser.add_argument("--try", action="store_true", dest="trial", help="start it as a container would; for root")
    given = parser.parse_args()
    wheel = given.wheel or new_wheel(given.out)
    files = given.out / "files"
    subprocess.run([ROOT / "packaging" / "image" / "rootfs.sh", wheel, files, given.extras], check=True)
    size = sum(path.lstat().st_size for path in files.rglob("*") if not path.is_dir())
    if size > MOST_BYTES and not given.extras:
        sys.exit(f"the image has {size / 1e6:.0f} MB, and may have {MOST_BYTES / 1e6:.0f}")
    archive = given.out / f"{given.tag.replace(':', '-').replace('/', '-')}.tar"
    write_archive(files, archive, given.tag)
    print(
        f"{archive}: {size / 1e6:.0f} MB of files, {archive.stat().st_size / 1e6:.0f} MB packed; "
        f"docker load -i {archive}"
    )
    if given.trial:
        seconds = try_out(files)
        print(f"started as user {USER} on read-only files, took a record and gave it back; ready in {seconds:.1f} s")
    return 0


def new_wheel(out: Path) -> Path:
    tag = f"manylinux_2_17_{os.uname().machine}"
    wheels = out / "wheel"
    shutil.rmtree(wheels, ignore_errors=True)
    command = [sys.executable, ROOT / "tools" / "wheels.py", "--only", tag, "--no-try", "--out", wheels]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return next(wheels.glob("*.whl"))


def settings() -> dict[str, object]:
    """The last stage of the Containerfile, in the words of OCI's image configuration."""
    text = CONTAINERFILE.read_text(encoding="utf-8")
    stage = text.split("FROM scratch", 1)[1].replace("\\\n", " ")
    config: dict[str, object] = {}
    for line in stage.splitlines():
        word, _, rest = line.partition(" ")
        match word:
            case "USER":
                config["User"] = rest
            case "WORKDIR":
                config["WorkingDir"] = rest
            case "ENV":
                config["Env"] = shlex.split(rest)
            case "EXPOSE":
                config["ExposedPorts"] = {f"{port}/tcp": {} for port in rest.split()}
            case "VOLUME":
                config["Volumes"] = {volume: {} for volume in json.loads(rest)}
            case "STOPSIGNAL":
                config["StopSignal"] = rest
            case "CMD":
                config["Cmd"] = json.loads(rest)
            case "HEALTHCHECK":
                config["Healthcheck"] = _health(rest)
            case "COPY" | "":
                pass
            case _:
                sys.exit(f"tools/image.py does not know {word} of {CONTAINERFILE.name}")
    return config


def _health(text: str) -> dict[str, object]:
    options, _, command = text.partition(" CMD ")
    seconds = {name: int(value.removesuffix("s")) for name, _, value in (one.partition("=") for one in options.split())}
    names = {"--interval": "Interval", "--timeout": "Timeout", "--start-period": "StartPeriod"}
    return {"Test": ["CMD", *json.loads(command)]} | {names[name]: value * 10**9 for name, value in seconds.items()}


def write_archive(files: Path, archive: Path, tag: str) -> None:
    """One layer, in the layout of OCI, with the manifest that older engines read beside it."""
    layer, plain = _layer(files)
    machine = ARCHITECTURES[os.uname().machine]
    config = _json(
        {
            "architecture": machine,
            "os": "linux",
            "config": settings(),
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{plain}"]},
            "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(_source_time())),
        }
    )
    blobs = {_name(config): config, _name(layer): layer}
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": _described("application/vnd.oci.image.config.v1+json", config),
            "layers": [_described("application/vnd.oci.image.layer.v1.tar+gzip", layer)],
        }
    )
    blobs[_name(manifest)] = manifest
    described = _described("application/vnd.oci.image.manifest.v1+json", manifest)
    described["annotations"] = {
        "io.containerd.image.name": tag,
        "org.opencontainers.image.ref.name": tag.partition(":")[2],
    }
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [described]}
    older = [{"Config": _name(config), "RepoTags": [tag], "Layers": [_name(layer)]}]
    with tarfile.open(archive, "w") as tar:
        for name, content in (
            ("oci-layout", _json({"imageLayoutVersion": "1.0.0"})),
            ("index.json", _json(index)),
            ("manifest.json", _json(older)),
            *blobs.items(),
        ):
            _add(tar, name, content)


def _layer(files: Path) -> tuple[bytes, str]:
    """The files as a compressed tar, and the hash of what was compressed. The same files give the same bytes."""
    tar_bytes = io.BytesIO()
    with tarfile.open(fileobj=tar_bytes, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(files.rglob("*")):
            name = str(path.relative_to(files))
            info = tar.gettarinfo(path, name)
            owner = USER if name.startswith(OWNED) else 0
            info.uid = info.gid = owner
            info.uname = info.gname = ""
            info.mtime = _source_time()
            if info.isreg():
                with path.open("rb") as file:
                    tar.addfile(info, file)
            else:
                tar.addfile(info)
    plain = tar_bytes.getvalue()
    return gzip.compress(plain, 6, mtime=0), hashlib.sha256(plain).hexdigest()


def _source_time() -> int:
    """When the source was last changed, by its newest commit, or SOURCE_DATE_EPOCH."""
    if (epoch := os.environ.get("SOURCE_DATE_EPOCH")) is not None:
        return int(epoch)
    shown = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=False)
    return int(shown.stdout or 0)


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


def _name(content: bytes) -> str:
    return f"blobs/sha256/{hashlib.sha256(content).hexdigest()}"


def _described(kind: str, content: bytes) -> dict[str, object]:
    return {"mediaType": kind, "digest": f"sha256:{hashlib.sha256(content).hexdigest()}", "size": len(content)}


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    tar.addfile(info, io.BytesIO(content))


CONTAINED = """
set -eu
mount --bind "$1" "$1"
mount -t tmpfs tmpfs "$1/tmp"
mount -t tmpfs tmpfs "$1/var/lib/kafka/data"
chown 1000:1000 "$1/var/lib/kafka/data"
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
mount -o remount,bind,ro "$1"
exec chroot --userspec=1000:1000 "$1" /bin/env -i $2 "$3"
"""
"""As a container engine does with `--read-only` and a volume, in namespaces of its own."""


def try_out(files: Path) -> float:
    """Start the image's command as testcontainers does, write and read from outside, ask its health, and stop it."""
    from confluent_kafka import Consumer, Producer

    config = settings()
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        port, inner = one.getsockname()[1], other.getsockname()[1]
    variables_given = {
        "KAFKA_LISTENERS": f"PLAINTEXT://:{port},BROKER://:{inner},CONTROLLER://:9094",
        "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://localhost:{port},BROKER://localhost:{inner}",
        "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9094",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_NODE_ID": "1",
    }
    variables = [*(f"{name}={value}" for name, value in variables_given.items()), *config["Env"]]  # type: ignore[misc]
    (command,) = config["Cmd"]  # type: ignore[misc]
    started = time.monotonic()
    inside = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", CONTAINED, "sh"]
    broker = subprocess.Popen([*inside, files, " ".join(variables), command], stdout=subprocess.PIPE, text=True)
    try:
        assert broker.stdout is not None
        for line in broker.stdout:
            if "Transitioning from RECOVERY to RUNNING" in line:
                break
        else:
            sys.exit(f"the container ended with {broker.wait()}")
        seconds = time.monotonic() - started
        producer = Producer({"bootstrap.servers": f"localhost:{port}"})
        producer.produce("trial", b"a record")
        if producer.flush(60):
            sys.exit("the container took no record")
        consumer = Consumer(
            {"bootstrap.servers": f"localhost:{port}", "group.id": "trial", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["trial"])
        message = consumer.poll(60)
        if message is None or message.value() != b"a record":
            sys.exit(f"the container gave back {message}")
        consumer.close()
        health = config["Healthcheck"]["Test"][1:]  # type: ignore[index]
        subprocess.run(["chroot", files, *health], check=True)
        (contained,) = Path(f"/proc/{broker.pid}/task/{broker.pid}/children").read_text(encoding="ascii").split()
        os.kill(int(contained), signal.SIGTERM)
        if broker.wait(60):
            sys.exit(f"the container was stopped, and ended with {broker.returncode}")
    finally:
        broker.kill()
        broker.wait()
    return seconds


if __name__ == "__main__":
    sys.exit(main())
