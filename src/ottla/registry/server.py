"""A registry behind a listening socket: in an asyncio loop that exists, or in a thread with a loop of its own."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import threading
from collections.abc import AsyncIterator, Iterator

import uvicorn

from ottla.registry.app import RegistryApp
from ottla.registry.service import Registry

_START_S = 60.0


class _Server(uvicorn.Server):
    """Uvicorn without its signal handlers: the program that runs the loop has its own."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listens = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self.listens.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def listening(host: str, port: int) -> socket.socket:
    """A bound socket; port 0 takes a free one. OSError names the address that cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle's algorithm off only where the protocol is named.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except OSError as fault:
        bound.close()
        free = "; choose another with --port (0: a free one)" if fault.errno == errno.EADDRINUSE else ""
        raise OSError(f"cannot listen on {host}:{port}: {fault.strerror or fault}{free}") from fault
    return bound


def url_of(host: str, bound: socket.socket) -> str:
    """The URL of a bound socket."""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{bound.getsockname()[1]}"


@contextlib.asynccontextmanager
async def serving(registry: Registry, bound: socket.socket) -> AsyncIterator[None]:
    """Serve a registry that is open on a bound socket for as long as the block lasts."""
    config = uvicorn.Config(
        RegistryApp(registry), lifespan="off", log_config=None, access_log=False, timeout_graceful_shutdown=5
    )
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=[bound]))
    listens = asyncio.create_task(server.listens.wait())
    try:
        await asyncio.wait({task, listens}, return_when=asyncio.FIRST_COMPLETED)
        if not listens.done():
            raise RuntimeError("the HTTP server ended as it started")
        yield
    finally:
        listens.cancel()
        server.should_exit = True
        await task


class RegistryThread:
    """A registry in a thread of this process; a context manager. `url` is where it listens."""

    def __init__(
        self, bootstrap: str, *, host: str = "127.0.0.1", port: int = 8081, topic: str = "_schemas",
        replication_factor: int = -1, accept_damage: bool = False,
    ) -> None:  # fmt: skip
        self._bootstrap = bootstrap
        self._topic = topic
        self._replication_factor = replication_factor
        self._accept_damage = accept_damage
        self._socket = listening(host, port)
        self.url = url_of(host, self._socket)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None

    def start(self) -> RegistryThread:
        """Return once requests are served; raise the error that kept the registry from starting."""
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=[ready], name="ottla-registry", daemon=True)
        self._thread.start()
        if not ready.wait(_START_S):
            raise TimeoutError(f"the registry was not ready within {_START_S:.0f} s")
        if self._failure is not None:
            self._thread.join()
            raise self._failure
        return self

    def stop(self) -> None:
        """End the registry and its thread; requests under way are still answered."""
        if self._loop is not None and self._stop is not None and self._thread is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()

    def __enter__(self) -> RegistryThread:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self, ready: threading.Event) -> None:
        try:
            asyncio.run(self._serve(ready))
        except BaseException as fault:
            self._failure = fault
        finally:
            self._socket.close()
            ready.set()

    async def _serve(self, ready: threading.Event) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        registry = Registry(
            self._bootstrap,
            topic=self._topic,
            replication_factor=self._replication_factor,
            accept_damage=self._accept_damage,
        )
        async with registry, serving(registry, self._socket):
            ready.set()
            await self._stop.wait()
