# SPDX-License-Identifier: BSD-3-Clause
"""vLLM: a secondary tier, registered by SecondaryTierFactory.register_tier("farkv",
"farkv.kvcache", "VLLMSecondaryTier") and configured by {"type": "farkv", "uri": ...}."""
from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Callable, List, Set

from vllm.v1.kv_offload import base as offload_base  # type: ignore[import]
from vllm.v1.kv_offload.tiering.base import (  # type: ignore[import]
    JobResult, SecondaryTierManager)

from ._errors import Error
from ._transfer import OPTIONS, load, open_store, put_absent

# Later versions answer a lookup by an enum.
_LookupResult = getattr(offload_base, "LookupResult", None)


class VLLMSecondaryTier(SecondaryTierManager):  # type: ignore[misc]
    """Jobs run in threads, `workers` of them (4). A lookup asks the store at once, which is some
    100 ns over shared memory, a round trip by RDMA."""

    def __init__(self, *args: Any, primary_kv_view: memoryview, block_size: int = 0,
                 workers: int = 4, **kwargs: Any) -> None:
        options = {k: kwargs.pop(k) for k in list(kwargs) if k in OPTIONS}
        super().__init__(*args, primary_kv_view=primary_kv_view, **kwargs)
        block_size = block_size or (primary_kv_view.strides or (0,))[0]
        self._view = primary_kv_view.cast("B")
        if block_size <= 1 or self._view.nbytes % block_size:
            raise ValueError("primary_kv_view has %d bytes, which is no number of blocks of %d"
                             % (self._view.nbytes, block_size))
        self._block_size = block_size
        self._store = open_store(options, "vLLM")
        self._store.register(self._view)
        self._threads = ThreadPoolExecutor(workers, "farkv-vllm")
        self._lock = threading.Lock()
        self._jobs: Set["Future[None]"] = set()
        self._finished: List[Any] = []

    @staticmethod
    def get_tier_type() -> str:
        return "farkv"

    def lookup(self, key: Any, req_context: Any) -> Any:
        try:
            found = self._store.exists(key_of(key))
        except Error:
            found = False
        if _LookupResult is None:
            return found
        return _LookupResult.HIT if found else _LookupResult.MISS

    def _submit(self, job: Any, work: Callable[[List[bytes], List[memoryview]], bool]) -> None:
        keys = [key_of(key) for key in job.keys]
        size = self._block_size
        blocks = [self._view[int(b) * size:(int(b) + 1) * size] for b in job.block_ids]
        if len(keys) != len(blocks):
            raise ValueError("%d keys and %d blocks" % (len(keys), len(blocks)))

        def run() -> None:
            success = False
            try:
                success = work(keys, blocks)
            except Error:
                pass  # reported as failed
            finally:
                with self._lock:
                    self._finished.append(JobResult(job_id=job.job_id, success=success))

        future = self._threads.submit(run)
        with self._lock:
            self._jobs.add(future)
        future.add_done_callback(self._forget)

    def _forget(self, future: "Future[None]") -> None:
        with self._lock:
            self._jobs.discard(future)

    def submit_store(self, job_metadata: Any) -> None:
        def work(keys: List[bytes], blocks: List[memoryview]) -> bool:
            put_absent(self._store, keys, blocks)
            return True
        self._submit(job_metadata, work)

    def submit_load(self, job_metadata: Any) -> None:
        self._submit(job_metadata, lambda keys, blocks: all(load(self._store, keys, blocks)))

    def get_finished(self) -> List[Any]:
        with self._lock:
            finished, self._finished = self._finished, []
        return finished

    def get_finished_jobs(self) -> List[Any]:
        return self.get_finished()

    def has_pending_work(self) -> bool:
        with self._lock:
            return bool(self._jobs or self._finished)

    def drain_jobs(self) -> None:
        with self._lock:
            jobs = list(self._jobs)
        wait(jobs)

    def on_new_request(self, req_context: Any) -> Any:
        return offload_base.RequestOffloadingContext()

    def shutdown(self) -> None:
        self._threads.shutdown(wait=True)
        self._store.close()


def key_of(key: Any) -> bytes:
    return b"vllm@" + bytes(key)
