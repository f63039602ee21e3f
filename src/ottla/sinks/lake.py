"""The lake as a sink: the loader of `ottla lake load` as the task of a connector.

The lake keeps the offsets, and commits them with the rows. The group `connect-NAME` shows where it stands.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from ottla.client.security import OPTIONS as SECURITY
from ottla.connect.checks import non_empty_text, understood
from ottla.connect.config_def import ConfigDef, Importance, Option, Type
from ottla.connect.errors import ConfigException, ConnectException
from ottla.connect.java.regex import compiled
from ottla.connect.plugin import KAFKA_VERSION
from ottla.connect.plugins.base import Config, LoadTask, SinkConnector
from ottla.connect.shared_spark import IN_TURN, SharedSpark
from ottla.connect.tasks.clients import below, client_of, require_login
from ottla.connect.threads import ended
from ottla.jobs.options import JobOption, JobOptionKind, JobOptions, OptionRefused
from ottla.jobs.running_async import AsyncJobRun
from ottla.kernel.errors import ApiError
from ottla.kernel.quantities import duration_ms
from ottla.lake import NoTopic, opened, passing
from ottla.lake.options import OPTIONS, checked
from ottla.stores import LakeHeld, LakeRefused, lake_url

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.lake.columns.steps import RowSteps
    from ottla.lake.rounds.loader import Loader

_BY_CONNECT: Final = {
    "bootstrap": "bootstrap.servers of the worker", "on": "ottla.runner", "pattern": "topics.regex",
    "dead_letter": "errors.deadletterqueue.topic.name", "group": "name",
}  # fmt: skip
"""Options of a load that are said in Connect's words."""
LOAD: Final = JobOptions("LakeSink", [option for option in OPTIONS if option.name not in _BY_CONNECT])
_TYPES: Final = {
    JobOptionKind.FLAG: Type.BOOLEAN,
    JobOptionKind.COUNT: Type.LONG,
    JobOptionKind.PORT: Type.INT,
    JobOptionKind.LIST: Type.LIST,
}
_WITHOUT_EFFECT: Final = re.compile(
    r"(key|value|header)\.converter($|\.)|(consumer|producer|admin)\.override\.|"
    r"errors\.(retry|log|deadletterqueue\.(topic\.replication|context))"
)
_FLAG: Final = re.compile(r"(?<![\w-])--(?:no-)?([a-z][a-z-]*)(?![\w-])")
_SPELT: Final = {option.spelt: _BY_CONNECT.get(option.name, option.property_name) for option in OPTIONS}
log = logging.getLogger("ottla.connect")


def _declared(option: JobOption) -> Option:
    """An option of a load as Connect declares it."""
    default = list(option.default) if isinstance(option.default, tuple) else option.default
    kind = _TYPES.get(option.kind, Type.STRING)
    if kind is Type.STRING and default is not None:
        default = str(default)
    doc = option.doc + (f": {', '.join(option.choices)}" if option.choices else "")
    return Option(option.property_name, kind, default, Importance.MEDIUM, doc, group=option.group or "The load")


def _every(text: str) -> None:
    if not duration_ms(text):
        raise ValueError("give a time above 0, such as 30s")


class LakeSinkConnector(SinkConnector):
    """Loads topics into a lake, exactly once."""

    java_class = "ottla.connect.LakeSinkConnector"
    version = KAFKA_VERSION
    runners, goes_to_spark = ("light", "spark"), True
    OPTIONS = ConfigDef(
        Option("to", Type.STRING, importance=Importance.HIGH, doc="The lake: a path, or a URL of s3://, gs://, az://, "
               "hdfs://.", check=non_empty_text),
        Option("every", Type.STRING, "1m", Importance.HIGH, "The pause between two rounds.", understood(_every)),
        *(_declared(option) for option in LOAD.all),
    )  # fmt: skip

    @classmethod
    def options(cls) -> ConfigDef:
        return cls.OPTIONS

    @classmethod
    def faults(cls, config: Config) -> dict[str, str]:
        """Transformations that have no Arrow form, or no place in this load."""
        try:
            steps_of(config)
        except ConfigException as fault:
            return {"transforms": str(fault)}
        return {}

    @classmethod
    def tasks(cls, config: Config, most: int) -> list[dict[str, str]]:
        """One task: a lake has one loader."""
        cls.task(config)
        return [dict(config)]

    @classmethod
    def task(cls, config: Config) -> LoadTask:
        return LakeTask(config)

    @classmethod
    def restarts(cls, error: Exception) -> bool:
        """Faults of brokers, store and Spark that may pass, a topic that is not made yet, another loader."""
        return super().restarts(error) or isinstance(error, (*passing(), NoTopic, LakeHeld))

    @classmethod
    def check_offsets(cls, config: Config) -> None:
        """The lake begins at its own offsets, whatever the group says."""
        raise ConfigException(
            f"the lake at {config.get('to')} keeps its own offsets: to load records again, load them into another place"
        )


