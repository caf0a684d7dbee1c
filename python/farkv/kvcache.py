# SPDX-License-Identifier: BSD-3-Clause
"""Adapters for caches of language models, each a thin class over mexists, mget_into and mput of
registered memory:

    LMCacheL2         an L2 plugin of LMCache
    SGLangHiCache     a "dynamic" backend of SGLang's HiCache
    VLLMSecondaryTier a secondary tier of vLLM's KV offloading

A class is imported when it is asked for, so only its own engine needs to be installed.
doc/python.md tells how to configure them, and which versions of the interfaces were read."""
from __future__ import annotations

from typing import Any

_MODULES = {"LMCacheL2": "_lmcache", "SGLangHiCache": "_sglang", "VLLMSecondaryTier": "_vllm"}

__all__ = ["LMCacheL2", "SGLangHiCache", "VLLMSecondaryTier"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError("farkv.kvcache has no %r; it has %s" % (name, ", ".join(_MODULES)))
    from importlib import import_module
    return getattr(import_module("farkv." + _MODULES[name]), name)
