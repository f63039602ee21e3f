"""Builds the wheels for Linux (glibc and musl, x86-64 and arm64), one without compiled modules, and the sdist.

`python tools/wheels.py [--out DIR] [--only TAG]`. One machine builds all: zig, a compiler for every target that comes
from PyPI, links against each target's C library. Every wheel is looked into, and the one that fits this machine is
installed into a new environment, where a broker takes a record and gives it back.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGETS = {
    "manylinux_2_17_x86_64": "x86_64-linux-gnu.2.17",
    "manylinux_2_17_aarch64": "aarch64-linux-gnu.2.17",
    "musllinux_1_2_x86_64": "x86_64-linux-musl",
    "musllinux_1_2_aarch64": "aarch64-linux-musl",
}
"""Tags of wheels, and what zig calls their machines."""
PURE = "any"
MACHINES = {"x86_64": 62, "aarch64": 183}
"""ELF's numbers of machines."""
MODULES = ("ottla/records/_records.abi3.so", "ottla/server/_parallel_sync.abi3.so")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "wheels", help="where they go: build/wheels")
    parser.add_argument("--only", choices=[*TARGETS, PURE], action="append", help="one wheel; may be repeated")
    parser.add_argument("--no-try", action="store_true", help="install none of them")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ottla-wheels-") as scratch:
        tree = Path(scratch) / "tree"
        copy_tree(tree)
        built = [build(tree, tag, given.out, Path(scratch)) for tag in given.only or [*TARGETS, PURE]]
        if not given.only:
            built.append(source_archive(tree, given.out))
    for path in built:
        print(f"{path.stat().st_size / 1e6:6.1f} MB  {path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}")
    fitting = [path for path in built if path.suffix == ".whl" and fits(path)]
    if fitting and not given.no_try:
        try_out(fitting[0])
        print(f"{fitting[0].name}: a broker took a record and gave it back")
    return 0


def copy_tree(to: Path) -> None:
    """The files that git knows or would add: nothing that an earlier build left goes into a wheel."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    for name in listed.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)


def build(tree: Path, tag: str, out: Path, scratch: Path) -> Path:
    """Build one wheel and look into it. Ends the program where a module is missing or for another machine."""
    shutil.rmtree(tree / "build", ignore_errors=True)
    dist = scratch / tag
    environment = dict(os.environ, OTTLA_COMPILED="no") if tag == PURE else for_target(tag, scratch)
    command = [sys.executable, "setup.py", "-q", "bdist_wheel", "--dist-dir", str(dist)]
    if tag != PURE:
        command += ["--plat-name", tag]
    run_quietly(command, tree, environment)
    (wheel,) = dist.glob("*.whl")
    look_into(wheel, tag)
    return Path(shutil.move(wheel, out / wheel.name))


def run_quietly(command: list[str], folder: Path, environment: dict[str, str]) -> None:
    """Run a build, which says much that is of no use unless it fails."""
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


def for_target(tag: str, scratch: Path) -> dict[str, str]:
    """The environment in which setuptools compiles for another machine, with headers that fit it."""
    headers = scratch / "include"
    if not headers.exists():
        shutil.copytree(sysconfig.get_path("include"), headers)
        # Debian's pyconfig.h includes one of this machine's alone; that one is the same on every 64-bit Linux.
        shutil.copy2(sysconfig.get_config_h_filename(), headers / "pyconfig.h")
    compiler = f"{sys.executable} -m ziglang cc -target {TARGETS[tag]}"
    return dict(
        os.environ,
        CC=compiler,
        LDSHARED=f"{compiler} -shared -s",
        CPPFLAGS=f"-isystem {headers}",
        CFLAGS="-fno-sanitize=undefined",
        OTTLA_COMPILED="yes",
    )


def look_into(wheel: Path, tag: str) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        compiled = {name for name in names if name.endswith(".so")}
        expected = set() if tag == PURE else set(MODULES)
        if compiled != expected:
            sys.exit(f"{wheel.name} has {sorted(compiled) or 'no compiled module'}, and should have {sorted(expected)}")
        for name in compiled:
            machine = int.from_bytes(archive.read(name)[18:20], "little")
            if machine != MACHINES["aarch64" if "aarch64" in tag else "x86_64"]:
                sys.exit(f"{wheel.name}: {name} is for the machine {machine} in ELF's numbers, and not for {tag}")
        if "ottla/py.typed" not in names:
            sys.exit(f"{wheel.name} lacks ottla/py.typed")


def source_archive(tree: Path, out: Path) -> Path:
    shutil.rmtree(tree / "build", ignore_errors=True)
    run_quietly([sys.executable, "setup.py", "-q", "sdist", "--dist-dir", str(out)], tree, dict(os.environ))
    return max(out.glob("*.tar.gz"), key=lambda path: path.stat().st_mtime)


def fits(wheel: Path) -> bool:
    """True if this machine installs the wheel, and the wheel is a compiled one."""
    libc = "musllinux" if Path("/etc/alpine-release").exists() else "manylinux"
    return libc in wheel.name and wheel.stem.endswith(os.uname().machine)


def try_out(wheel: Path) -> None:
    """Install the wheel alone into a new environment, then write to a broker and read from it."""
    with tempfile.TemporaryDirectory(prefix="ottla-wheel-") as scratch:
        environment = Path(scratch) / "venv"
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        python = str(environment / "bin" / "python")
        lock = ROOT / "requirements" / "lock.txt"
        subprocess.run([python, "-m", "pip", "install", "-q", "-c", lock, wheel], check=True)
        subprocess.run([python, "-c", TRIAL], cwd=scratch, check=True)


TRIAL = """
import ottla.records._records, ottla.server._parallel_sync
from ottla.client import Consumer, Producer
from ottla.testing import TestBroker

with TestBroker() as broker:
    with Producer(broker.bootstrap_servers) as producer:
        producer.produce("trial", "a record").result()
    with Consumer(broker.bootstrap_servers, group_id="trial", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["trial"])
        (record,) = consumer.poll(timeout_ms=60_000)
        assert record.value == b"a record", record
"""

if __name__ == "__main__":
    sys.exit(main())
