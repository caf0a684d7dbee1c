# SPDX-License-Identifier: BSD-3-Clause
"""A store for asyncio: requests in flight on one handle, and its event descriptor.

    async with await farkv.aio.connect() as store:
        await store.put(b"hello", b"world")
        values = await store.mget([b"hello", b"x"])

A store belongs to the loop that it was opened in. Calls that are no requests (scan, counters,
statistics) are those of farkv.Store, by asyncio.to_thread().
"""
from __future__ import annotations

import asyncio
import os
import random
from collections import deque
from types import TracebackType
from typing import Any, Callable, Deque, Dict, List, Optional, Sequence, Tuple, Type, Union

from ._errors import Exists, NotFound, TooSmall, VersionMismatch, error_of
from ._farkv import ffi, lib
from ._handle import TTL, Address, Buffer, Options, pin, ttl_ms, uint64, write_options
from ._store import Value, value_of

_POLL_MAX = 128
_NOTHING = (ffi.NULL, 0, None)


def is_near(left: Optional[float], wanted: Optional[float]) -> bool:
    """True if farkv_touch() would not write a value with this time left, None being for ever."""
    if left is None or wanted is None:
        return left == wanted
    return wanted * 7 / 8 <= left <= wanted


class Store:
    """A store with requests in flight; made by connect(). Requests have no order: await one to
    begin the next after it. A request whose await is cancelled is executed all the same."""

    def __init__(self, kv: Any) -> None:
        self._kv = ffi.gc(kv, lib.farkv_close)
        self._loop = asyncio.get_running_loop()
        self._pid = os.getpid()
        self._tag = 0
        # What waits for room in the queue: tag, kind, key, value, version, buffer, options.
        self._waiting: Deque[Tuple[int, int, Any, Any, int, Any, Any]] = deque()
        # What is in flight or waits: the future, and what the request refers to.
        self._pending: Dict[int, Tuple[Any, ...]] = {}
        self._turn = False
        self._completions = ffi.new("struct farkv_completion[]", _POLL_MAX)
        self._requests = ffi.new("struct farkv_request[]", _POLL_MAX)
        fd = lib.farkv_event_fd(self._kv)
        if fd < 0:
            raise error_of(fd)
        self._fd = fd
        self._loop.add_reader(fd, self._run)

    # ---- life

    async def close(self) -> None:
        """End the store. Requests in flight raise ConnectionAbortedError: they may have been
        executed."""
        if self._kv is None:
            return
        self._loop.remove_reader(self._fd)
        kv, self._kv = self._kv, None
        pending = self._fail(ConnectionAbortedError("the store was closed"))
        # It may wait for the server. What requests refer to is kept until then.
        await self._loop.run_in_executor(None, ffi.release, kv)
        del pending

    async def __aenter__(self) -> "Store":
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]],
                        value: Optional[BaseException],
                        traceback: Optional[TracebackType]) -> None:
        await self.close()

    # ---- requests

    def _submit(self, kind: int, key: Buffer, value: Optional[Buffer] = None, version: int = 0,
                buffer: Any = None, options: Any = ffi.NULL) -> "asyncio.Future[Any]":
        if self._kv is None:
            raise ValueError("the store is closed")
        if self._pid != os.getpid():
            raise error_of(lib.FARKV_EDISCONNECTED,
                           "a child of fork() opens a store of its own: farkv.aio.connect()")
        self._tag += 1
        future: "asyncio.Future[Any]" = self._loop.create_future()
        k = pin(key)
        v = None if value is None else pin(value)
        self._pending[self._tag] = (future, kind, k, v, buffer)
        self._waiting.append((self._tag, kind, k, v, version, buffer, options))
        # All requests of this turn of the loop are submitted together.
        if not self._turn:
            self._turn = True
            self._loop.call_soon(self._run)
        return future

    def _run(self) -> None:
        """Submit and poll, until neither gets anywhere."""
        self._turn = False
        while self._kv is not None:
            submitted = self._submit_waiting()
            n = lib.farkv_poll(self._kv, self._completions, _POLL_MAX)
            if n < 0:
                self._fail(error_of(n))
                return
            for i in range(n):
                self._complete(self._completions[i])
            if not n and not (submitted and self._waiting):
                return

    def _fail(self, error: Exception) -> Dict[int, Tuple[Any, ...]]:
        """End all requests, and return what they refer to."""
        pending, self._pending = self._pending, {}
        self._waiting.clear()
        for entry in pending.values():
            if not entry[0].done():
                entry[0].set_exception(error)
        return pending

    def _submit_waiting(self) -> int:
        n = min(len(self._waiting), _POLL_MAX)
        for i in range(n):
            tag, kind, key, value, version, buffer, options = self._waiting[i]
            r = self._requests[i]
            r.tag, r.kind, r.expected, r.options = tag, kind, version, options
            r.key, r.key_len, _ = key
            r.value, r.value_len, _ = value or _NOTHING
            r.buf, r.buf_len, _ = buffer or _NOTHING
        if not n:
            return 0
        taken: int = lib.farkv_submit(self._kv, self._requests, n)
        if taken == lib.FARKV_EAGAIN:
            return 0
        if taken < 0:
            self._fail(error_of(taken))
            return 0
        for _ in range(taken):
            self._waiting.popleft()
        return taken

    def _complete(self, c: Any) -> None:
        entry = self._pending.pop(c.tag, None)
        if entry is None:
            return
        future, kind, _, _, buffer = entry
        if future.done():
            return
        if c.result:
            error = error_of(c.result, ffi.string(c.detail).decode(errors="replace"))
            if isinstance(error, TooSmall):
                error.needed = c.value.len
            future.set_exception(error)
        elif kind != lib.FARKV_REQUEST_GET:
            future.set_result(c.version)
        elif buffer is not None:
            future.set_result(c.value.len)
        else:
            future.set_result(value_of(c.value))

    # ---- operations: as those of farkv.Store

    async def gets(self, key: Buffer) -> Value:
        value: Value = await self._submit(lib.FARKV_REQUEST_GET, key)
        return value

    async def get(self, key: Buffer, default: Any = None) -> Any:
        try:
            return (await self._submit(lib.FARKV_REQUEST_GET, key)).data
        except KeyError:
            return default

    async def get_into(self, key: Buffer, buffer: Union[bytearray, memoryview]) -> int:
        """The buffer must not be used before the request is complete, even if the await was
        cancelled."""
        return int(await self._submit(lib.FARKV_REQUEST_GET, key, buffer=pin(buffer, True)))

    async def exists(self, key: Buffer) -> bool:
        try:
            await self._submit(lib.FARKV_REQUEST_EXISTS, key)
        except KeyError:
            return False
        return True

    async def put(self, key: Buffer, value: Buffer, *, ttl: TTL = None, user: int = 0) -> None:
        """`ttl` counts from when the store begins the request, which may wait for room."""
        await self._submit(lib.FARKV_REQUEST_PUT, key, value, options=write_options(ttl, user))

    async def add(self, key: Buffer, value: Buffer, *, ttl: TTL = None, user: int = 0) -> None:
        await self._submit(lib.FARKV_REQUEST_ADD, key, value, options=write_options(ttl, user))

    async def replace(self, key: Buffer, value: Buffer, *, ttl: TTL = None,
                      user: int = 0) -> None:
        await self._submit(lib.FARKV_REQUEST_REPLACE, key, value,
                           options=write_options(ttl, user))

    async def cas(self, key: Buffer, value: Buffer, version: int, *, ttl: TTL = None,
                  user: int = 0) -> int:
        return int(await self._submit(lib.FARKV_REQUEST_CAS, key, value, version,
                                      options=write_options(ttl, user)))

    async def touch(self, key: Buffer, ttl: TTL) -> None:
        await self.get_touch(key, ttl)

    async def get_touch(self, key: Buffer, ttl: TTL) -> Value:
        """A get, and a cas with the version that it found; both again while others write the
        key."""
        wanted = ttl_ms(ttl) / 1000 or None
        while True:
            value = await self.gets(key)
            if is_near(value.ttl, wanted):
                return value
            try:
                version = await self.cas(key, value.data, value.version, ttl=ttl, user=value.user)
            except VersionMismatch:
                continue
            return value._replace(version=version, ttl=wanted)

    async def delete(self, key: Buffer, version: Optional[int] = None) -> None:
        if version is None:
            await self._submit(lib.FARKV_REQUEST_DELETE, key)
        else:
            await self._submit(lib.FARKV_REQUEST_DELETE_CAS, key, version=version)

    async def mget(self, keys: Sequence[Buffer]) -> List[Optional[bytes]]:
        return list(await asyncio.gather(*(self.get(key) for key in keys)))

    async def mput(self, items: Sequence[Tuple[Buffer, Buffer]], *, ttl: TTL = None,
                   user: int = 0) -> None:
        await asyncio.gather(*(self.put(key, value, ttl=ttl, user=user) for key, value in items))

    # ---- a get and a cas, until no other write comes in between

    async def _replaced(self, key: Buffer, old: Value, data: Buffer, ttl: TTL) -> bool:
        """False if another write came first."""
        try:
            await self.cas(key, data, old.version, ttl=ttl, user=old.user)
            return True
        except (VersionMismatch, NotFound):
            await asyncio.sleep(random.random() / 10000)
            return False

    async def _count(self, key: Buffer, step: Callable[[int], int], initial: Optional[int],
                     ttl: TTL) -> int:
        if initial is not None:
            initial = uint64("initial", initial)
        elif ttl is not None:
            raise ValueError("ttl is that of a new key: it needs `initial`")
        while True:
            try:
                value = await self.gets(key)
            except NotFound:
                if initial is None:
                    raise
                try:
                    await self.add(key, b"%d" % initial, ttl=ttl)
                    return initial
                except Exists:
                    continue
            text = value.data.rstrip(b" ")
            if not (text.isdigit() and len(text) <= 20 and int(text) < 1 << 64):
                raise error_of(lib.FARKV_EINVAL, "the value is no decimal number below 2^64")
            n = step(int(text))
            if await self._replaced(key, value, b"%d" % n, value.ttl):
                return n

    async def incr(self, key: Buffer, delta: int = 1, *, initial: Optional[int] = None,
                   ttl: TTL = None) -> int:
        """As farkv.Store's. If it is cancelled, it has counted once or not at all."""
        more = uint64("delta", delta)
        return await self._count(key, lambda n: (n + more) % (1 << 64), initial, ttl)

    async def decr(self, key: Buffer, delta: int = 1, *, initial: Optional[int] = None,
                   ttl: TTL = None) -> int:
        less = uint64("delta", delta)
        return await self._count(key, lambda n: max(n - less, 0), initial, ttl)


async def connect(uri: Address = None, **options: Any) -> Store:
    """Open a store, without holding up the loop. Arguments as those of farkv.Store, and
    `queue_depth`: requests in flight; others wait for room."""
    opts = Options(uri, **options)
    loop = asyncio.get_running_loop()
    return Store(await loop.run_in_executor(None, opts.open))
