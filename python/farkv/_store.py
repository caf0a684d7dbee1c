# SPDX-License-Identifier: BSD-3-Clause
"""A store as a mapping from bytes to bytes."""
from __future__ import annotations

from contextlib import contextmanager
from types import TracebackType
from typing import (Any, Dict, Iterable, Iterator, List, Mapping, MutableMapping, NamedTuple,
                    Optional, Sequence, Tuple, Type, Union)

from ._errors import TooSmall, check, error_of
from ._farkv import ffi, lib
from ._handle import (TTL, Address, Buffer, Handle, Handles, Options, argument, milliseconds,
                      pin, ttl_ms, uint64, write_options)

SIZE_MAX = 2**64 - 1


class Value(NamedTuple):
    """A value, and what is known of it. Later releases may add fields at the end."""

    data: bytes
    version: int
    """for cas()"""
    ttl: Optional[float]
    """seconds until it expires, or None: it never does"""
    user: int
    """the number that it was written with, or 0"""


def value_of(v: Any) -> Value:
    """A copy of a struct farkv_value."""
    return Value(bytes(ffi.buffer(v.data, v.len)), v.version, seconds_left(v), v.user)


def seconds_left(v: Any) -> Optional[float]:
    return v.ttl_ms / 1000 if v.ttl_ms else None


class ScanItem(NamedTuple):
    """A key of a scan."""

    key: bytes
    value_len: int
    version: int


def key_array(keys: Sequence[Buffer]) -> Tuple[Any, List[Any]]:
    """An array of struct farkv_key, and what must be kept as long as it is used."""
    array = ffi.new("struct farkv_key[]", len(keys))
    kept = [pin(key) for key in keys]
    for c_key, (pointer, length, _) in zip(array, kept):
        c_key.key, c_key.key_len = pointer, length
    return array, kept


