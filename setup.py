"""The one compiled file, optional: without a compiler the package installs all the same and runs its pure twin."""

from setuptools import Extension, setup

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
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
