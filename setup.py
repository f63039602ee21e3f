"""The one compiled file, optional: without a compiler the package installs all the same and runs its pure twin."""

from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel


class Wheel(bdist_wheel):
    """A wheel that says it is for every platform where the compiled file could not be built."""

    def get_tag(self):
        if list(Path(self.bdist_dir).rglob("_records*.so")):
            return super().get_tag()
        self.root_is_pure = True
        return "py3", "none", "any"


setup(
    ext_modules=[
        Extension(
            "ottla.records._records",
            ["src/ottla/records/_records.c"],
            define_macros=[("Py_LIMITED_API", "0x030B0000")],
            extra_compile_args=["-O3"],
            py_limited_api=True,
            optional=True,
        )
    ],
    cmdclass={"bdist_wheel": Wheel},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