class Store(MutableMapping[bytes, bytes]):
    """A store of kvserver. See farkv_open() for `uri` and the keyword arguments; times are in
    seconds.

    Any number of threads may use it: each has a handle of its own, which it opens at its first
    call. So a thread's first call may raise what opening raises. A child of fork() opens handles
    of its own. Calls release the GIL.

    Keys and values are bytes, bytearray, memoryview, and all else that has a contiguous buffer;
    it is not copied, and must not change until the call returns.
    """

    def __init__(self, uri: Address = None, *, readonly: bool = False,
                 connect_timeout: float = 5.0, op_timeout: float = 5.0,
                 name: Optional[str] = None, keys: Optional[str] = None,
                 key: Optional[str] = None, cache_entries: Optional[int] = None,
                 cache_bytes: Optional[int] = None) -> None:
        self._handles = Handles(Options(
            uri, readonly=readonly, connect_timeout=connect_timeout, op_timeout=op_timeout,
            name=name, keys=keys, key=key, cache_entries=cache_entries,
            cache_bytes=cache_bytes))

    # ---- life

    def close(self) -> None:
        """Close this store's handles. A call that another thread is in ends first; later ones
        raise ValueError."""
        self._handles.close()

    @property
    def closed(self) -> bool:
        return self._handles.closed

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        self.close()

    # ---- reading

    def _get(self, h: Handle, key: Buffer) -> int:
        k, k_len, _k = argument(key)
        return int(lib.farkv_get(h.kv, k, k_len, h.value))

    def __getitem__(self, key: Buffer) -> bytes:
        h = self._handles.get()
        check(self._get(h, key))
        return bytes(ffi.buffer(h.value.data, h.value.len))

    def get(self, key: Buffer, default: Any = None) -> Any:
        """The value, or `default` if there is none."""
        h = self._handles.get()
        err = self._get(h, key)
        if err:
            if err == lib.FARKV_ENOTFOUND:
                return default
            raise error_of(err)
        return bytes(ffi.buffer(h.value.data, h.value.len))

    def gets(self, key: Buffer) -> Value:
        """The value with its version, time to live and user number. Raises NotFound."""
        h = self._handles.get()
        check(self._get(h, key))
        return value_of(h.value)

    def ttl(self, key: Buffer) -> Optional[float]:
        """Seconds until the value expires, or None: it never does. Reads the value, as gets()
        does. Raises NotFound."""
        h = self._handles.get()
        check(self._get(h, key))
        return seconds_left(h.value)

    def get_into(self, key: Buffer, buffer: Union[bytearray, memoryview]) -> int:
        """Write the value to `buffer`, without another copy, and return its length. The rest of
        the buffer is undefined. Raises NotFound, and TooSmall, which has the length."""
        h = self._handles.get()
        k, k_len, _k = argument(key)
        buf, cap, _buf = pin(buffer, True)
        err = lib.farkv_get_into(h.kv, k, k_len, buf, cap, h.size, ffi.NULL)
        if err:
            error = error_of(err)
            if isinstance(error, TooSmall):
                error.needed = h.size[0]
            raise error
        return int(h.size[0])

    def exists(self, key: Buffer) -> bool:
        h = self._handles.get()
        k, k_len, _k = argument(key)
        err = lib.farkv_exists(h.kv, k, k_len)
        if err and err != lib.FARKV_ENOTFOUND:
            raise error_of(err)
        return not err

    def __contains__(self, key: object) -> bool:
        return self.exists(key)  # type: ignore[arg-type]

    def mexists(self, keys: Sequence[Buffer]) -> List[bool]:
        """For each key whether it has a value."""
        h = self._handles.get()
        array, kept = key_array(keys)
        bitmap = bytearray((len(keys) + 7) // 8)
        check(lib.farkv_mexists(h.kv, array, len(kept), pin(bitmap, True)[0], ffi.NULL))
        return [bool(bitmap[i >> 3] >> (i & 7) & 1) for i in range(len(kept))]

    def prefix(self, keys: Sequence[Buffer]) -> int:
        """How many of the keys have a value, from the first on."""
        h = self._handles.get()
        array, kept = key_array(keys)
        check(lib.farkv_mexists(h.kv, array, len(kept), ffi.NULL, h.size))
        return int(h.size[0])

    def mget(self, keys: Sequence[Buffer]) -> List[Optional[bytes]]:
        """The keys' values; None for a key without one."""
        h = self._handles.get()
        items = ffi.new("struct farkv_get_item[]", len(keys))
        kept = [pin(key) for key in keys]
        for item, (pointer, length, _) in zip(items, kept):
            item.key, item.key_len = pointer, length
        check(lib.farkv_mget(h.kv, items, len(kept)))
        return [None if item.result else bytes(ffi.buffer(item.value.data, item.value.len))
                for item in items]

    def mget_into(self, keys: Sequence[Buffer], buffers: Sequence[Any]) -> List[Optional[int]]:
        """Write each key's value to its buffer, and return their lengths; None for a key without
        a value, and for one whose value the buffer cannot hold."""
        if len(keys) != len(buffers):
            raise ValueError("%d keys and %d buffers" % (len(keys), len(buffers)))
        h = self._handles.get()
        items = ffi.new("struct farkv_get_into_item[]", len(keys))
        kept = [(pin(key), pin(buffer, True)) for key, buffer in zip(keys, buffers)]
        for item, (k, buf) in zip(items, kept):
            item.key, item.key_len, _ = k
            item.buf, item.cap, _ = buf
        err = lib.farkv_mget_into(h.kv, items, len(kept))
        if err and err != lib.FARKV_ETOOSMALL:
            raise error_of(err)
        return [None if item.result else item.len for item in items]

    @contextmanager
    def borrow(self, key: Buffer) -> Iterator[memoryview]:
        """The value where it lies in shared memory, without a copy:

            with store.borrow(b"k") as view:
                total = sum(view)

        Use what was computed of it only after the block: at its end Stale is raised if the value
        was replaced meanwhile, and what was read may be something else. Copy nothing out of the
        block that is a view itself. Raises NotFound, Stale (also: try again), and Unusable by
        RDMA."""
        h = self._handles.get()
        k, k_len, _k = argument(key)
        found = ffi.new("struct farkv_view *")
        check(lib.farkv_borrow(h.kv, k, k_len, found))
        with memoryview(ffi.buffer(found.value.data, found.value.len)).toreadonly() as data:
            yield data
        check(lib.farkv_borrow_check(h.kv, found))

    # ---- memory

    def register(self, buffer: Union[bytearray, memoryview]) -> None:
        """Register memory for values of 4 KiB and more: by RDMA they come to it and go from it
        without a copy, in all calls. For few large buffers, once. This thread's handle registers
        it now, others at their next call; the buffer stays referenced."""
        self._handles.add_range(*pin(buffer, True))

    def unregister(self, buffer: Union[bytearray, memoryview]) -> None:
        """End that. Handles of other threads keep the buffer referenced until their next call."""
        self._handles.remove_range(pin(buffer)[0])

    # ---- writing

    def _request(self, kind: int, key: Buffer, value: Buffer, ttl: TTL, user: int,
                 version: int = 0) -> int:
        """farkv_write(), and the new version."""
        h = self._handles.get()
        k, k_len, _k = pin(key)
        v, v_len, _v = pin(value)
        options = write_options(ttl, user)
        check(lib.farkv_write(h.kv, ffi.new("struct farkv_request *", {
            "kind": kind, "key": k, "key_len": k_len, "value": v, "value_len": v_len,
            "expected": version, "options": options}), h.number))
        return int(h.number[0])

    def _write(self, plain: Any, kind: int, key: Buffer, value: Buffer, ttl: TTL,
               user: int) -> None:
        if ttl is not None or user:
            self._request(kind, key, value, ttl, user)
            return
        h = self._handles.get()
        k, k_len, _k = argument(key)
        v, v_len, _v = argument(value)
        check(plain(h.kv, k, k_len, v, v_len))

    def put(self, key: Buffer, value: Buffer, *, ttl: TTL = None, user: int = 0) -> None:
        """Store a value, whether or not the key has one. It expires after `ttl`, seconds or a
        timedelta; without, it never does. `user` is any number below 2**32, for gets()."""
        self._write(lib.farkv_put, lib.FARKV_REQUEST_PUT, key, value, ttl, user)

    def __setitem__(self, key: Buffer, value: Buffer) -> None:
        self.put(key, value)

    def add(self, key: Buffer, value: Buffer, *, ttl: TTL = None, user: int = 0) -> None:
        """As put(), but raises Exists if the key has a value."""
        self._write(lib.farkv_add, lib.FARKV_REQUEST_ADD, key, value, ttl, user)

    def replace(self, key: Buffer, value: Buffer, *, ttl: TTL = None, user: int = 0) -> None:
        """As put(), but raises NotFound if the key has no value."""
        self._write(lib.farkv_replace, lib.FARKV_REQUEST_REPLACE, key, value, ttl, user)

    def cas(self, key: Buffer, value: Buffer, version: int, *, ttl: TTL = None,
            user: int = 0) -> int:
        """As put(), if the present value has this version; returns the new version. Raises
        VersionMismatch, NotFound."""
        return self._request(lib.FARKV_REQUEST_CAS, key, value, ttl, user, version)

    def touch(self, key: Buffer, ttl: TTL) -> None:
        """Give the value a new time to live, from now on; None: it never expires. Raises
        NotFound."""
        h = self._handles.get()
        k, k_len, _k = argument(key)
        check(lib.farkv_touch(h.kv, k, k_len, ttl_ms(ttl)))

    def get_touch(self, key: Buffer, ttl: TTL) -> Value:
        """gets() and touch() in one: the value with its new version and time. Raises NotFound."""
        h = self._handles.get()
        k, k_len, _k = argument(key)
        check(lib.farkv_get_touch(h.kv, k, k_len, ttl_ms(ttl), h.value))
        return value_of(h.value)

    def delete(self, key: Buffer, version: Optional[int] = None) -> None:
        """Raises NotFound if the key has no value, VersionMismatch if the value has another
        version than the one that is given."""
        h = self._handles.get()
        k, k_len, _k = argument(key)
        check(lib.farkv_delete(h.kv, k, k_len) if version is None else
              lib.farkv_delete_cas(h.kv, k, k_len, version))

    def __delitem__(self, key: Buffer) -> None:
        self.delete(key)

    def setdefault(self, key: Buffer, default: Any = None) -> Any:
        """The key's value; if it has none, `default`, which is stored. Two clients that call this
        at once get the same."""
        while True:
            found = self.get(key)
            if found is not None:
                return found
            h = self._handles.get()
            k, k_len, _k = argument(key)
            v, v_len, _v = argument(default)
            err = lib.farkv_add(h.kv, k, k_len, v, v_len)
            if err != lib.FARKV_EEXISTS:
                check(err)
                return default

    def mput(self, items: Union[Mapping[bytes, bytes], Iterable[Tuple[Buffer, Buffer]]], *,
             ttl: TTL = None, user: int = 0) -> None:
        """Store many values together; with `ttl` or `user` one after the other. If it raises, some
        may be stored."""
        pairs = items.items() if isinstance(items, Mapping) else items
        if ttl is not None or user:
            for key, value in pairs:
                self.put(key, value, ttl=ttl, user=user)
            return
        kept = [(pin(key), pin(value)) for key, value in pairs]
        array = ffi.new("struct farkv_put_item[]", len(kept))
        for item, (k, v) in zip(array, kept):
            item.key, item.key_len, _ = k
            item.value, item.value_len, _ = v
        check(lib.farkv_mput(self._handles.get().kv, array, len(kept)))

    def _count(self, call: Any, key: Buffer, delta: int, initial: Optional[int],
               ttl: TTL) -> int:
        h = self._handles.get()
        k, k_len, _k = argument(key)
        options = ffi.new("struct farkv_incr_options *")
        options.size = ffi.sizeof("struct farkv_incr_options")
        options.delta = uint64("delta", delta)
        if initial is not None:
            options.initial, options.flags = uint64("initial", initial), lib.FARKV_INCR_CREATE
            options.ttl_ms = ttl_ms(ttl)
        elif ttl is not None:
            raise ValueError("ttl is that of a new key: it needs `initial`")
        check(call(h.kv, k, k_len, options, h.number))
        return int(h.number[0])

    def incr(self, key: Buffer, delta: int = 1, *, initial: Optional[int] = None,
             ttl: TTL = None) -> int:
        """Add to the decimal number that is the value, and return the sum. A key without a value
        gets `initial`, which expires after `ttl`; without `initial`, raises NotFound. A number
        that is there keeps its time to live."""
        return self._count(lib.farkv_incr, key, delta, initial, ttl)

    def decr(self, key: Buffer, delta: int = 1, *, initial: Optional[int] = None,
             ttl: TTL = None) -> int:
        """As incr(), but subtract, down to 0."""
        return self._count(lib.farkv_decr, key, delta, initial, ttl)

    def append(self, key: Buffer, data: Buffer) -> None:
        """Add bytes at the end of a value. Raises NotFound."""
        h = self._handles.get()
        k, k_len, _k = argument(key)
        v, v_len, _v = argument(data)
        check(lib.farkv_append(h.kv, k, k_len, v, v_len))

    def prepend(self, key: Buffer, data: Buffer) -> None:
        """Add bytes at the beginning of a value. Raises NotFound."""
        h = self._handles.get()
        k, k_len, _k = argument(key)
        v, v_len, _v = argument(data)
        check(lib.farkv_prepend(h.kv, k, k_len, v, v_len))

    # ---- all keys

    def _chunks(self) -> Iterator[Any]:
        cursor = ffi.new("uint64_t *")
        items, n = ffi.new("const struct farkv_scan_item **"), ffi.new("size_t *")
        while True:
            h = self._handles.get()
            check(lib.farkv_scan(h.kv, cursor, SIZE_MAX, items, n))
            yield items[0], n[0]
            if not cursor[0]:
                return

    def scan(self) -> Iterator[ScanItem]:
        """All keys, in no useful order: each one that has a value during the whole scan exactly
        once, whatever is written meanwhile. The loop may read, write and delete."""
        for items, n in self._chunks():
            # Copied at once: another scan of this thread ends the array.
            yield from [ScanItem(bytes(ffi.buffer(it.key, it.key_len)), it.value_len, it.version)
                        for it in items[0:n]]

    def __iter__(self) -> Iterator[bytes]:
        return (item.key for item in self.scan())

    def __len__(self) -> int:
        """Counts by a scan."""
        return sum(n for _, n in self._chunks())

    def __bool__(self) -> bool:
        """True, as for other connections: whether it is empty would take a scan."""
        return True

    def clear(self) -> None:
        """Remove all keys."""
        check(lib.farkv_clear(self._handles.get().kv, ffi.NULL))

    # ---- the server, and this thread's handle

    def ping(self) -> float:
        """The round-trip time to the server in seconds."""
        h = self._handles.get()
        check(lib.farkv_ping(h.kv, h.number))
        return float(h.number[0]) / 1e9

    def wait_followers(self, timeout: float = 5.0) -> None:
        """Wait until the followers of a cluster's servers have all that this thread has written:
        then it outlives any one server. Timeout: not within `timeout` seconds; Disconnected: a
        server was lost, perhaps with writes since the previous call."""
        check(lib.farkv_wait_followers(self._handles.get().kv, milliseconds(timeout)))

    def _filled(self, kind: str, call: Any) -> Dict[str, Any]:
        s = ffi.new("struct %s *" % kind)
        s.size = ffi.sizeof("struct %s" % kind)
        check(call(self._handles.get().kv, s))
        return {name: getattr(s, name) for name in dir(s) if name != "size"}

    def stats(self) -> Dict[str, Any]:
        """The fields of struct farkv_stats; "sizes" is a list of dictionaries."""
        s = self._filled("farkv_stats", lib.farkv_stats)
        s["sizes"] = [{name: getattr(n, name) for name in dir(n)} for n in s["sizes"]]
        return s

    def servers(self) -> List[Dict[str, Union[str, int]]]:
        """Name, address, partitions, the map's epoch, the follower, and how many partitions are
        to move, of each server of the store: one, without a name and with epoch 0, unless it is
        a cluster."""
        s = ffi.new("struct farkv_server *")
        s.size = ffi.sizeof("struct farkv_server")
        found: List[Dict[str, Union[str, int]]] = []
        while True:
            err = lib.farkv_server(self._handles.get().kv, len(found), s)
            if err == lib.FARKV_ENOTFOUND:
                return found
            check(err)
            found.append({"name": ffi.string(s.name).decode(),
                          "address": ffi.string(s.address).decode(),
                          "partitions": s.partitions, "epoch": s.epoch,
                          "follower": ffi.string(s.follower).decode(),
                          "moving": s.moving})

    def counters(self) -> Dict[str, int]:
        """The fields of struct farkv_counters, of this thread's handle."""
        return self._filled("farkv_counters", lib.farkv_counters)
