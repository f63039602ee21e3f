"""A broker in a thread of the test process, in memory unless it is given a directory, on a free port.

tests and fixtures come here; next door is server/broker_server.py, the same broker that `ottla start` runs.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from ottla.config.resolve import read_static
from ottla.kernel.errors import ErrorCode
from ottla.server.broker_server import BrokerServer
from ottla.server.main import new_event_loop
from ottla.wire.apis import APIS

if TYPE_CHECKING:
    from ottla.broker.requests.dispatch import Dispatch

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

    def __init__(self, options: Mapping[str, str] | None = None, *, directory: Path | str | None = None) -> None:
        """Every option of a broker may be set, in Kafka's names, with text as in a `server.properties`.

        The broker listens on a free port of 127.0.0.1 unless `listeners` is among the options. With a `directory` it
        keeps its data there, and a later broker goes on from it; without one everything is in memory.
        """
        self._options = {"listeners": "PLAINTEXT://127.0.0.1:0", **_DEFAULTS, **(options or {})}
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

    def fail(self, api: str, error: ErrorCode | str, *, times: int = 1) -> None:
        """Answer the next `times` requests of an API (`Produce`, `Fetch`, ...) with an error, and do nothing else.

        `error` is one of Kafka's codes or its name. Raises ValueError for an API that there is not, KeyError for a name
        that is no error's, RuntimeError where the broker is not running.

            with TestBroker() as broker:
                broker.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=2)
                with Producer(broker.bootstrap_servers) as producer:
                    producer.produce("orders", "one book").result()
                print(broker.requests("Produce"))
        """
        code = ErrorCode[error] if isinstance(error, str) else error
        key = _key(api)

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


def _key(api: str) -> int:
    if api not in _KEYS:
        raise ValueError(f"no API is called {api!r}; there are {', '.join(sorted(_KEYS))}")
    return _KEYS[api]
