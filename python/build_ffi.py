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
    # The lengths of arrays have to be known here; the compiler checks them.
    lengths = re.findall(r"\[(FARKV_\w+)\]", text)
    known = {name: re.search(r"#define %s (\d+)" % name, text).group(1) for name in lengths}
    text = re.sub(r"^#.*", "", text, flags=re.M).replace("FARKV_MUST_CHECK", "")
    return text + "".join("\n#define %s %s" % (name, known.get(name, "...")) for name in numbers)


def main() -> None:
    header_path, c_path = sys.argv[1:]
    with open(header_path, encoding="utf-8") as f:
        header = f.read()
    ffi = FFI()
    ffi.cdef(declarations(header))
    ffi.set_source("farkv._farkv", "#include <farkv.h>\n")
    ffi.emit_c_code(c_path)


main()
