"""The compiled modules, optional: without a compiler the package installs all the same and runs in pure Python.

OTTLA_COMPILED=yes in the environment makes them a must, OTTLA_COMPILED=no leaves them out.
"""

import os
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel

COMPILED = os.environ.get("OTTLA_COMPILED", "if-possible")
if COMPILED not in ("yes", "no", "if-possible"):
    raise SystemExit(f"OTTLA_COMPILED={COMPILED} is not known: yes, no or if-possible")
RECORDS, SERVER = Path("src/ottla/records/native"), Path("src/ottla/server/native")


def compiled(name: str, folder: Path) -> Extension:
    return Extension(
        name,
        sorted(map(str, folder.glob("*.c"))),
        depends=sorted(map(str, folder.glob("*.h"))),
        define_macros=[("Py_LIMITED_API", "0x030B0000")],
        # Hidden: calls between the files are direct, and no other library's `crc32c` takes the place of ours.
        extra_compile_args=["-O3", "-fvisibility=hidden", "-pthread"],
        extra_link_args=["-pthread"],
        py_limited_api=True,
        optional=COMPILED != "yes",
    )


class Wheel(bdist_wheel):
    """A wheel that says it is for every platform where the compiled modules could not be built."""

    def get_tag(self):
        if list(Path(self.bdist_dir).rglob("_*.abi3.so")):
            return super().get_tag()
        self.root_is_pure = True
        return "py3", "none", "any"


MODULES = [compiled("ottla.records._records", RECORDS), compiled("ottla.server._parallel_sync", SERVER)]

setup(
    ext_modules=MODULES if COMPILED != "no" else [],
    cmdclass={"bdist_wheel": Wheel},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
