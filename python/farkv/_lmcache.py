# SPDX-License-Identifier: BSD-3-Clause
"""LMCache: an L2 adapter, loaded by {"type": "plugin", "module_path": "farkv.kvcache",
"class_name": "LMCacheL2", "adapter_params": {"uri": ...}}."""
from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, List, Optional

from lmcache.native_storage_ops import Bitmap  # type: ignore[import]
from lmcache.v1.distributed.internal_api import L2StoreResult  # type: ignore[import]
from lmcache.v1.distributed.l2_adapters.base import L2AdapterInterface  # type: ignore[import]

from ._errors import Error
from ._transfer import load, memory, open_store, put_absent

# Older descriptions of the types of os have no eventfd.
_os: Any = os


def key_of(key: Any) -> bytes:
    """The store's key; LMCache's fields contain no "@"."""
    text = "lmcache@%s@%x@%x@%s@%s" % (key.model_name, key.kv_rank, key.object_group_id,
                                       key.chunk_hash.hex(), key.cache_salt)
    return text.encode()


class LMCacheL2(L2AdapterInterface):  # type: ignore[misc]
    """Tasks run in threads, `workers` of them (4); each has a handle of its own. There are no
    locks: a value that is dropped after its lookup is a 0 in the load's bitmap, which LMCache
    allows for. So unlock has nothing to do, and cannot fail."""

    def __init__(self, params: Dict[str, Any], l1_memory_desc: Any = None) -> None:
        super().__init__()
        self._store = open_store(params, "LMCache")
        if l1_memory_desc is not None:
            size = getattr(l1_memory_desc, "stable_registration_size", None)
            self._store.register(memory(l1_memory_desc.ptr, size or l1_memory_desc.size))
        self._fds: List[int] = [_os.eventfd(0, _os.EFD_NONBLOCK | _os.EFD_CLOEXEC)
                                for _ in range(3)]
        self._threads = ThreadPoolExecutor(params.get("workers", 4), "farkv-lmcache")
        self._lock = threading.Lock()
        self._task = 0
        self._stored: Dict[int, Any] = {}
        self._looked_up: Dict[int, Any] = {}
        self._loaded: Dict[int, Any] = {}

    def get_store_event_fd(self) -> int:
        return self._fds[0]

    def get_lookup_and_lock_event_fd(self) -> int:
        return self._fds[1]

    def get_load_event_fd(self) -> int:
        return self._fds[2]

    def _submit(self, results: Dict[int, Any], fd: int, work: Callable[[], Any],
                failed: Any) -> int:
        """Put what `work` returns, or `failed`, under the task's number and signal `fd`."""
        with self._lock:
            self._task += 1
            task = self._task

        def run() -> None:
            result = failed
            try:
                result = work()
            except Error:
                pass  # reported as failed: the cache recomputes
            finally:
                with self._lock:
                    results[task] = result
                _os.eventfd_write(fd, 1)

        self._threads.submit(run)
        return task

    def submit_store_task(self, keys: List[Any], objects: List[Any]) -> int:
        def work() -> Any:
            views = [memoryview(obj.byte_array).cast("B") for obj in objects]
            new = put_absent(self._store, [key_of(k) for k in keys], views)
            sizes = [v.nbytes for v, is_new in zip(views, new) if is_new]
            self._notify_keys_stored([k for k, is_new in zip(keys, new) if is_new], sizes)
            return L2StoreResult(True, sum(sizes))
        return self._submit(self._stored, self._fds[0], work, L2StoreResult(False, 0))

    def pop_completed_store_tasks(self) -> Dict[int, Any]:
        with self._lock:
            done = dict(self._stored)
            self._stored.clear()
        return done

    def submit_lookup_and_lock_task(self, keys: List[Any]) -> int:
        def work() -> Any:
            found = self._store.mexists([key_of(k) for k in keys])
            self._notify_keys_accessed([k for k, is_there in zip(keys, found) if is_there])
            return bitmap_of(found)
        return self._submit(self._looked_up, self._fds[1], work, Bitmap(len(keys)))

    def query_lookup_and_lock_result(self, task_id: int) -> Optional[Any]:
        with self._lock:
            return self._looked_up.pop(task_id, None)

    def submit_unlock(self, keys: List[Any]) -> None:
        """Nothing was locked."""

    def submit_load_task(self, keys: List[Any], objects: List[Any]) -> int:
        def work() -> Any:
            return bitmap_of(load(self._store, [key_of(k) for k in keys],
                                  [memoryview(obj.byte_array).cast("B") for obj in objects]))
        return self._submit(self._loaded, self._fds[2], work, Bitmap(len(keys)))

    def query_load_result(self, task_id: int) -> Optional[Any]:
        with self._lock:
            return self._loaded.pop(task_id, None)

    def delete(self, keys: List[Any]) -> None:
        for key in keys:
            self._store.pop(key_of(key), None)

    def report_status(self) -> Dict[str, Any]:
        try:
            return {"is_healthy": True, "type": "farkv", "rtt_seconds": self._store.ping()}
        except Error as e:
            return {"is_healthy": False, "type": "farkv", "error": e.detail}

    def close(self) -> None:
        self._threads.shutdown(wait=True)
        self._store.close()
        for fd in self._fds:
            os.close(fd)
        self._fds.clear()


def bitmap_of(found: List[bool]) -> Any:
    bitmap = Bitmap(len(found))
    for i, is_there in enumerate(found):
        if is_there:
            bitmap.set(i)
    return bitmap
