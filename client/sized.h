/* SPDX-License-Identifier: BSD-3-Clause */
/** sized.h - results in structs whose first field, `size`, the caller sets. */
#ifndef CLIENT_SIZED_H
#define CLIENT_SIZED_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <farkv.h>

#include "common/base/err.h"
#include "common/base/util.h"

/* A limit against mistakes. */
#define SIZED_MAX 16384u

/** FARKV_EINVAL if no struct of this library or a newer one has that size. */
static inline int size_check(const char *what, size_t size)
{
	if (size >= 2 * sizeof(size_t) && size <= SIZED_MAX)
		return 0;
	return err_set(FARKV_EINVAL, "%s: size is %zu; set it to sizeof the struct", what, size);
}

/**
 * Copy `n` bytes of a result to a caller whose struct has `size` bytes: an older struct gets
 * the fields that it has, a newer one zeros for the rest.
 */
static inline void sized_copy(void *dst, size_t size, const void *src, size_t n)
{
	size_t known = UTIL_MIN(size, n);

	memcpy((uint8_t *)dst + sizeof(size_t),
	       (const uint8_t *)src + sizeof(size_t), known - sizeof(size_t));
	memset((uint8_t *)dst + known, 0, size - known);
}

#endif
