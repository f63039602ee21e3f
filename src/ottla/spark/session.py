"""A Spark session that starts and runs well on one machine; everything can be overridden."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING

from ottla.spark.launch import launch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
    # Without native Hadoop every checkpoint file forks chmod, four times a batch: 130 ms against 40 ms.
    "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINTS,
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # A micro-batch that is repeated must have the same tasks, for a sink that writes exactly once (delivery.py).
    "spark.sql.adaptive.streaming.stateless.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    "spark.python.daemon.module": "ottla.spark.daemon",
    # Over TCP either side may wait 40 ms for an acknowledgement that the other holds back.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.log.level": "ERROR",
    # Names of settings whose values Spark hides in its pages and logs: its own list, and Kafka's words for secrets.
    "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|sasl|jaas|credential|private",
}

ON_CLUSTERS = {
    name: SETTINGS[name]
    for name in (
        "spark.ui.showConsoleProgress",
        "spark.sql.execution.arrow.maxRecordsPerBatch",
        "spark.python.daemon.module",
        "spark.redaction.regex",
    )
}
"""Those that hold for executors on other machines too."""


def session(application: str = "ottla", master: str | None = None, **settings: str) -> SparkSession:
    """The running session, or a new one with settings for one machine; `format("ottla")` is registered in it.

    `application` is its name in Spark's pages and logs. `master` is by default the variable SPARK_MASTER, else all
    cores of this machine; tasks that fail are tried four times there, as on a cluster; plain local mode would not.
    `settings` go last, with double underscores for dots: `spark__sql__ansi__enabled="false"`.

    Workers run the Python that this process runs: without PYSPARK_PYTHON Spark takes the first python3 on the path.
    Raises SparkRefused where there is no Java runtime, and TypeError for a setting whose name has no dot.

        from ottla.spark import session

        spark = session("books")
        kafka = {"kafka.bootstrap.servers": "localhost:9092"}
        rows = spark.createDataFrame([("anna", "one book")], "key string, value string")
        rows.write.format("ottla").options(**kafka, topic="books").mode("append").save()
        read = spark.read.format("ottla").options(**kafka, subscribe="books").load()
        read.selectExpr("offset", "CAST(value AS STRING)").show()
    """
    return made_session(application, master, settings, quiet=False)


def made_session(application: str, master: str | None, settings: Mapping[str, str], *, quiet: bool) -> SparkSession:
    """The session of `session`. With `quiet` the lines of a new Java process are kept and not shown."""
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    given = {_dotted(name): value for name, value in settings.items()}
    chosen = master or os.environ.get("SPARK_MASTER") or default_master()
    choose_python(chosen)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.appName(application).master(chosen)
    for name, value in {**SETTINGS, **given}.items():
        builder = builder.config(name, value)
    conf = SparkConf(loadDefaults=False).setAppName(application).setMaster(chosen)
    launch(conf.setAll([*SETTINGS.items(), *given.items()]), quiet=quiet)
    made = builder.getOrCreate()
    register_source(made)
    return made


def _dotted(name: str) -> str:
    """A setting's name with its dots; TypeError where it has none, since no setting of Spark is called so."""
    dotted = name.replace("__", ".")
    if "." not in dotted:
        near = get_close_matches(name, ["application", "master", *(each.replace(".", "__") for each in SETTINGS)], n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise TypeError(f"session has no option {name}{hint}; a setting of Spark is written as spark__ui__enabled")
    return dotted


def choose_python(master: str, asked: str | None = None) -> None:
    """Set PYSPARK_PYTHON: to the Python that was asked for, else to the user's own choice, else to ours."""
    present = os.environ.get("PYSPARK_PYTHON")
    if asked is not None:
        os.environ["PYSPARK_PYTHON"] = asked
    elif present in (None, "", sys.executable):  # the last one may come from `import ottla.spark`
        os.environ["PYSPARK_PYTHON"] = workers_python(master)


def name_python() -> None:
    """Let Spark's workers run this Python where nobody has named one: Spark would take python3 of the PATH.

    spark-submit has chosen already, and its executors may have other paths.
    """
    if "PYSPARK_GATEWAY_PORT" not in os.environ and sys.executable:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def default_master() -> str:
    """All cores of this machine."""
    return f"local[{os.cpu_count() or 2},4]"


def on_this_machine(master: str) -> bool:
    """True if tasks run inside the driver's JVM."""
    return master == "local" or master.startswith("local[")


def workers_python(master: str) -> str:
    """The Python of workers by default: this one."""
    if not on_this_machine(master):
        return sys.executable
    from ottla.spark.daemon import launcher  # not before: Spark runs that module by its name

    return launcher()


def register_source(spark: SparkSession) -> None:
    """Tell Spark of `format("ottla")`: looking for it by itself takes a Python process, and PYSPARK_DRIVER_PYTHON.

    Spark would use that variable's Python on executors too. Registered, the source uses spark.pyspark.python.
    A thread that writes calls this first: for a write Spark looks for the source in the thread's active session alone,
    and a thread has none at first. `session` has called it for the thread that calls `session`.

        from threading import Thread

        from ottla.spark.session import register_source, session


        def write() -> None:
            register_source(spark)
            rows = spark.createDataFrame([("two books",)], "value string")
            rows.write.format("ottla").options(**kafka, topic="books").mode("append").save()
            print("written")


        spark, kafka = session(), {"kafka.bootstrap.servers": "localhost:9092"}
        thread = Thread(target=write)
        thread.start()
        thread.join()
    """
    from pyspark.sql import SparkSession

    from ottla.spark.source import OttlaDataSource

    spark.dataSource.register(OttlaDataSource)
    if isinstance(spark, SparkSession):  # Spark Connect's has no threads on the server
        SparkSession._get_j_spark_session_class(spark._jvm).setActiveSession(spark._jsparkSession)


name_python()
