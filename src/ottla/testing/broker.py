"""A broker in a thread of the test process, in memory unless it is given a directory, on a free port.

tests and fixtures come here; next door is server/broker_server.py, the same broker that `ottla start` runs.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from ottla.client.admin.given import config_text
from ottla.config.resolve import read_static
from ottla.kernel.errors import ErrorCode
from ottla.server.broker_server import BrokerServer
from ottla.server.main import new_event_loop
from ottla.wire.apis import APIS

if TYPE_CHECKING:
    from ottla.broker.requests.dispatch import Dispatch
    from ottla.client.model import ConsumedRecord, IsolationLevel

T = TypeVar("T")
_START_S = 30.0
_DEFAULTS = {"group.initial.rebalance.delay.ms": "0"}
_KEYS = {api.name: key for key, api in APIS.items()}


class TestBroker:
    """A broker in a thread of this process. It starts on `start` or `with`, and stops on `stop` or at the block's end.

    Unlike `ottla start` a group's first rebalance is not delayed, unless `group.initial.rebalance.delay.ms` is set.

        from ottla.client import Producer
        from ottla.testing import TestBroker

        with TestBroker({"num.partitions": "4"}) as broker:
            with Producer(broker.bootstrap_servers) as producer:
                print(producer.produce(broker.new_topic_name(), "one book").result())
    """

    __test__ = False  # pytest takes classes named Test* for tests

    def __init__(
        self, options: Mapping[str, str | int | float] | None = None, *, directory: Path | str | None = None
    ) -> None:
        """Every option of a broker may be set, in Kafka's names: numbers, True, False, or text as in a properties file.

        The broker listens on a free port of 127.0.0.1 unless `listeners` is among the options. With a `directory` it
        keeps its data there, and a later broker goes on from it; without one everything is in memory.
        """
        given = {name: _option_text(name, value) for name, value in (options or {}).items()}
        self._options = {"listeners": "PLAINTEXT://127.0.0.1:0", **_DEFAULTS, **given}
        if directory is not None:
            self._options["log.dirs"] = str(directory)
        self._memory = directory is None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._server: BrokerServer | None = None
        self._topics = itertools.count()
        self._failing = False

    @property
    def bootstrap_servers(self) -> str:
        """The value for clients' `bootstrap.servers`, HOST:PORT; RuntimeError where the broker is not running."""
        return self._running().client_address

    def start(self) -> TestBroker:
        """Start the broker and return it once clients are served; raises what kept it from starting.

        A broker that runs already goes on as it is.
        ConfigError names options that there are not or whose values will not do, TimeoutError says that the start takes
        longer than 30 seconds.

            broker = TestBroker().start()
            print(broker.bootstrap_servers)
            broker.stop()
        """
        if self._server is not None:
            return self
        texts = read_static(command_line=self._options).texts
        ready: threading.Event = threading.Event()
        failure: list[BaseException] = []

        def run() -> None:
            loop = self._loop = new_event_loop()
            asyncio.set_event_loop(loop)
            try:
                self._server = BrokerServer(loop, texts, memory=self._memory)
                loop.run_until_complete(self._server.start())
            except BaseException as error:
                failure.append(error)
                if self._server is not None:
                    loop.run_until_complete(self._server.stop())
                loop.close()
                return
            finally:
                ready.set()
            loop.run_forever()
            loop.run_until_complete(self._server.stop())
            loop.close()

        self._thread = threading.Thread(target=run, name="ottla-broker", daemon=True)
        self._thread.start()
        if not ready.wait(_START_S):
            raise TimeoutError(f"the broker was not ready within {_START_S:.0f} s")
        if failure:
            self._thread.join()
            self._server = None
            raise failure[0]
        return self

    def stop(self) -> None:
        """End the broker and its thread. What it kept in memory is gone; a broker that is not running stays so."""
        if self._loop is not None and self._thread is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._server = None

    def new_topic_name(self, prefix: str = "topic") -> str:
        """A name that no other call of this broker returns. The topic is not made by it."""
        return f"{prefix}-{next(self._topics)}"

    def records(
        self,
        topic: str,
        *,
        at_least: int = 0,
        isolation_level: IsolationLevel | str = "read_uncommitted",
        timeout: float = 30,
    ) -> list[ConsumedRecord]:
        """All records of a topic, by partition and offset; none where the topic does not exist.

        Waits until there are `at_least` so many, TimeoutError after `timeout` seconds. With "read_committed" records of
        transactions that are open or aborted are left out.

            with TestBroker() as broker:
                with Producer(broker.bootstrap_servers) as producer:
                    producer.produce("orders", "one book", key="anna")
                [record] = broker.records("orders", at_least=1)
                print(record.key, record.value)
        """
        from ottla.testing.reading import read_topic

        return read_topic(
            self.bootstrap_servers, topic, at_least=at_least, isolation_level=isolation_level, timeout=timeout
        )

    def wait_for(self, condition: Callable[[], T], *, timeout: float = 30, what: str | None = None) -> T:
        """Return what `condition` returns as soon as that is true: for what happens in another thread or process.

        An AssertionError, and an error of the client, mean "not yet". TimeoutError after `timeout` seconds has `what`,
        and what the condition returned or raised last.

            with TestBroker() as broker:
                with Producer(broker.bootstrap_servers) as producer:
                    producer.produce("orders", "one book")
                    broker.wait_for(lambda: broker.requests("Produce") >= 1, what="the order was sent")
        """
        from ottla.testing.reading import wait_for

        return wait_for(condition, timeout, what)

    def fail(self, api: str, error: ErrorCode | str | int, *, times: int = 1) -> None:
        """Answer the next `times` requests of an API (`Produce`, `Fetch`, ...) with an error, and do nothing else.

        `error` is one of Kafka's codes, its name or its number. Raises ValueError for an API or an error that there is
        not, with the nearest one, and for `times` below 1, RuntimeError where the broker is not running.

            with TestBroker() as broker:
                broker.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=2)
                with Producer(broker.bootstrap_servers) as producer:
                    producer.produce("orders", "one book").result()
                print(broker.requests("Produce"))
        """
        code, key = _code(error), _key(api)
        if times < 1:
            raise ValueError(f"times is at least 1, not {times}")

        def inject() -> None:
            self._dispatch.injected.setdefault(key, []).extend([code] * times)

        self.call(inject)
        self._failing = True

    def heal(self) -> None:
        """Take back what `fail` has asked for and no request has met yet."""
        if self._failing and self._server is not None:
            self.call(self._dispatch.injected.clear)
        self._failing = False

    def requests(self, api: str) -> int:
        """The number of requests of an API since the start, those answered with an injected error included.

        Raises ValueError for an API that there is not.
        """
        return self.call(lambda: self._dispatch.requests[_key(api)])

    @property
    def _dispatch(self) -> Dispatch:
        node = self._running().node
        assert node is not None
        return node.dispatch

    def call(self, function: Callable[[], T]) -> T:
        """Run a function on the broker's loop, between two requests, and return what it returns.

        Raises what the function raises, RuntimeError where the broker is not running, TimeoutError after 30 seconds.
        """
        self._running()
        assert self._loop is not None

        async def run() -> T:
            return function()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(_START_S)

    def _running(self) -> BrokerServer:
        if self._server is None:
            raise RuntimeError("the broker is not running: call start(), or use it in a with statement")
        return self._server

    def __enter__(self) -> TestBroker:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _option_text(name: str, value: object) -> str:
    """The value of an option as text."""
    text = config_text(name, value)
    if text is None:
        raise TypeError(f"the option {name!r} is text or a number, not None: leave it out for its default")
    return text


