# SPDX-License-Identifier: BSD-3-Clause
"""Handles: how a store is opened, and one handle for each thread."""
from __future__ import annotations

import operator
import os
import threading
import weakref
from datetime import timedelta
from typing import Any, Dict, Optional, Tuple, Union

from ._errors import check
from ._farkv import ffi, lib

Address = Union[str, bytes, "os.PathLike[str]", None]
Buffer = Union[bytes, bytearray, memoryview]
# A time to live: seconds; None: for ever.
TTL = Union[float, timedelta, None]


def pin(data: Any, writable: bool = False) -> Tuple[Any, int, Any]:
    """A pointer to the buffer of `data`, its length in bytes, and what must be kept meanwhile.

    Not cffi's own object for the buffer: if that and a memoryview under it are garbage of one
    cycle, such as a frame of a traceback, CPython 3.11 crashes."""
    try:
        buffer = ffi.from_buffer(data, require_writable=writable)
    except TypeError:
        raise TypeError("keys, values and buffers are bytes, bytearray or another buffer of "
                        "bytes, not %s" % type(data).__name__) from None
    return ffi.cast("char *", buffer), ffi.sizeof(buffer), memoryview(data)


def argument(data: Any) -> Tuple[Any, int, Any]:
    """As pin(), for an argument of a call, which may be bytes: that is faster."""
    return (data, len(data), None) if type(data) is bytes else pin(data)


class Options:
    """The arguments of farkv_open(), kept for the handles of other threads."""

    def __init__(self, uri: Address, *, readonly: bool = False, connect_timeout: float = 5.0,
                 op_timeout: float = 5.0, name: Optional[str] = None,
                 keys: Optional[str] = None, key: Optional[str] = None,
                 cache_entries: Optional[int] = None, cache_bytes: Optional[int] = None,
                 queue_depth: int = 0) -> None:
        def text(s: Optional[str]) -> Any:
            return ffi.NULL if s is None else ffi.new("char[]", os.fsencode(s))

        self._uri = ffi.NULL if uri is None else ffi.new("char[]", os.fsencode(uri))
        self._texts = (text(name), text(keys), text(key))
        o = ffi.new("struct farkv_options *")
        lib.farkv_options_init_sized(o, ffi.sizeof("struct farkv_options"))
        o.flags = lib.FARKV_OPEN_READONLY if readonly else 0
        o.connect_timeout_ms = milliseconds(connect_timeout)
        o.op_timeout_ms = milliseconds(op_timeout)
        o.name, o.keys, o.key = self._texts
        o.queue_depth = queue_depth
        if cache_entries is not None:
            o.cache_entries = cache_entries
        if cache_bytes is not None:
            o.cache_bytes = cache_bytes
        self._options = o

    def open(self) -> Any:
        out = ffi.new("struct farkv **")
        check(lib.farkv_open(self._uri, self._options, out))
        return out[0]


def milliseconds(seconds: float) -> int:
    """For a time limit: at least 1, because 0 is the default."""
    if not seconds > 0:
        raise ValueError("a time limit is a number of seconds greater than 0, not %r" % seconds)
    return min(max(round(seconds * 1000), 1), 0xFFFFFFFF)


def ttl_ms(ttl: TTL) -> int:
    """What the library calls ttl_ms. No time to live becomes 0 by rounding: 0 is for ever."""
    if ttl is None:
        return 0
    ms = (ttl.total_seconds() if isinstance(ttl, timedelta) else ttl) * 1000
    if not 0 < ms <= lib.FARKV_TTL_MAX_MS:
        raise ValueError("ttl is a number of seconds or a timedelta, greater than 0 and at most "
                         "68 years, or None: not %r" % (ttl,))
    return max(round(ms), 1)


def uint64(what: str, number: int) -> int:
    """A delta or first number of a counter."""
    number = operator.index(number)
    if not 0 <= number < 1 << 64:
        raise OverflowError("%s is a number from 0 to 2**64 - 1, not %d" % (what, number))
    return number


def write_options(ttl: TTL, user: int) -> Any:
    """A struct farkv_write_options, or NULL if nothing is asked for."""
    if ttl is None and not user:
        return ffi.NULL
    return ffi.new("struct farkv_write_options *", {
        "size": ffi.sizeof("struct farkv_write_options"), "ttl_ms": ttl_ms(ttl), "user": user})


class Handle:
    """A handle, and structs for results, so that a call allocates none. Closed with its last
    reference: a call in another thread holds one as long as it runs."""

    __slots__ = ("kv", "value", "size", "number", "ranges", "round")

    def __init__(self, options: Options) -> None:
        # What is registered, by address.
        self.ranges: Dict[int, Any] = {}
        self.round = 0
        self.kv = options.open()
        self.value = ffi.new("struct farkv_value *")
        self.size = ffi.new("size_t *")
        self.number = ffi.new("uint64_t *")

    def __del__(self) -> None:
        # Before the ranges are anybody else's memory. Without kv, opening has failed.
        if hasattr(self, "kv"):
            lib.farkv_close(self.kv)

    def register(self, wanted: Dict[int, Any]) -> None:
        """Register these ranges and no others."""
        for address in [a for a in self.ranges if self.ranges[a] is not wanted.get(a)]:
            check(lib.farkv_buf_unregister(self.kv, self.ranges[address][0]))
            del self.ranges[address]
        for address, entry in wanted.items():
            if address not in self.ranges:
                check(lib.farkv_buf_register(self.kv, entry[0], entry[1]))
                self.ranges[address] = entry


class Handles:
    """The handles of a store: each thread opens one at its first call, which ends with the
    thread. A child of fork() opens its own."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._closed = False
        self._local = threading.local()
        # Ranges to be registered, replaced as a whole, and the number of replacements.
        self._ranges: Tuple[int, Dict[int, Any]] = (0, {})
        self._lock = threading.Lock()
        self.get()
        _all.add(self)

    def get(self) -> Handle:
        # close() may replace it meanwhile: a handle of the old one ends with this call.
        local = self._local
        try:
            handle: Handle = local.handle
        except AttributeError:
            if self._closed:
                raise ValueError("the store is closed") from None
            handle = local.handle = Handle(self._options)
        changes, ranges = self._ranges
        if handle.round != changes:
            handle.register(ranges)
            handle.round = changes
        return handle

    def add_range(self, pointer: Any, length: int, kept: Any) -> None:
        """Register memory with this thread's handle now, with others' at their next call."""
        address = int(ffi.cast("uintptr_t", pointer))
        with self._lock:
            changes, ranges = self._ranges
            if address in ranges:
                raise ValueError("this memory is registered already")
            self._ranges = (changes + 1, {**ranges, address: (pointer, length, kept)})
        try:
            self.get()
        except Exception:
            self.remove_range(pointer)
            raise

    def remove_range(self, pointer: Any) -> None:
        address = int(ffi.cast("uintptr_t", pointer))
        with self._lock:
            changes, ranges = self._ranges
            if address not in ranges:
                raise ValueError("no registered memory begins there")
            self._ranges = (changes + 1,
                            {a: entry for a, entry in ranges.items() if a != address})
        self.get()

    def close(self) -> None:
        self._closed = True
        self._ranges = (0, {})
        # The only reference to handles that no call uses at the moment.
        self._local = threading.local()

    @property
    def closed(self) -> bool:
        return self._closed

    def forget(self) -> None:
        self._local = threading.local()
        self._lock = threading.Lock()


_all: "weakref.WeakSet[Handles]" = weakref.WeakSet()


def _after_fork() -> None:
    for handles in list(_all):
        handles.forget()


os.register_at_fork(after_in_child=_after_fork)
