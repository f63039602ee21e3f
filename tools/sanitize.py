"""Runs the tests of the compiled modules against a build with AddressSanitizer and UndefinedBehaviorSanitizer.

`python tools/sanitize.py [TEST...]`, by default tests/records, without what needs Java, and those of parallel syncs. A
read or write outside a buffer, or an operation that C leaves undefined, ends the run at once with the sanitizer's
report and the test's traceback. `make fuzz` begins with it. Where no compiler with sanitizers is at hand it says so and
ends with 0.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILT_FROM = ("src", "pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE")
NOT_COPIED = shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info")
SANITIZERS = "-fsanitize=address,undefined"
# CPython's own flags hold -fwrapv, under which a signed overflow is no fault; another compiler may do without.
COMPILING = f"-g -fno-omit-frame-pointer -fno-wrapv -fno-sanitize-recover=all {SANITIZERS}"
RUNTIMES = ("libasan.so", "libubsan.so", "libstdc++.so.6")
"""Loaded before the interpreter, which is not built with them; libstdc++ so that C++ exceptions are seen too."""
COMPILED = ("records/_records.abi3.so", "server/_parallel_sync.abi3.so")
SHOW = "import ottla.records._records as part; print(part.__file__)"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python tools/sanitize.py", description=__doc__)
    parser.add_argument("--source", type=Path, default=ROOT, help="the project to build (default: this one)")
    parser.add_argument(
        "tests",
        nargs="*",
        default=["tests/records", "tests/server/test_parallel_sync.py"],
        help="what pytest is told to run",
    )
    wanted = parser.parse_args(arguments)
    runtimes = sanitizer_runtimes()
    if not runtimes:
        print("sanitizers: no C compiler with them here; left out")
        return 0
    with tempfile.TemporaryDirectory(prefix="ottla-sanitize-") as folder:
        build(wanted.source, Path(folder))
        return run_tests(Path(folder), runtimes, wanted.tests)


def sanitizer_runtimes() -> list[str]:
    """The libraries to load first; empty where the compiler has none."""
    found = []
    for name in RUNTIMES:
        try:
            command = ["cc", f"-print-file-name={name}"]
            place = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        except (OSError, subprocess.CalledProcessError):
            return []
        # A compiler that does not have the file answers with the bare name.
        if not Path(place).is_absolute():
            return []
        found.append(place)
    return found


def build(source: Path, folder: Path) -> None:
    """Copy the project into `folder` and build the compiled modules there, as setup.py does, with sanitizers added."""
    for name in BUILT_FROM:
        if (source / name).is_dir():
            shutil.copytree(source / name, folder / name, ignore=NOT_COPIED)
        else:
            shutil.copy(source / name, folder / name)
    environment = os.environ | {"CFLAGS": COMPILING, "LDFLAGS": SANITIZERS}
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    built = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if built.returncode or not all((folder / "src/ottla" / name).exists() for name in COMPILED):
        raise SystemExit(f"sanitizers: the compiled modules were not built\n{built.stdout}{built.stderr}")


def run_tests(folder: Path, runtimes: list[str], tests: list[str]) -> int:
    """Run the tests on what was built in `folder`; pytest's exit status, or that of a sanitizer that stopped it."""
    inherited = {name: value for name, value in os.environ.items() if name != "OTTLA_PURE"}
    environment = inherited | {
        "PYTHONPATH": str(folder / "src"),
        "LD_PRELOAD": ":".join(runtimes),
        # Each object of Python in memory of its own, so that a read beyond its end is seen.
        "PYTHONMALLOC": "malloc",
        # The interpreter itself gives back little at its end, so leaks are not looked for.
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "print_stacktrace=1:abort_on_error=1",
    }
    loaded = subprocess.run([sys.executable, "-c", SHOW], env=environment, capture_output=True, text=True, check=False)
    if not loaded.stdout.startswith(str(folder)):
        raise SystemExit(f"sanitizers: what was built is not what Python loads\n{loaded.stdout}{loaded.stderr}")
    # pytest leaves the process's own standard error alone, where the sanitizers write.
    command = [sys.executable, "-m", "pytest", "--capture=sys", "-p", "no:cacheprovider", "-p", "no:warnings"]
    command += ["-m", "not kafka", *tests]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
