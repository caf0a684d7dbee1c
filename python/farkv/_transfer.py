# SPDX-License-Identifier: BSD-3-Clause
"""What the adapters of farkv.kvcache share."""
from __future__ import annotations

from typing import Any, Dict, List, Sequence

from ._farkv import ffi
from ._store import Store

# What an adapter's parameters may name, of the arguments of Store.
OPTIONS = ("uri", "keys", "key", "connect_timeout", "op_timeout", "name")


def open_store(params: Dict[str, Any], name: str) -> Store:
    options: Dict[str, Any] = {"name": name}
    options.update((k, params[k]) for k in OPTIONS if k in params)
    return Store(**options)


def memory(address: int, size: int) -> memoryview:
    """Memory of the engine's, which must outlive its use."""
    return memoryview(ffi.buffer(ffi.cast("char *", address), size))


def put_absent(store: Store, keys: Sequence[bytes], values: Sequence[Any]) -> List[bool]:
    """Store the values of keys that have none; for each whether it was stored. What a key of
    these caches stands for never changes. Later ones come first: if the store drops old values,
    a prefix outlives what needs it."""
    absent = [not present for present in store.mexists(keys)]
    store.mput([(k, v) for k, v, a in zip(keys, values, absent) if a][::-1])
    return absent


def load(store: Store, keys: Sequence[bytes], buffers: Sequence[memoryview]) -> List[bool]:
    """Fill the buffers; for each whether it has the whole value, which has its length."""
    return [n == b.nbytes for n, b in zip(store.mget_into(keys, buffers), buffers)]
