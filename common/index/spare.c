/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "spare.h"

static size_t size_at(unsigned i)
{
	return i == 0 ? SPARE_WINDOW : SPARE_MIN << (i - 1);
}

/* Index of this size; SPARE_SIZES if there is no such size. */
static unsigned index_of(size_t bytes)
{
	unsigned i = 0;

	while (i < SPARE_SIZES && size_at(i) != bytes)
		i++;
	return i;
}

void *spare_take(struct spare *s, size_t bytes)
{
	unsigned i = index_of(bytes);
	struct spare_entry *entry = i < SPARE_SIZES ? s->first[i] : NULL;

	if (!entry)
		return NULL;
	s->first[i] = entry->next;
	s->bytes -= bytes;
	return entry;
}

bool spare_put(struct spare *s, void *mem, size_t bytes)
{
	unsigned i = index_of(bytes);
	struct spare_entry *entry = mem;

	if (i == SPARE_SIZES || bytes > SPARE_KEEP - s->bytes)
		return false;
	entry->next = s->first[i];
	s->first[i] = entry;
	s->bytes += bytes;
	return true;
}

void spare_drop(struct spare *s, struct xport_lane *lane)
{
	void *mem;

	for (unsigned i = 0; i < SPARE_SIZES; i++)
		while ((mem = spare_take(s, size_at(i))))
			xport_mem_free(lane, mem, size_at(i));
}
