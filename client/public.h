/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * public.h - <farkv.h> for those who define what it declares: only that leaves the
 * library. To be included before any header that includes <farkv.h>.
 */
#ifndef CLIENT_PUBLIC_H
#define CLIENT_PUBLIC_H

#pragma GCC visibility push(default)
#include <farkv.h>
#pragma GCC visibility pop

#endif
