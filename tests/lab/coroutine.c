/* SPDX-License-Identifier: BSD-3-Clause */
/* A jump to another stack looks like a mistake to a fortified longjmp(). */
#undef _FORTIFY_SOURCE
#include "config.h"
#undef _FORTIFY_SOURCE

#include "coroutine.h"

/* The sanitizers know swapcontext(), which costs two system calls. */
#if defined(__SANITIZE_ADDRESS__)
#define WITH_SWAPCONTEXT 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_SWAPCONTEXT 1
#endif
#endif

void coroutine_new(struct coroutine *co, void *stack, size_t bytes,
		   void (*fn)(void))
{
	co->begun = false;
	getcontext(&co->entry);
	co->entry.uc_stack.ss_sp = stack;
	co->entry.uc_stack.ss_size = bytes;
	co->entry.uc_link = NULL;
	makecontext(&co->entry, fn, 0);
}

void coroutine_switch(struct coroutine *from, struct coroutine *to)
{
#ifdef WITH_SWAPCONTEXT
	swapcontext(&from->entry, &to->entry);
#else
	from->begun = true;
	if (_setjmp(from->here))
		return;
	if (to->begun)
		_longjmp(to->here, 1);
	setcontext(&to->entry);
#endif
}
