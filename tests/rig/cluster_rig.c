/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "cluster_rig.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/rig/test_main.h"

const char *const server_names[CLUSTER_SERVERS] = {"a", "b", "c"};
static char map_path[128];

struct real_server srv[CLUSTER_SERVERS];
struct clustermap *map;
struct farkv *kv;
char keys[CLUSTER_KEYS][16];

void cluster_map_write(void)
{
	char text[CLUSTERMAP_TEXT_MAX + 1];
	size_t len = clustermap_print(map, text);
	FILE *f = fopen(map_path, "w");

	ck_assert_ptr_nonnull(f);
	ck_assert_uint_eq(fwrite(text, 1, len, f), len);
	ck_assert_int_eq(fclose(f), 0);
}

void cluster_start(unsigned i, const char *name)
{
	const char *const args[] = {"-m", "96m", "--cluster-map", map_path, "--node-name", name, NULL};

	real_server_start(&srv[i], args);
}

void cluster_setup(void)
{
	static const char *const plain[] = {"-m", "96m", NULL};
	char list[3 * 100];

	/* By RDMA a server's address is known when it has served once. */
	for (unsigned i = 0; i < CLUSTER_SERVERS; i++) {
		real_server_init(&srv[i], plain);
		(void)real_server_end(&srv[i], SIGTERM);
	}
	snprintf(map_path, sizeof(map_path), "%s/map", srv[0].dir);
	snprintf(list, sizeof(list), "a=%s,b=%s,c=%s", srv[0].path, srv[1].path, srv[2].path);
	ck_assert_msg(clustermap_make(list, &map) == 0, "%s", farkv_errdetail());
	cluster_map_write();
	for (unsigned i = 0; i < CLUSTER_SERVERS; i++)
		cluster_start(i, server_names[i]);
	kv = e2e_open(srv[1].path, CLUSTER_TIMEOUT_MS);
}

void cluster_teardown(void)
{
	farkv_close(kv);
	for (unsigned i = 0; i < CLUSTER_SERVERS; i++)
		real_server_fini(&srv[i]);
	free(map);
}

size_t key_make(unsigned i)
{
	return (size_t)snprintf(keys[i], sizeof(keys[i]), "key%u", i);
}

unsigned owner(unsigned i)
{
	return clustermap_owner(map, keys[i], strlen(keys[i]));
}

void store_all(void)
{
	for (unsigned i = 0; i < CLUSTER_KEYS; i++) {
		size_t len = key_make(i);

		ck_assert_int_eq(farkv_put(kv, keys[i], len, keys[i], len), 0);
	}
}

void check_names_server(int err, const char *name)
{
	char prefix[32];

	ck_assert_int_eq(err, FARKV_EDISCONNECTED);
	snprintf(prefix, sizeof(prefix), "server %s: ", name);
	ck_assert_msg(strstr(farkv_errdetail(), prefix), "%s", farkv_errdetail());
}

const char *key_of(unsigned server)
{
	for (unsigned i = 0;; i++) {
		key_make(i);
		if (owner(i) == server)
			return keys[i];
	}
}

void requests_make(struct farkv_request *reqs, unsigned n, enum farkv_request_kind kind)
{
	for (unsigned i = 0; i < n; i++)
		reqs[i] = (struct farkv_request){.tag = i, .kind = kind, .key = keys[i],
						 .key_len = key_make(i), .value = keys[i],
						 .value_len = strlen(keys[i])};
}
