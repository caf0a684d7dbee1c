/* SPDX-License-Identifier: BSD-3-Clause */
/** coroutine.h - threads that switch explicitly, without a system call. */
#ifndef TESTS_LAB_COROUTINE_H
#define TESTS_LAB_COROUTINE_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <ucontext.h>

struct coroutine {
	jmp_buf here;
	ucontext_t entry;
	bool begun; /* it was once left by coroutine_switch() */
};

/** At its first turn it runs fn(), which must not return, on this stack. */
void coroutine_new(struct coroutine *co, void *stack, size_t bytes,
		   void (*fn)(void));

/** Leave `from` and go on with `to`. Returns when somebody goes on with `from`, which
 * may be zeroed: then it becomes the current one. */
void coroutine_switch(struct coroutine *from, struct coroutine *to);

#endif
