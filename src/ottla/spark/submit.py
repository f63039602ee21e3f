"""The Spark session of a command: the one that spark-submit or the caller has, or one by master, settings and files.

Settings count in Spark's order: `--conf`, then `--properties-file` or else spark-defaults.conf, then those of
session.py.
"""

from __future__ import annotations

import argparse
import os
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ottla.spark.launch import SparkRefused, launch
from ottla.spark.session import ON_CLUSTERS, SETTINGS, choose_python, default_master, on_this_machine, register_source

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

__all__ = ["Opened", "SparkRefused", "SparkSettings", "add_spark_arguments", "open_session", "spark_settings"]

UNNAMED = "pyspark-shell"
"""Spark's name for an application without one."""
QUIET = "spark.ui.showConsoleProgress=false"
"""spark-submit turns the bar on for every shell, and it takes a Python program with a JVM of its own for one."""
SPARKS_OWN_MASTER = "local[*]"
"""The master that Spark notes where none was given."""


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """The options about Spark on a command line. `conf` holds pairs in the form KEY=VALUE."""

    master: str | None = None
    conf: tuple[str, ...] = ()
    properties_file: str | None = None
    name: str | None = None

    @property
    def for_a_new_session(self) -> bool:
        return bool(self.master or self.conf or self.properties_file)

    @property
    def any_given(self) -> bool:
        return self.for_a_new_session or self.name is not None


class Opened(NamedTuple):
    """A session, and whether its opener must stop it."""

    spark: SparkSession
    owned: bool

    @property
    def answers(self) -> bool:
        """False once the session's Java process has ended."""
        from py4j.protocol import Py4JError

        try:
            self.spark.sparkContext.defaultParallelism  # noqa: B018 - asks Java
        except (OSError, Py4JError):
            return False
        return True

    def close(self) -> None:
        """Stop the session if its opener has to."""
        if self.owned and self.answers:
            self.spark.stop()

    def forget(self) -> None:
        """Let the next session start a Java process: pyspark holds on to one that has ended."""
        from pyspark import SparkContext
        from pyspark.sql import SparkSession

        SparkContext._active_spark_context = None
        SparkContext._gateway = SparkContext._jvm = None
        SparkSession._instantiatedSession = None


def add_spark_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where and how Spark runs; `spark_settings` reads them."""
    group = parser.add_argument_group(
        "Spark", "Without these: the session of spark-submit, else spark-defaults.conf, else this machine."
    )
    group.add_argument("--master", metavar="URL", help="spark://HOST:PORT, yarn, k8s://URL or local[N]")
    group.add_argument(
        "--conf", action="append", default=[], type=_pair, metavar="KEY=VALUE", help="a setting of Spark; repeatable"
    )
    group.add_argument(
        "--properties-file", metavar="FILE", help="settings of Spark, instead of those in spark-defaults.conf"
    )
    group.add_argument("--name", metavar="NAME", help="the application's name in Spark's pages and logs")


def spark_settings(options: argparse.Namespace) -> SparkSettings:
    """The parsed options of `add_spark_arguments`."""
    return SparkSettings(options.master, tuple(options.conf), options.properties_file, options.name)


def open_session(settings: SparkSettings, *, application: str = "ottla", quiet: bool = False) -> Opened:
    """The session that is active, or a new one; `application` is its name where the settings and Spark have none.

    With `quiet` the lines of a new Java process are kept and not shown, unless its log level is set.
    Raises SparkRefused where settings are given for a session that another program has set up.
    """
    from pyspark.sql import SparkSession

    active = _running()
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if (active is not None or submitted) and settings.for_a_new_session:
        where = "spark-submit" if submitted else "the program that started this session"
        raise SparkRefused(f"Spark is set up already: give --master, --conf and --properties-file to {where}")
    if active is not None:
        register_source(active)
        return Opened(active, owned=False)
    quiet = quiet and not any(pair.startswith("spark.log.level") for pair in settings.conf)
    conf = _submitted_conf() if submitted else _launched_conf(settings, quiet=quiet)
    _name(conf, settings.name, application)
    spark = SparkSession.builder.config(conf=conf).getOrCreate()
    register_source(spark)
    return Opened(spark, owned=True)


def _running() -> SparkSession | None:
    """The session of this process, also where another thread has made it: an active session is that of its thread."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is None and SparkContext._active_spark_context is not None:
        active = SparkSession.builder.getOrCreate()
    return active


def _submitted_conf() -> SparkConf:
    """The settings of spark-submit, and ours where it has none. The master stays as it is."""
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    conf = SparkConf()
    return _with_ours(conf)


def _launched_conf(settings: SparkSettings, *, quiet: bool) -> SparkConf:
    """Start a JVM with these settings; return the settings that it read from files, completed by ours."""
    from pyspark import SparkConf

    if settings.properties_file is not None and not os.path.isfile(settings.properties_file):
        raise SparkRefused(f"--properties-file {settings.properties_file}: there is no such file")
    given = settings.master or os.environ.get("SPARK_MASTER")
    if on_this_machine(given or "local") and not {"SPARK_HOME", "SPARK_CONF_DIR"} & os.environ.keys():
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    before = os.environ.get("PYSPARK_SUBMIT_ARGS")
    os.environ["PYSPARK_SUBMIT_ARGS"] = _submit_arguments(settings, given, before or UNNAMED)
    try:
        launch(quiet=quiet)
    finally:
        if before is None:
            del os.environ["PYSPARK_SUBMIT_ARGS"]
        else:
            os.environ["PYSPARK_SUBMIT_ARGS"] = before
    conf = SparkConf().setAll([_split(pair) for pair in settings.conf])
    if given is not None:
        conf.setMaster(given)
    elif conf.get("spark.master", SPARKS_OWN_MASTER) == SPARKS_OWN_MASTER:
        conf.setMaster(default_master())
    choose_python(conf.get("spark.master") or "", conf.get("spark.pyspark.python"))
    return _with_ours(conf)


def _submit_arguments(settings: SparkSettings, master: str | None, rest: str) -> str:
    """Text to put before the arguments of the user's environment for spark-submit; of two the later one counts."""
    arguments = ["--conf", QUIET]
    if settings.properties_file is not None:
        arguments += ["--properties-file", settings.properties_file]
    if master is not None:
        arguments += ["--master", master]
    for pair in settings.conf:
        arguments += ["--conf", pair]
    return f"{shlex.join(arguments)} {rest}".strip()


def _with_ours(conf: SparkConf) -> SparkConf:
    """Our settings, where the user has given none."""
    local = on_this_machine(conf.get("spark.master") or "")
    for name, value in (SETTINGS if local else ON_CLUSTERS).items():
        conf.setIfMissing(name, value)
    return conf


def _name(conf: SparkConf, given: str | None, application: str) -> None:
    if given is not None:
        conf.setAppName(given)
    elif conf.get("spark.app.name", UNNAMED) == UNNAMED:
        conf.setAppName(application)


def _pair(text: str) -> str:
    name, equals, _ = text.partition("=")
    if not equals or not name.strip():
        raise argparse.ArgumentTypeError("not KEY=VALUE")
    return text


def _split(pair: str) -> tuple[str, str]:
    name, _, value = pair.partition("=")
    return name.strip(), value
