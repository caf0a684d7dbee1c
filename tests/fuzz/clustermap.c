/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Maps of clusters: one that parses is complete, and its text gives the same map; otherwise the error
 * is one line.
 */
#include "config.h"

#include "fuzz.h"

#include "common/base/err.h"
#include "common/proto/clustermap.h"

static void check(const struct clustermap *m)
{
	uint32_t partitions = 0;

	FUZZ_CHECK(m->epoch > 0 && m->id != 0);
	FUZZ_CHECK(m->n_servers > 0 && m->n_servers <= CLUSTERMAP_SERVERS_MAX);
	for (uint32_t i = 0; i < m->n_servers; i++) {
		FUZZ_CHECK(clustermap_find(m, m->server[i].name) == i);
		FUZZ_CHECK(strlen(m->server[i].address) <= CLUSTERMAP_ADDRESS_MAX);
		partitions += m->server[i].partitions;
	}
	FUZZ_CHECK(partitions == CLUSTERMAP_PARTITIONS);
	for (uint32_t i = 0; i < m->n_servers; i++)
		FUZZ_CHECK(m->server[i].follower == CLUSTERMAP_NONE ||
			   (m->server[i].follower < m->n_servers && m->server[i].follower != i));
	for (uint32_t i = 0; i < CLUSTERMAP_PARTITIONS; i++) {
		FUZZ_CHECK(m->owner[i] < m->n_servers && m->to[i] != m->owner[i]);
		FUZZ_CHECK(m->to[i] == CLUSTERMAP_NONE ? !m->fenced[i] : m->to[i] < m->n_servers);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct clustermap *m = NULL, *again = NULL;
	char text[CLUSTERMAP_TEXT_MAX + 1];
	size_t len;

	err_clear();
	if (clustermap_parse("map", (const char *)data, size, &m)) {
		FUZZ_CHECK(!m && fuzz_detail_ok());
		return 0;
	}
	check(m);
	len = clustermap_print(m, text);
	FUZZ_CHECK(len <= CLUSTERMAP_TEXT_MAX && text[len] == '\0');
	FUZZ_CHECK(clustermap_parse("map", text, len, &again) == 0);
	FUZZ_CHECK(again->id == m->id && memcmp(again->owner, m->owner, sizeof(m->owner)) == 0);
	FUZZ_CHECK(memcmp(again->to, m->to, sizeof(m->to)) == 0);
	FUZZ_CHECK(memcmp(again->server, m->server, sizeof(m->server)) == 0);
	free(again);
	free(m);
	return 0;
}