def _key(api: str) -> int:
    if api not in _KEYS:
        raise ValueError(f"no API is called {api!r}; {_nearest(api, sorted(_KEYS))}")
    return _KEYS[api]


def _code(error: ErrorCode | str | int) -> ErrorCode:
    """An error by its name or number; ValueError where there is none, and for NONE, which is success."""
    names = [code.name for code in ErrorCode if code is not ErrorCode.NONE]
    if isinstance(error, str):
        if error in names:
            return ErrorCode[error]
        raise ValueError(f"no error is called {error!r}; {_nearest(error, names)}")
    try:
        code = ErrorCode(error)
    except ValueError:
        raise ValueError(f"no error has the number {error!r}; see ottla.client.ErrorCode") from None
    if code is ErrorCode.NONE:
        raise ValueError("NONE is no failure: give the error to answer, for example NOT_LEADER_OR_FOLLOWER")
    return code


def _nearest(name: str, known: list[str]) -> str:
    """The remedy for a name that is not known: the nearest one, by its beginning or its letters, or all of them."""
    folded = {each.lower().replace("_", ""): each for each in known}
    wanted = name.lower().replace("_", "")
    near = [folded[each] for each in folded if wanted and each.startswith(wanted)]
    near = near or [folded[each] for each in get_close_matches(wanted, folded, n=1)]
    return f"did you mean {min(near, key=len)}?" if near else f"there are {', '.join(known)}"
