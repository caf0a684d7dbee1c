# SPDX-License-Identifier: BSD-3-Clause
"""SGLang: a backend of HiCache, loaded by --hicache-storage-backend dynamic with the extra
configuration {"backend_name": "farkv", "module_path": "farkv.kvcache",
"class_name": "SGLangHiCache", "interface_v1": 1, "uri": ...}."""
from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from sglang.srt.mem_cache.hicache_storage import HiCacheStorage  # type: ignore[import]

from ._errors import Error, NotFound
from ._transfer import load, memory, open_store, put_absent


class SGLangHiCache(HiCacheStorage):  # type: ignore[misc]
    """Pages come from the host pool and go to it directly. A page of n buffers (keys and values,
    say) is n values of the store, under KEY.0 to KEY.n-1, written from the last to the first, so
    the page is there if KEY.0 is. What fails raises or is False, never None."""

    def __init__(self, storage_config: Any, kwargs: Optional[Dict[str, Any]] = None) -> None:
        c = storage_config
        self._store = open_store(c.extra_config or {}, "HiCache")
        # Ranks hold different slices of a page, except with MLA, where all have the same.
        rank = "" if c.is_mla_model else "%d/%d" % (c.tp_rank, c.tp_size)
        self._suffix = "@%s@%s@%d/%d@%d/%d" % (
            c.model_name or "", rank, c.pp_rank, c.pp_size, getattr(c, "attn_cp_rank", 0),
            getattr(c, "attn_cp_size", 1))

    def register_mem_pool_host(self, mem_pool_host: Any) -> None:
        super().register_mem_pool_host(mem_pool_host)
        kv = mem_pool_host.kv_buffer
        for buffer in kv if isinstance(kv, (list, tuple)) else [kv]:
            self._store.register(memory(buffer.data_ptr(),
                                        buffer.numel() * buffer.element_size()))

    def _key(self, key: str, part: int = 0) -> bytes:
        return ("hicache@%s%s.%d" % (key, self._suffix, part)).encode()

    def _pages(self, keys: List[str], host_indices: Any) -> Tuple[int, List[bytes],
                                                                  List[memoryview]]:
        """Buffers of a page, and keys and memory of all of them."""
        pointers, sizes = self.mem_pool_host.get_page_buffer_meta(host_indices)
        n = len(pointers) // len(keys) if keys else 0
        if n * len(keys) != len(pointers):
            raise ValueError("%d keys for %d buffers" % (len(keys), len(pointers)))
        return (n, [self._key(key, part) for key in keys for part in range(n)],
                [memory(p, size) for p, size in zip(pointers, sizes)])

    def batch_get_v1(self, keys: List[str], host_indices: Any,
                     extra_info: Any = None) -> List[bool]:
        n, c_keys, buffers = self._pages(keys, host_indices)
        done = load(self._store, c_keys, buffers)
        return [all(done[i * n:(i + 1) * n]) for i in range(len(keys))]

    def batch_set_v1(self, keys: List[str], host_indices: Any,
                     extra_info: Any = None) -> List[bool]:
        _, c_keys, buffers = self._pages(keys, host_indices)
        try:
            put_absent(self._store, c_keys, buffers)
        except Error:
            # A full store, say: which pages are there tells what was stored.
            return self._store.mexists([self._key(key) for key in keys])
        return [True] * len(keys)

    def batch_exists(self, keys: List[str], extra_info: Any = None) -> int:
        return self._store.prefix([self._key(key) for key in keys])

    def exists(self, key: str) -> bool:
        return self._store.exists(self._key(key))

    # The older calls: `target_location` and `value` are tensors of bytes in host memory.

    def get(self, key: str, target_location: Any = None, target_sizes: Any = None) -> Any:
        if target_location is None:
            raise NotImplementedError("farkv reads into the caller's memory: target_location")
        size = target_location.numel() * target_location.element_size()
        try:
            n = self._store.get_into(self._key(key), memory(target_location.data_ptr(), size))
        except NotFound:
            return None
        return target_location if n == size else None

    def batch_get(self, keys: List[str], target_locations: Any = None,
                  target_sizes: Any = None) -> List[Any]:
        return [self.get(key, target) for key, target in zip(keys, target_locations)]

    def set(self, key: str, value: Any = None, target_location: Any = None,
            target_sizes: Any = None) -> bool:
        size = value.numel() * value.element_size()
        try:
            self._store.put(self._key(key), memory(value.data_ptr(), size))
        except Error:
            return False
        return True

    def batch_set(self, keys: List[str], values: Any = None, target_locations: Any = None,
                  target_sizes: Any = None) -> bool:
        return all([self.set(key, value) for key, value in zip(keys, values)])

    def clear(self) -> None:
        """Remove all keys of the store, also those of other ranks and models."""
        self._store.clear()

    def get_stats(self) -> Any:
        return None