def load_options(config: Config) -> dict[str, Any]:
    """The options of the load that a configuration describes; ConfigException for what it cannot do."""
    for name in sorted(config):
        if _WITHOUT_EFFECT.match(name):
            raise ConfigException(
                f"{name} has no effect on the lake sink, which reads records itself: leave it out. Its own options "
                "values, fields and where say what becomes of records"
            )
    names = {option.property_name for option in LOAD.all}
    try:
        found = checked(LOAD.of_properties({name: text for name, text in config.items() if name in names}))
    except (OptionRefused, LakeRefused) as fault:
        raise ConfigException(in_properties(str(fault))) from None
    made: dict[str, Any] = dict(found) | {"group": f"connect-{config['name']}"}
    made["on"] = "spark" if config.get("ottla.runner") == "spark" else "local"
    if config.get("topics.regex"):
        made["pattern"] = compiled(config["topics.regex"]).pattern
    letters = config.get("errors.deadletterqueue.topic.name", "")
    if (config.get("errors.tolerance", "none") == "all") != bool(letters):
        raise ConfigException(
            "errors.tolerance=all and errors.deadletterqueue.topic.name go together here: a record that cannot be a "
            "row goes there, or stops the load"
        )
    return made | ({"dead_letter": letters} if letters else {})


def steps_of(config: Config) -> RowSteps | None:
    """The transformations of a configuration as steps of the load; ConfigException for what it cannot do."""
    if not config.get("transforms"):
        for name in sorted(config):
            if name.startswith(("transforms", "predicates")):
                raise ConfigException(f"{name} has no effect without transforms: leave it out")
        return None
    try:
        from ottla.sinks.steps.chain import chain_steps
    except ModuleNotFoundError as fault:
        raise ConfigException(f"transforms of the lake sink need {fault.name}: pip install 'ottla[lake]'") from fault
    steps = chain_steps(config)
    for option in ("debezium", "rename", "resume.from.table"):
        if config.get(option, "false") not in ("false", ""):
            raise ConfigException(f"{option} does not go together with transforms, which change the columns of values")
    made_columns = config.get("json") == "true" or config.get("values") in ("json", "avro", "protobuf")
    if steps.changes_values and not made_columns:
        raise ConfigException(
            "transforms that change fields need values that become columns: give json=true, or values=avro or protobuf"
        )
    return steps


def in_properties(text: str) -> str:
    """A refusal of the loader with this connector's options in place of flags."""
    return _FLAG.sub(lambda flag: _SPELT.get(f"--{flag[1]}", flag[0]), text)


class LakeTask(LoadTask):
    """One load, again and again. A round that has begun is not broken off: a stop waits for its end."""

    def __init__(self, config: Config) -> None:
        options = ConfigDef(*LakeSinkConnector.all_options()).parse(config)
        self._name, self._options = config["name"], load_options(config)
        self._steps = steps_of(config)
        self._to, self._pause_s = options["to"], duration_ms(options["every"]) / 1000
        self._topics = [each.strip() for each in config.get("topics", "").split(",") if each.strip()]
        try:
            lake_url(self._to)
        except LakeRefused as fault:
            raise ConfigException.of("to", self._to, str(fault)) from None
        wants = (options["spark.master"], tuple(options["spark.conf"]))
        self._spark = SharedSpark(*wants) if self._options["on"] == "spark" else None
        if self._spark is None and any(wants):
            raise ConfigException("spark.master and spark.conf have an effect with ottla.runner=spark alone")

    async def run(self, worker: Config, run: AsyncJobRun, on_topics: Callable[[Iterable[str]], None]) -> None:
        """Load in a thread of its own until the end of the round in which the task is to end."""
        loop, stop = asyncio.get_running_loop(), threading.Event()

        def told(topics: Iterable[str] | None) -> None:
            loop.call_soon_threadsafe(lambda: run.began() if topics is None else on_topics(topics))

        with ThreadPoolExecutor(1, thread_name_prefix="lake") as thread:
            working = loop.run_in_executor(thread, self._load, worker, stop, told)
            ending = asyncio.ensure_future(run.ending.wait())
            try:
                await asyncio.wait((working, ending), return_when=asyncio.FIRST_COMPLETED)
            finally:
                ending.cancel()
                stop.set()
                await ended(working)
            await working

    def _load(self, worker: Config, stop: threading.Event, told: Callable[[Iterable[str] | None], None]) -> None:
        brokers, client = client_of({**worker, **_of_consumers(worker)})
        options = {**self._options, "bootstrap": brokers, "tell": self._tell, "security": client.security}
        try:
            with opened(self._topics, to=self._to, spark=self._session, steps=self._steps, **options) as loader:
                told(None)
                while not stop.is_set():
                    self._round(loader, stop)
                    told(sorted(loader.loaded.committed.topic_ids))
                    stop.wait(self._pause_s)
        except LakeRefused as fault:
            raise ConnectException(in_properties(str(fault))) from fault
        except ApiError as fault:
            require_login(fault)
            raise
        finally:
            if self._spark is not None:
                self._spark.release()

    def _round(self, loader: Loader, stop: threading.Event) -> None:
        if self._spark is None:
            loader.catch_up(stop)
            return
        while not IN_TURN.acquire(timeout=0.2):
            if stop.is_set():
                return
        try:
            loader.catch_up(stop)
        finally:
            IN_TURN.release()

    @property
    def _session(self) -> Callable[[], SparkSession] | None:
        return None if self._spark is None else self._spark.session

    def _tell(self, line: str) -> None:
        warning = line.startswith("warning: ")
        log.log(logging.WARNING if warning else logging.INFO, "%s: %s", self._name, line.removeprefix("warning: "))


def _of_consumers(worker: Config) -> dict[str, str]:
    """The options of security that a worker has for its consumers alone."""
    return {name: text for name, text in below(worker, "consumer.").items() if name in SECURITY}
