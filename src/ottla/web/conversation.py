"""One HTTP/1.1 connection: requests in, answers out, one after the other. h11 reads and writes the protocol."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Callable

import h11

from ottla.web.exchange import Handler, HttpError, Request, Response, Subject
from ottla.web.limits import Limits

PIECE_BYTES = 1 << 16
_LINGER_S = 2.0
_WORDS = 300
"""Characters of a refusal that may repeat what the client has sent."""
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
access_log = logging.getLogger("ottla.web.access")
log = logging.getLogger("ottla.web")


class AnswerBroken(Exception):
    """A body of many pieces failed after its head was sent."""


class Conversation:
    """Serves a connection until either side ends it. `on_state` is told when `waiting` changes."""

    def __init__(
        self, handler: Handler, limits: Limits, reader: asyncio.StreamReader, writer: asyncio.StreamWriter,
        on_state: Callable[[Conversation], None],
    ) -> None:  # fmt: skip
        self._handler = handler
        self._limits = limits
        self._reader = reader
        self._writer = writer
        self._on_state = on_state
        self._protocol = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.head_bytes)
        self._client = str((writer.get_extra_info("peername") or ("",))[0])
        self._subject = (writer.get_extra_info("peercert") or {}).get("subject", ())
        self._stopping = False
        self._sent = 0
        """Bytes in the body of the last answer."""
        self.waiting = True
        """True while no whole request is here: the connection may be closed without harm."""
        self.endless = False
        """True from when an answer is sent that does not end by itself; it is the connection's last."""
        writer.transport.set_write_buffer_limits(high=0)  # drain() returns once the kernel has all

    async def run(self) -> None:
        """Answer requests until the client leaves, breaks the protocol, or the server stops."""
        wait_s = self._limits.request_s
        while not self._stopping:
            self._wait(waiting=True)
            try:
                request = await self._request(wait_s)
            except HttpError as refusal:
                await self._refuse(refusal)
                return
            if request is None:
                return
            self._wait(waiting=False)
            await self._answer(request)
            if self._protocol.our_state is not h11.DONE or self._protocol.their_state is not h11.DONE:
                return
            self._protocol.start_next_cycle()
            wait_s = self._limits.idle_s

    def stop(self) -> None:
        """End after the answer that is under way."""
        self._stopping = True

    def _wait(self, *, waiting: bool) -> None:
        self.waiting = waiting
        self._on_state(self)

    async def _request(self, wait_s: float) -> Request | None:
        """The next request with its body; None when the client leaves, or sends nothing for `wait_s`."""
        head: h11.Request | None = None
        body = bytearray()
        begun = self._protocol.trailing_data[0] != b""
        try:
            async with asyncio.timeout(self._limits.request_s if begun else wait_s) as deadline:
                while True:
                    event = self._event()
                    if isinstance(event, h11.Request):
                        head = event
                        self._refuse_long(int(_header(head, b"content-length") or 0))
                        await self._continue()
                    elif isinstance(event, h11.Data):
                        body += event.data
                        self._refuse_long(len(body))
                    elif isinstance(event, h11.EndOfMessage) and head is not None:
                        return _request_of(head, bytes(body), self._client, self._subject)
                    elif event is h11.NEED_DATA:
                        data = await self._reader.read(PIECE_BYTES)
                        if not begun:
                            begun = True
                            deadline.reschedule(asyncio.get_running_loop().time() + self._limits.request_s)
                        self._protocol.receive_data(data)
                    else:
                        return None
        except TimeoutError:
            if not begun:
                return None
            raise HttpError(408, "HTTP 408 Request Timeout: the request did not arrive whole in time") from None

    def _event(self) -> object:
        try:
            return self._protocol.next_event()
        except h11.RemoteProtocolError as fault:
            status = fault.error_status_hint
            raise HttpError(status, f"HTTP {status}: {str(fault)[:_WORDS]}") from fault

    def _refuse_long(self, length: int) -> None:
        if length > self._limits.body_bytes:
            raise HttpError(413, f"HTTP 413: the body is larger than {self._limits.body_bytes} bytes")

    async def _continue(self) -> None:
        """Tell a client that asked whether to send its body that it may."""
        if self._protocol.they_are_waiting_for_100_continue:
            await self._send(self._protocol.send(h11.InformationalResponse(status_code=100, headers=[])))

    async def _answer(self, request: Request) -> None:
        """Let the handler answer, send the answer, write the line of access."""
        began = time.monotonic()
        response = await self._response(request)
        bodiless = request.method == "HEAD"
        try:
            if response.endless and not bodiless:
                await self._respond_endlessly(response)
            else:
                await self._respond(response, bodiless=bodiless)
        finally:
            access_log.info(
                '%s "%s %s" %d %d bytes, %.1f ms', self._client, request.method, request.path, response.status,
                self._sent, (time.monotonic() - began) * 1e3,
            )  # fmt: skip

    async def _response(self, request: Request) -> Response:
        """The handler's answer; a bug of the handler costs this request alone."""
        try:
            return await self._handler(request)
        except HttpError as refusal:
            return refusal.response()
        except Exception:
            log.exception("%s %s failed", request.method, request.path)
            return HttpError(500, "HTTP 500 Internal Server Error: the log of the server has the reason").response()

    async def _refuse(self, refusal: HttpError) -> None:
        """Answer what is no request; then let the client read that before the connection closes.

        A connection that closes over bytes that were not read is reset, and the answer with it.
        """
        access_log.info('%s "-" %d %s', self._client, refusal.status, refusal.message)
        if self._protocol.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        response = refusal.response()
        await self._respond(
            Response(response.body, response.media_type, response.status, (("Connection", "close"),)), bodiless=False
        )
        if self._writer.can_write_eof():
            self._writer.write_eof()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LINGER_S):
                while await self._reader.read(PIECE_BYTES):
                    pass

    async def _respond_endlessly(self, response: Response) -> None:
        """Send an answer until it ends, or the client leaves."""
        task = asyncio.current_task()
        assert task is not None
        self.endless = self._stopping = True
        leaving = asyncio.create_task(self._end_with_client(task))
        try:
            await self._respond(response, bodiless=False)
        finally:
            leaving.cancel()
            await asyncio.wait({leaving})

    async def _end_with_client(self, task: asyncio.Task[None]) -> None:
        """Cancel the task when the client closes the connection: an answer without events would not notice."""
        with contextlib.suppress(OSError):
            while await self._reader.read(PIECE_BYTES):
                pass
        task.cancel()

    async def _respond(self, response: Response, *, bodiless: bool) -> None:
        """Send an answer, without its body for HEAD."""
        whole = response.body if isinstance(response.body, bytes) else None
        headers = [("Date", _date()), *response.headers]
        if response.status not in (204, 304):
            headers.append(("Content-Type", response.media_type))
            headers += [("Content-Length", str(len(whole)))] if whole is not None else []
        if self._stopping:
            headers.append(("Connection", "close"))
        head = self._protocol.send(h11.Response(status_code=response.status, headers=headers)) or b""
        self._sent = 0
        if whole is not None and not bodiless and len(whole) <= PIECE_BYTES:
            head += self._protocol.send(h11.Data(data=whole)) or b""
            self._sent = len(whole)
        elif not bodiless:
            if whole is None:  # the first piece may take its time: tell the client that its request is served
                await self._send(head)
                head = b""
            async with contextlib.aclosing(_pieces(response.body)) as pieces:
                async for piece in pieces:
                    await self._send(head + (self._protocol.send(h11.Data(data=piece)) or b""))
                    head, self._sent = b"", self._sent + len(piece)
        await self._send(head + (self._protocol.send(h11.EndOfMessage()) or b""))

    async def _send(self, data: bytes | None) -> None:
        """Write, and wait until the kernel has taken it; TimeoutError if the client reads too slowly."""
        if data:
            self._writer.write(data)
            if self._writer.transport.get_write_buffer_size() == 0 and not self._writer.transport.is_closing():
                return
            async with asyncio.timeout(self._limits.send_s):
                await self._writer.drain()


