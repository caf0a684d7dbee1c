# SPDX-License-Identifier: BSD-3-Clause
"""farkv.kvcache, against stubs of the engines' interfaces: what is below is written after
LMCache's l2_adapters/base.py, SGLang's hicache_storage.py and vLLM's kv_offload/tiering/base.py;
none of the engines runs here. doc/python.md names the commits."""
import abc
import ctypes
import dataclasses
import enum
import os
import select
import sys
import types
import typing

import pytest

import farkv
import farkv.kvcache


def module(monkeypatch, name, **names):
    """A stub module, and the packages above it."""
    parts = name.split(".")
    for i in range(1, len(parts) + 1):
        full = ".".join(parts[:i])
        if full not in sys.modules:
            monkeypatch.setitem(sys.modules, full, types.ModuleType(full))
            if i > 1:
                setattr(sys.modules[".".join(parts[:i - 1])], parts[i - 1], sys.modules[full])
    vars(sys.modules[name]).update(names)


def fresh(monkeypatch, name, attribute):
    monkeypatch.delitem(sys.modules, "farkv." + name, raising=False)
    cls = getattr(farkv.kvcache, attribute)
    monkeypatch.delitem(sys.modules, "farkv." + name)
    return cls


def test_only_the_engine_that_is_used_must_be_there():
    with pytest.raises(AttributeError, match="LMCacheL2"):
        farkv.kvcache.Other
    with pytest.raises(ImportError):
        farkv.kvcache.LMCacheL2
    assert getattr(farkv.kvcache, "LMCacheL2Config", None) is None


# ---- LMCache


class Bitmap:
    def __init__(self, n):
        self.bits = [0] * n

    def set(self, i):
        self.bits[i] = 1


class L2StoreResult(int):
    def __new__(cls, success, n):
        return super().__new__(cls, n if success else -1)

    def is_successful(self):
        return self >= 0


@dataclasses.dataclass(frozen=True)
class ObjectKey:
    chunk_hash: bytes
    model_name: str = "org/model"
    kv_rank: int = 0x04000400
    object_group_id: int = 0
    cache_salt: str = ""


class MemoryObj:
    def __init__(self, data):
        self.data = bytearray(data)

    @property
    def byte_array(self):
        return memoryview(self.data)


class L2AdapterInterface(abc.ABC):
    def __init__(self, max_capacity_bytes=0):
        self.stored, self.accessed = [], []

    def _notify_keys_stored(self, keys, sizes):
        self.stored += zip(keys, sizes)

    def _notify_keys_accessed(self, keys):
        self.accessed += keys

    for _name in ("get_store_event_fd", "get_lookup_and_lock_event_fd", "get_load_event_fd",
                  "submit_store_task", "pop_completed_store_tasks",
                  "submit_lookup_and_lock_task", "query_lookup_and_lock_result",
                  "submit_unlock", "submit_load_task", "query_load_result", "close"):
        locals()[_name] = abc.abstractmethod(lambda self, *args: None)


@pytest.fixture
def lmcache(monkeypatch, server):
    module(monkeypatch, "lmcache.native_storage_ops", Bitmap=Bitmap)
    module(monkeypatch, "lmcache.v1.distributed.internal_api", L2StoreResult=L2StoreResult)
    module(monkeypatch, "lmcache.v1.distributed.l2_adapters.base",
           L2AdapterInterface=L2AdapterInterface)
    cls = fresh(monkeypatch, "_lmcache", "LMCacheL2")
    assert issubclass(cls, L2AdapterInterface)  # what its loader demands
    area = ctypes.create_string_buffer(1 << 20)
    desc = types.SimpleNamespace(ptr=ctypes.addressof(area), size=len(area), align_bytes=4096)
    adapter = cls({"uri": server.uri}, l1_memory_desc=desc)
    yield adapter
    adapter.close()


def signalled(fd):
    """Wait for the event, and take it."""
    assert select.select([fd], [], [], 60)[0]
    assert os.eventfd_read(fd) > 0


