/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * err.h - texts of error numbers, and the thread's last error line.
 *
 * The numbers are those of <farkv.h>; internal functions return them too.
 */
#ifndef COMMON_BASE_ERR_H
#define COMMON_BASE_ERR_H

#include <farkv.h>

/** Text of an error number; "unknown error" for others. Never NULL. */
const char *err_str(int err);

/**
 * Set the thread's error line and return `err`, so that callers write `return
 * err_set(FARKV_EURI, ...)`. The line says what was wrong, where, and what to do. At most
 * 511 bytes, no allocation. Control characters become '?', because the line may quote
 * input.
 */
int err_set(int err, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/** Set the line to the text of `err`, without formatting: for frequent errors. */
int err_set_plain(int err);

/**
 * As err_set(), and append ": " and strerror(errnum), or a remedy if descriptors ran out.
 * The line is cut to make room for that.
 */
int err_set_errno(int err, int errnum, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Lets compilers and analyzers see that the calls return their first argument, an error. */
static inline int err_same(int err, int set)
{
	(void)set;
	return err;
}
#define err_set(err, ...) err_same((err), (err_set)((err), __VA_ARGS__))
#define err_set_errno(err, errnum, ...)                                        \
	err_same((err), (err_set_errno)((err), (errnum), __VA_ARGS__))

/** Size of the line including its NUL. */
#define ERR_LINE_MAX 512

/** The line; "" if none was set since err_clear(). Never NULL. */
const char *err_detail(void);

/** Forget the line. */
void err_clear(void);

#endif
