# SPDX-License-Identifier: BSD-3-Clause
"""farkv, a remote-memory key-value store:

    import farkv
    with farkv.Store() as store:
        store[b"hello"] = b"world"
        print(store[b"hello"])

`farkv.aio` is for asyncio, `farkv.kvcache` for caches of language models."""
from ._errors import (Disconnected, Error, Exists, Invalid, NoMemory, NoSpace, NotFound,
                      NotPermitted, OutcomeUnknown, Stale, Timeout, TooLarge, TooSmall,
                      Unusable, VersionMismatch)
from ._farkv import ffi as _ffi
from ._farkv import lib as _lib
from ._store import ScanItem, Store, Value

__version__: str = _ffi.string(_lib.farkv_version()).decode()

__all__ = ["Disconnected", "Error", "Exists", "Invalid", "NoMemory", "NoSpace", "NotFound",
           "NotPermitted", "OutcomeUnknown", "ScanItem", "Stale", "Store", "Timeout", "TooLarge",
           "TooSmall", "Unusable", "Value", "VersionMismatch"]