def once(query, fd, task):
    """The result of a task, which a query returns once."""
    signalled(fd)
    result = query(task)
    assert result is not None and query(task) is None
    return result.bits


def test_lmcache_stores_looks_up_and_loads_by_tasks_and_events(lmcache):
    fds = (lmcache.get_store_event_fd(), lmcache.get_lookup_and_lock_event_fd(),
           lmcache.get_load_event_fd())
    assert len(set(fds)) == 3
    keys = [ObjectKey(bytes([i]) * 32) for i in range(4)]
    objects = [MemoryObj(bytes([i]) * (10000 + i)) for i in range(4)]
    task = lmcache.submit_store_task(keys[:3], objects[:3])
    signalled(fds[0])
    done = lmcache.pop_completed_store_tasks()
    assert list(done) == [task] and done[task].is_successful() and done[task] == 30003
    assert lmcache.pop_completed_store_tasks() == {}
    assert sorted(size for _, size in lmcache.stored) == [10000, 10001, 10002]

    task = lmcache.submit_lookup_and_lock_task(keys)
    assert once(lmcache.query_lookup_and_lock_result, fds[1], task) == [1, 1, 1, 0]
    assert lmcache.accessed == keys[:3]

    # A value of another length than the buffer is a failure of that key alone.
    targets = [MemoryObj(bytes(n)) for n in (10000, 99999, 5, 10003)]
    task = lmcache.submit_load_task(keys, targets)
    assert once(lmcache.query_load_result, fds[2], task) == [1, 0, 0, 0]
    assert targets[0].data == objects[0].data
    assert lmcache.submit_unlock(keys) is None

    # What is there is not stored again.
    task = lmcache.submit_store_task(keys, objects)
    signalled(fds[0])
    assert lmcache.pop_completed_store_tasks()[task] == 10003
    lmcache.delete(keys[:1] + keys[:1])
    task = lmcache.submit_lookup_and_lock_task(keys)
    assert once(lmcache.query_lookup_and_lock_result, fds[1], task) == [0, 1, 1, 1]


def test_lmcache_keys_differ_in_every_field(lmcache):
    one = ObjectKey(b"h")
    others = [dataclasses.replace(one, **{f: v}) for f, v in (
        ("chunk_hash", b"i"), ("model_name", "m"), ("kv_rank", 1), ("object_group_id", 1),
        ("cache_salt", "user"))]
    lmcache.submit_store_task([one], [MemoryObj(b"x")])
    signalled(lmcache.get_store_event_fd())
    task = lmcache.submit_lookup_and_lock_task([one] + others)
    assert once(lmcache.query_lookup_and_lock_result,
                lmcache.get_lookup_and_lock_event_fd(), task) == [1, 0, 0, 0, 0, 0]


def test_lmcache_tasks_fail_as_tasks_when_the_server_is_gone(lmcache, server):
    assert lmcache.report_status()["is_healthy"]
    server.kill()
    lookups = lmcache.get_lookup_and_lock_event_fd()
    for _ in range(3):
        task = lmcache.submit_lookup_and_lock_task([ObjectKey(b"h")])
        assert once(lmcache.query_lookup_and_lock_result, lookups, task) == [0]
    stored = True
    while stored:  # until the handle sees that its server is gone
        task = lmcache.submit_store_task([ObjectKey(b"h")], [MemoryObj(b"x")])
        signalled(lmcache.get_store_event_fd())
        stored = lmcache.pop_completed_store_tasks()[task].is_successful()
    assert not lmcache.report_status()["is_healthy"]
    server.start()


# ---- SGLang


class HiCacheStorage(abc.ABC):
    def register_mem_pool_host(self, mem_pool_host):
        self.mem_pool_host = mem_pool_host

    for _name in ("get", "batch_get", "set", "batch_set", "exists"):
        locals()[_name] = abc.abstractmethod(lambda self, *args: None)


