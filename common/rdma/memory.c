/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <farkv.h>

#include "common/base/err.h"
#include "common/base/util.h"
#include "release.h"

#define CHUNK_FIRST ((size_t)256 << 10)
#define CHUNK_LARGEST ((size_t)4 << 20)
#define CLASS_SMALLEST 6u /* 64 bytes */
/* A larger buffer has a chunk of its own. */
#define OWN_CHUNK (CHUNK_LARGEST / 4)
/* Bytes of such free buffers that stay registered, at most. */
#define KEEP_LARGE ((size_t)128 << 20)

void verbs_mem_init(struct verbs_mem *m, struct ibv_pd *pd)
{
	*m = (struct verbs_mem){.pd = pd};
}

static unsigned class_of(size_t bytes)
{
	unsigned c = CLASS_SMALLEST;

	while (((size_t)1 << c) < bytes)
		c++;
	return c;
}

int verbs_reg_error(int errnum, uint64_t bytes, const char *what)
{
	struct rlimit lim = {0};
	char size[16], limit[16];

	getrlimit(RLIMIT_MEMLOCK, &lim);
	util_format_size(bytes, size, sizeof(size));
	if (lim.rlim_cur == RLIM_INFINITY)
		strcpy(limit, "unlimited");
	else
		util_format_size(lim.rlim_cur, limit, sizeof(limit));
	if (errnum == ENOMEM || errnum == EPERM || errnum == EAGAIN)
		return err_set(FARKV_ENOMEM,
			       "cannot register %s of memory for %s with the "
			       "RDMA device (%s): the limit of locked memory is "
			       "%s; raise it (ulimit -l unlimited, "
			       "LimitMEMLOCK=infinity) or free memory",
			       size, what, strerror(errnum), limit);
	return err_set_errno(FARKV_ESYS, errnum,
			     "cannot register %s of memory for %s with the "
			     "RDMA device (locked memory: %s)",
			     size, what, limit);
}

static void chunk_deregister(struct verbs_chunk *c)
{
	if (c->mr)
		VERBS_RELEASE("memory", ibv_dereg_mr(c->mr));
}

static void chunk_free(struct verbs_chunk *c)
{
	chunk_deregister(c);
	munmap(c->base, c->bytes);
	free(c);
}

static int chunk_register(struct verbs_mem *m, struct verbs_chunk *c)
{
	c->mr = ibv_reg_mr(m->pd, c->base, c->bytes, IBV_ACCESS_LOCAL_WRITE);
	if (!c->mr && (errno == EFAULT || errno == EACCES)) {
		c->mr = ibv_reg_mr(m->pd, c->base, c->bytes, 0);
		c->readonly = c->mr != NULL;
	}
	if (!c->mr)
		return verbs_reg_error(errno, c->bytes, "buffers");
	m->registrations++;
	return 0;
}

/* MADV_DONTFORK: a child of fork() must share no pages with the card. */
static struct verbs_chunk *chunk_new(struct verbs_mem *m, size_t bytes)
{
	struct verbs_chunk *c = calloc(1, sizeof(*c));
	void *p;

	if (!c)
		goto err_memory;
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		goto err_free;
	(void)madvise(p, bytes, MADV_DONTFORK);
	c->base = p;
	c->bytes = bytes;
	if (chunk_register(m, c)) {
		chunk_free(c);
		return NULL;
	}
	c->next = m->chunks;
	m->chunks = c;
	return c;

err_free:
	free(c);
err_memory:
	err_set(FARKV_ENOMEM, "no memory for buffers of %zu bytes", bytes);
	return NULL;
}

/* Take space from the newest chunk, or from a new one twice as large. */
static void *carve(struct verbs_mem *m, size_t bytes)
{
	struct verbs_chunk *c = m->chunks;
	size_t want = CHUNK_FIRST;
	void *p;

	if (bytes > OWN_CHUNK) {
		c = chunk_new(m, util_align_up(bytes, 4096));
		if (!c)
			return NULL;
		c->used = c->bytes;
		/* Later small buffers use the rest of the previous chunk. */
		if (c->next && c->next->used < c->next->bytes) {
			struct verbs_chunk *open = c->next;

			m->chunks = open;
			c->next = open->next;
			open->next = c;
		}
		return c->base;
	}
	if (!c || c->bytes - c->used < bytes) {
		while (want < bytes * 4 ||
		       (c && want < CHUNK_LARGEST && want <= c->bytes))
			want *= 2;
		c = chunk_new(m, want);
		if (!c)
			return NULL;
	}
	p = c->base + c->used;
	c->used += bytes;
	return p;
}

void *verbs_mem_alloc(struct verbs_mem *m, size_t bytes)
{
	unsigned class = class_of(bytes);
	void *p = m->free[class];

	if (!p)
		return carve(m, (size_t)1 << class);
	memcpy(&m->free[class], p, sizeof(void *));
	if (((size_t)1 << class) > OWN_CHUNK)
		m->large_free -= (size_t)1 << class;
	return p;
}

/* Free a chunk that is one buffer. */
static void chunk_drop(struct verbs_mem *m, const void *p)
{
	struct verbs_chunk **at = &m->chunks;

	while (*at && (*at)->base != p)
		at = &(*at)->next;
	if (*at) {
		struct verbs_chunk *c = *at;

		*at = c->next;
		chunk_free(c);
	}
}

void verbs_mem_free(struct verbs_mem *m, void *p, size_t bytes)
{
	unsigned class = class_of(bytes);
	size_t room = (size_t)1 << class;

	if (room > OWN_CHUNK) {
		if (m->large_free + room > KEEP_LARGE) {
			chunk_drop(m, p);
			return;
		}
		m->large_free += room;
	}
	memcpy(p, &m->free[class], sizeof(void *));
	m->free[class] = p;
}

int verbs_mem_add(struct verbs_mem *m, void *p, size_t bytes)
{
	struct verbs_chunk *c = calloc(1, sizeof(*c));
	int err;

	if (!c)
		return err_set(FARKV_ENOMEM, "no memory for a buffer's key");
	c->base = p;
	c->bytes = bytes;
	err = chunk_register(m, c);
	if (err) {
		free(c);
		return err;
	}
	c->next = m->added;
	m->added = c;
	return 0;
}

void verbs_mem_remove(struct verbs_mem *m, const void *p)
{
	struct verbs_chunk **at = &m->added, *c;

	while (*at && (*at)->base != p)
		at = &(*at)->next;
	c = *at;
	if (!c)
		return;
	*at = c->next;
	chunk_deregister(c);
	free(c);
}

bool verbs_mem_added(const struct verbs_mem *m, const void *p, size_t bytes, bool written)
{
	const struct verbs_chunk *c = verbs_chunk_of(m->added, p);

	return c && bytes <= c->bytes - (size_t)((const uint8_t *)p - c->base) &&
	       !(written && c->readonly);
}

void verbs_mem_fini(struct verbs_mem *m)
{
	while (m->added)
		verbs_mem_remove(m, m->added->base);
	while (m->chunks) {
		struct verbs_chunk *next = m->chunks->next;

		chunk_free(m->chunks);
		m->chunks = next;
	}
}
