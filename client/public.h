/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * public.h - <farkv.h> for the files that define its functions: only those are exported. Include
 * it before any header that includes <farkv.h>.
 */
#ifndef CLIENT_PUBLIC_H
#define CLIENT_PUBLIC_H

#pragma GCC visibility push(default)
#include <farkv.h>
#pragma GCC visibility pop

#endif