class Tensor:
    """What an adapter asks of a torch tensor of bytes."""

    def __init__(self, n):
        self.memory = ctypes.create_string_buffer(n)

    def data_ptr(self):
        return ctypes.addressof(self.memory)

    def numel(self):
        return len(self.memory)

    def element_size(self):
        return 1


class HostPool:
    """Pages of two buffers, as keys and values of attention in the layout page_first."""
    page_size, half = 4, 5000

    def __init__(self, pages):
        self.kv_buffer = Tensor(2 * pages * self.half)

    def get_page_buffer_meta(self, indices):
        assert len(indices) % self.page_size == 0
        pages = [i // self.page_size for i in indices[::self.page_size]]
        base, n = self.kv_buffer.data_ptr(), self.kv_buffer.numel() // 2
        return ([base + half * n + p * self.half for p in pages for half in (0, 1)],
                [self.half] * (2 * len(pages)))

    def indices(self, *pages):
        return [p * self.page_size + i for p in pages for i in range(self.page_size)]

    def fill(self, page, byte):
        for pointer in self.get_page_buffer_meta(self.indices(page))[0]:
            ctypes.memset(pointer, byte, self.half)

    def bytes_of(self, page):
        return b"".join(ctypes.string_at(p, self.half)
                        for p in self.get_page_buffer_meta(self.indices(page))[0])


def config(server, **changes):
    return types.SimpleNamespace(**{**dict(
        tp_rank=0, tp_size=2, pp_rank=0, pp_size=1, attn_cp_rank=0, attn_cp_size=1,
        is_mla_model=False, model_name="org/model", extra_config={
            "backend_name": "farkv", "module_path": "farkv.kvcache",
            "class_name": "SGLangHiCache", "uri": server.uri}), **changes})


@pytest.fixture
def hicache(monkeypatch):
    module(monkeypatch, "sglang.srt.mem_cache.hicache_storage", HiCacheStorage=HiCacheStorage)
    return fresh(monkeypatch, "_sglang", "SGLangHiCache")


def test_sglang_pages_go_out_and_come_back(hicache, server):
    backend, pool = hicache(config(server), {}), HostPool(8)
    backend.register_mem_pool_host(pool)
    for page in range(3):
        pool.fill(page, page + 1)
    keys = ["a", "b", "c"]
    assert backend.batch_exists(keys) == 0
    assert backend.batch_set_v1(keys, pool.indices(0, 1, 2)) == [True] * 3
    assert backend.batch_exists(["a", "b", "x", "c"]) == 2 and backend.exists("c")
    assert backend.batch_get_v1(["c", "x", "a"], pool.indices(5, 6, 7)) == [True, False, True]
    assert pool.bytes_of(5) == pool.bytes_of(2) and pool.bytes_of(7) == pool.bytes_of(0)
    assert backend.batch_get_v1([], []) == [] and backend.batch_set_v1([], []) == []
    backend.clear()
    assert backend.batch_exists(keys) == 0


def test_sglang_ranks_have_pages_of_their_own_except_with_mla(hicache, server):
    pool = HostPool(2)
    for mla, seen in ((False, 0), (True, 1)):
        zero = hicache(config(server, is_mla_model=mla))
        one = hicache(config(server, is_mla_model=mla, tp_rank=1))
        zero.register_mem_pool_host(pool)
        zero.batch_set_v1(["k"], pool.indices(0))
        assert one.batch_exists(["k"]) == seen


def test_sglang_a_full_store_tells_which_pages_it_has(hicache, server):
    class Large(HostPool):
        half = 8 << 20
    slow = {"uri": server.uri, "op_timeout": 120}  # an emulated machine by RDMA
    backend, pool = hicache(config(server, extra_config=slow), {}), Large(2)
    backend.register_mem_pool_host(pool)
    keys = ["%d" % i for i in range(16)]
    done = backend.batch_set_v1(keys, pool.indices(*[0] * 16))
    assert len(done) == 16 and not all(done)
    assert [backend.batch_get_v1([key], pool.indices(1))[0] for key in keys] == done


def test_sglang_older_calls(hicache, server):
    backend, value, target = hicache(config(server), {}), Tensor(6000), Tensor(6000)
    ctypes.memset(value.data_ptr(), 7, 6000)
    assert backend.set("k", value) is True and backend.get("none", target) is None
    assert backend.get("k", target) is target and target.memory.raw == value.memory.raw
    assert backend.get("k", Tensor(7000)) is None
    assert backend.batch_set(["l", "m"], [value, value]) is True
    assert backend.batch_get(["l", "none"], [target, target]) == [target, None]
    with pytest.raises(NotImplementedError):
        backend.get("k")


# ---- vLLM


@dataclasses.dataclass
class Job:
    job_id: int
    keys: typing.Collection
    block_ids: typing.Sequence
    is_promotion: bool = False
    req_context: object = None


@dataclasses.dataclass
class JobResult:
    job_id: int
    success: bool


class SecondaryTierManager(abc.ABC):
    def __init__(self, offloading_spec, primary_kv_view, tier_type):
        self.tier_type = tier_type

    for _name in ("lookup", "submit_store", "submit_load", "get_finished"):
        locals()[_name] = abc.abstractmethod(lambda self, *args: None)


class LookupResult(enum.Enum):
    MISS, HIT, RETRY = range(3)


def tier(monkeypatch, server, **offload_base):
    module(monkeypatch, "vllm.v1.kv_offload.base", RequestOffloadingContext=object,
           **offload_base)
    module(monkeypatch, "vllm.v1.kv_offload.tiering.base", JobResult=JobResult,
           SecondaryTierManager=SecondaryTierManager)
    area = bytearray(8 * 4096)
    view = memoryview(area).cast("B", (8, 4096))
    cls = fresh(monkeypatch, "_vllm", "VLLMSecondaryTier")
    return area, cls(offloading_spec=None, primary_kv_view=view, tier_type="farkv",
                     uri=server.uri)


def test_vllm_blocks_go_out_and_come_back_by_jobs(monkeypatch, server):
    area, manager = tier(monkeypatch, server)
    for i in range(8):
        area[i * 4096:(i + 1) * 4096] = bytes([i]) * 4096
    manager.submit_store(Job(1, [b"a", b"b"], [2, 3]))
    manager.drain_jobs()
    assert manager.get_finished() == [JobResult(1, True)] and manager.get_finished() == []
    assert manager.lookup(b"a", None) is True and manager.lookup(b"x", None) is False
    manager.submit_load(Job(2, [b"b", b"a"], [6, 7], True))
    manager.submit_load(Job(3, [b"a", b"x"], [0, 1], True))
    manager.drain_jobs()
    assert sorted(manager.get_finished_jobs(), key=lambda r: r.job_id) == [
        JobResult(2, True), JobResult(3, False)]
    assert area[6 * 4096:] == bytes([3]) * 4096 + bytes([2]) * 4096
    assert area[4 * 4096:6 * 4096] == bytes([4]) * 4096 + bytes([5]) * 4096
    with pytest.raises(ValueError):
        manager.submit_store(Job(4, [b"a"], [1, 2]))
    manager.shutdown()
    manager.get_finished()
    assert not manager.has_pending_work()


def test_vllm_later_versions_look_up_by_an_enum(monkeypatch, server):
    _, manager = tier(monkeypatch, server, LookupResult=LookupResult)
    manager.submit_store(Job(1, [b"a"], [0]))
    manager.drain_jobs()
    assert manager.lookup(b"a", None) is LookupResult.HIT
    server.kill()
    assert manager.lookup(b"x", None) is LookupResult.MISS
    loaded = True
    while loaded:  # until the handle sees that its server is gone
        manager.submit_load(Job(2, [b"a"], [0], True))
        manager.drain_jobs()
        loaded = JobResult(2, False) not in manager.get_finished()
    manager.shutdown()
    server.start()
