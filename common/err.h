/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * err.h - error numbers' texts and the thread's last error line.
 *
 * The numbers are those of <farkv.h>; internal functions return them too.
 */
#ifndef COMMON_ERR_H
#define COMMON_ERR_H

#include <farkv.h>

/** Text of an error number; "unknown error" for others. Never NULL. */
const char *err_str(int err);

/**
 * Remember one line about the failure that is about to be returned, then
 * return `err`, so that callers write `return err_set(FARKV_EURI, ...)`.
 * The line says what was wrong, where, and what to do. Thread-local, bounded
 * to 511 bytes, no allocation. It may quote what others wrote: control
 * characters become '?', so that it stays one line and no terminal obeys it.
 */
int err_set(int err, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/** Remember the text of `err` itself; no formatting, for frequent answers. */
int err_set_plain(int err);

/** As err_set(), with ": " and strerror(errnum), with what to do where descriptors
 * ran out, appended to the line, which is cut where there is no room for both.
 */
int err_set_errno(int err, int errnum, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * What they return is their first argument, which compilers and analyzers see
 * here: a function that fails so has not succeeded.
 */
static inline int err_same(int err, int set)
{
	(void)set;
	return err;
}
#define err_set(err, ...) err_same((err), (err_set)((err), __VA_ARGS__))
#define err_set_errno(err, errnum, ...)                                        \
	err_same((err), (err_set_errno)((err), (errnum), __VA_ARGS__))

/** Bytes of the line at most, with its end. */
#define ERR_LINE_MAX 512

/** The line; "" if none was set since err_clear(). Never NULL. */
const char *err_detail(void);

/** Forget the line. */
void err_clear(void);

#endif