async def _pieces(body: bytes | AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    if isinstance(body, bytes):
        for start in range(0, len(body), PIECE_BYTES):
            yield body[start : start + PIECE_BYTES]
        return
    async with contextlib.aclosing(body):
        try:
            async for piece in body:
                if piece:
                    yield piece
        except Exception as fault:
            raise AnswerBroken("the rest of an answer cannot be made") from fault


def _request_of(head: h11.Request, body: bytes, client: str, subject: Subject) -> Request:
    target = head.target.decode("ascii")
    if target.lower().startswith(("http://", "https://")):  # the absolute form, which clients send to proxies
        target = "/" + target.split("://", 1)[1].partition("/")[2]
    path, _, query = target.partition("?")
    headers: dict[str, str] = {}
    for name, value in head.headers:
        key, text = name.decode("ascii"), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return Request(head.method.decode("ascii"), path, query, headers, body, client, subject=subject)


def _header(head: h11.Request, wanted: bytes) -> bytes:
    return next((value for name, value in head.headers if name == wanted), b"")


def _date() -> str:
    """The time now for the header Date; strftime would name days in the language of the process."""
    now = time.gmtime()
    day, month = _DAYS[now.tm_wday], _MONTHS[now.tm_mon - 1]
    return f"{day}, {now.tm_mday:02} {month} {now.tm_year} {now.tm_hour:02}:{now.tm_min:02}:{now.tm_sec:02} GMT"
