# SPDX-License-Identifier: BSD-3-Clause
"""Exceptions: one class for all errors of libfarkv, and one for each that programs handle."""
from __future__ import annotations

from typing import Dict, Optional, Type

from ._farkv import ffi, lib


class Error(Exception):
    """An error of libfarkv. `code` is its number in farkv.h, `detail` one line: what was wrong,
    where, what to do."""

    def __init__(self, code: int, detail: str) -> None:
        super().__init__(code, detail)
        self.code = code
        self.detail = detail

    def __str__(self) -> str:
        return self.detail


class NotFound(Error, KeyError):
    """No value is stored under the key."""


class Exists(Error):
    """add: the key already has a value."""


class VersionMismatch(Error):
    """cas: the value has another version."""


class NoSpace(Error):
    """The store has no memory for the value, or for its index."""


class TooLarge(Error, ValueError):
    """Key or value is over the store's limit."""


class TooSmall(Error, ValueError):
    """The buffer cannot hold the value; `needed` is the value's length if it is known."""

    needed: Optional[int] = None


class Timeout(Error, TimeoutError):
    """The deadline passed; nothing was changed."""


class OutcomeUnknown(Error):
    """The connection broke: the write may have happened."""


class NotPermitted(Error, PermissionError):
    """The session may not do this."""


class Invalid(Error, ValueError):
    """An argument is not valid."""


class Stale(Error):
    """borrow: what was read is not certain to be the value; read again."""


class NoMemory(Error, MemoryError):
    """This process is out of memory."""


class Disconnected(Error, ConnectionError):
    """There is no connection; the next call tries to make one."""


class Unusable(Error):
    """The store cannot be used: see `code`."""


_CLASSES: Dict[int, Type[Error]] = {
    lib.FARKV_ENOTFOUND: NotFound,
    lib.FARKV_EEXISTS: Exists,
    lib.FARKV_EVERSION: VersionMismatch,
    lib.FARKV_ENOSPC: NoSpace,
    lib.FARKV_EINDEXFULL: NoSpace,
    lib.FARKV_ETOOLARGE: TooLarge,
    lib.FARKV_ETOOSMALL: TooSmall,
    lib.FARKV_ETIMEDOUT: Timeout,
    lib.FARKV_EMAYBE: OutcomeUnknown,
    lib.FARKV_EPERM: NotPermitted,
    lib.FARKV_EINVAL: Invalid,
    lib.FARKV_ENOMEM: NoMemory,
    lib.FARKV_ESTALE: Stale,
}


def error_of(code: int, detail: Optional[str] = None) -> Error:
    """The exception for an error number; without `detail` it describes this thread's last call."""
    if detail is None:
        detail = ffi.string(lib.farkv_errdetail()).decode(errors="replace")
    cls = _CLASSES.get(code)
    if cls is None:
        cls = Disconnected if -1200 < code <= -1100 else Unusable if code <= -1200 else Error
    return cls(code, detail or ffi.string(lib.farkv_strerror(code)).decode())


def check(code: int) -> None:
    if code:
        raise error_of(code)
