# SPDX-License-Identifier: BSD-3-Clause
"""Write the C source of the extension module farkv._farkv, by cffi, out of farkv.h.

build_ffi.py FARKV_H C_FILE_OUT
"""
import re
import sys

from cffi import FFI


def declarations(header: str) -> str:
    """What cffi reads of farkv.h: no comments, no directives, no attributes."""
    text = re.sub(r"/\*.*?\*/", " ", header, flags=re.S)
    text = text[text.index("enum farkv_error"):]
    text = re.sub(r"#ifdef __cplusplus.*?#endif", "", text, flags=re.S)
    numbers = re.findall(r"^#define (FARKV_\w+) +[(\dU]", text, re.M)
    text = re.sub(r"^#.*", "", text, flags=re.M).replace("FARKV_MUST_CHECK", "")
    return text + "".join("\n#define %s ..." % name for name in numbers)


def main() -> None:
    header_path, c_path = sys.argv[1:]
    with open(header_path, encoding="utf-8") as f:
        header = f.read()
    ffi = FFI()
    ffi.cdef(declarations(header))
    ffi.set_source("farkv._farkv", "#include <farkv.h>\n")
    ffi.emit_c_code(c_path)


main()
