/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "gate_rig.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "gate/mc.h"
#include "gate/resp.h"
#include "tests/rig/e2e.h"

struct gate_rig rig;

static void setup(const char *when_full)
{
	const char *const args[] = {"-m", "64m", "-I", "1m", "--when-full", when_full, NULL};
	struct gate *g = &rig.gate;

	memset(&rig, 0, sizeof(rig));
	real_server_init(&rig.srv, args);
	g->cfg.max_request = 2 * GATE_RIG_MAX_VALUE;
	g->cfg.max_output = 4 * GATE_RIG_MAX_VALUE;
	g->cfg.max_clients = 10;
	g->cfg.timeout_ms = 20000;
	g->max_value = GATE_RIG_MAX_VALUE;
	g->max_key = 65535;
	g->max_clients = 10;
	g->n_workers = 1;
	g->counts = &rig.counts;
	pthread_mutex_init(&g->lock, NULL);
	rig.client = (struct client){.gate = g, .counts = &rig.counts, .out = &rig.out,
				     .scratch = &rig.scratch, .authenticated = true,
				     .user = "default", .resp = 2, .command = "NULL", .fd = -1};
	rig.client.kv = e2e_open(rig.srv.path, 20000);
	clients_enter(&rig.client);
}

void gate_rig_setup(void)
{
	setup("refuse");
}

void gate_rig_setup_cache(void)
{
	setup("evict");
}

void gate_rig_teardown(void)
{
	clients_leave(&rig.client);
	farkv_close(rig.client.kv);
	args_free(&rig.client.parser.args);
	args_free(&rig.client.mc.args);
	buf_free(&rig.out);
	buf_free(&rig.scratch);
	real_server_fini(&rig.srv);
}

static void answered(const char *request, const char *want)
{
	ck_assert_msg(rig.out.len == strlen(want) && memcmp(rig.out.p, want, rig.out.len) == 0,
		      "'%s': answered '%.*s', expected '%s'", request, (int)rig.out.len,
		      rig.out.p ? rig.out.p : "", want);
}

static void resp_ask(const char *line)
{
	char data[2048];
	size_t len = (size_t)snprintf(data, sizeof(data), "%s\r\n", line);

	rig.out.len = 0;
	ck_assert_uint_eq(resp_step(&rig.client, data, len), len);
}

void resp(const char *line, const char *want)
{
	char full[4096];

	snprintf(full, sizeof(full), "%s\r\n", want);
	resp_ask(line);
	answered(line, full);
}

void resp_begins(const char *line, const char *want)
{
	resp_ask(line);
	ck_assert_msg(rig.out.len >= strlen(want) && memcmp(rig.out.p, want, strlen(want)) == 0,
		      "'%s': answered '%.*s'", line, (int)rig.out.len, rig.out.p);
}

void has_text(const char *text)
{
	ck_assert_msg(memmem(rig.out.p, rig.out.len, text, strlen(text)), "no '%s' in '%.*s'",
		      text, (int)rig.out.len, rig.out.p);
}

size_t mc_ask(const char *requests)
{
	size_t len = strlen(requests), done = 0, n;

	rig.out.len = 0;
	while (done < len && (n = mc_step(&rig.client, requests + done, len - done)))
		done += n;
	ck_assert_uint_eq(done, len);
	return rig.out.len;
}

void mc(const char *requests, const char *want)
{
	mc_ask(requests);
	answered(requests, want);
}
