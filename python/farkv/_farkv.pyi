# SPDX-License-Identifier: BSD-3-Clause
# The extension module that cffi makes of farkv.h.
from typing import Any

ffi: Any
lib: Any
