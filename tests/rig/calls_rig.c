/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "calls_rig.h"

#include <assert.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "common/base/atomic.h"
#include "common/base/clock.h"
#include "common/base/util.h"
#include "test_main.h"

_Thread_local bool counting;
struct calls_seen seen;
int64_t held_bytes;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t each);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
void __real_free(void *p);
int __real_pthread_mutex_lock(pthread_mutex_t *m);
void *__wrap_calloc(size_t n, size_t each);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);
void __wrap_free(void *p);
int __wrap_pthread_mutex_lock(pthread_mutex_t *m);

static void *held(void *p)
{
	if (p)
		(void)atom_count(&held_bytes, (int64_t)malloc_usable_size(p));
	return p;
}

static void not_held(void *p)
{
	if (p)
		(void)atom_count(&held_bytes, -(int64_t)malloc_usable_size(p));
}

void *__wrap_malloc(size_t n)
{
	seen.memory += counting;
	return held(__real_malloc(n));
}

void *__wrap_calloc(size_t n, size_t each)
{
	seen.memory += counting;
	return held(__real_calloc(n, each));
}

void *__wrap_realloc(void *p, size_t n)
{
	seen.memory += counting;
	not_held(p);
	return held(__real_realloc(p, n));
}

void *__wrap_aligned_alloc(size_t align, size_t n)
{
	seen.memory += counting;
	return held(__real_aligned_alloc(align, n));
}

void __wrap_free(void *p)
{
	seen.memory += counting && p;
	not_held(p);
	__real_free(p);
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *m)
{
	seen.locks += counting;
	return __real_pthread_mutex_lock(m);
}

#if defined(__x86_64__)
/*
 * The only code from which the filter lets calls pass: between these two labels. Takes
 * the number and six arguments; returns the kernel's result.
 */
long pass_call(long nr, const greg_t *regs);
extern const char pass_begin[], pass_end[];
__asm__(".text\n"
	".globl pass_call\n"
	".type pass_call, @function\n"
	"pass_call:\n"
	"	mov %rdi, %rax\n"
	"	mov %rsi, %r11\n"
	"	mov 64(%r11), %rdi\n"  /* REG_RDI */
	"	mov 72(%r11), %rsi\n"  /* REG_RSI */
	"	mov 96(%r11), %rdx\n"  /* REG_RDX */
	"	mov 16(%r11), %r10\n"  /* REG_R10 */
	"	mov 0(%r11), %r8\n"    /* REG_R8 */
	"	mov 8(%r11), %r9\n"    /* REG_R9 */
	".globl pass_begin\n"
	"pass_begin:\n"
	"	syscall\n"
	".globl pass_end\n"
	"pass_end:\n"
	"	ret\n");
static_assert(REG_RDI == 8 && REG_RSI == 9 && REG_RDX == 12 && REG_R10 == 2 &&
		      REG_R8 == 0 && REG_R9 == 1,
	      "pass_call(): offsets of registers");

/* The call was trapped: count it, make it, and return its result. */
static void on_call(int sig, siginfo_t *info, void *context)
{
	greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;

	(void)sig;
	seen.calls += counting;
	seen.last = counting ? info->si_syscall : seen.last;
	regs[REG_RAX] = pass_call(info->si_syscall, regs);
}

/* From now on this thread's calls are trapped. False: the system has no filters. */
static bool watch_calls(void)
{
	uintptr_t end = (uintptr_t)pass_end;
	const struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 4, 0),
		/* After the instruction, in both halves. */
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, instruction_pointer)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)end, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, instruction_pointer) + 4),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
			 (uint32_t)((uint64_t)end >> 32), 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
	};
	struct sock_fprog prog = {.len = sizeof(f) / sizeof(f[0]),
				  .filter = (struct sock_filter *)(void *)f};
	struct sigaction a = {.sa_sigaction = on_call,
			      .sa_flags = SA_SIGINFO | SA_NODEFER};

	sigaction(SIGSYS, &a, NULL);
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) == 0;
}
#else
static bool watch_calls(void)
{
	errno = ENOSYS;
	return false;
}
#endif

bool can_watch(void)
{
	if (TEST_UNDER_TSAN || TEST_UNDER_ASAN) {
		printf("  left out: sanitizers make calls of their own\n");
		return false;
	}
	if (!watch_calls()) {
		printf("  left out: no seccomp filter: %s\n", strerror(errno));
		return false;
	}
	memset(&seen, 0, sizeof(seen));
	counting = true;
	(void)clock_now_ns();
	counting = false;
	if (seen.calls) {
		printf("  left out: reading the clock is a system call here\n");
		return false;
	}
	return true;
}
