/* SPDX-License-Identifier: BSD-3-Clause */
/* kvserver's run: keys, socket, region, transports, control loop. */
#include "config.h"

#include "serve.h"

#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "common/sockpath.h"
#include "common/util.h"
#include "control.h"
#include "transport.h"

/* Everything that is opened to serve. */
struct serving {
	const struct server_config *cfg;
	struct transport_address address;
	struct transport_plan plan;
	struct keyfile *keys;
	char path[SOCKPATH_MAX];
	struct listen_socket socket;
	bool socket_open;
	struct region region;
	bool region_open;
	struct control *control;
};

struct region_config serve_region(const struct server_config *cfg)
{
	return (struct region_config){
		.memory = cfg->memory,
		.index_slots = cfg->index_slots,
		.max_value = cfg->max_value,
		.max_key = (uint32_t)cfg->max_key,
		.grace_ns = cfg->grace_ms * NS_PER_MS,
		.pages = (enum region_pages)cfg->hugepages,
	};
}

/*
 * For each session its socket and its tether (departed.h); as many sockets that are
 * slow to close (closer.h), and as many tethers of sessions that ended without goodbye.
 */
static void raise_file_limit(uint64_t sessions)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) || r.rlim_cur >= 4 * sessions + 64)
		return;
	r.rlim_cur = UTIL_MIN(r.rlim_max, (rlim_t)4 * sessions + 64);
	if (setrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < 2 * sessions + 64)
		log_warn("only %llu descriptors allowed: fewer than "
			 "max-sessions=%llu clients can connect",
			 (unsigned long long)r.rlim_cur,
			 (unsigned long long)sessions);
}

/*
 * The address that a client or a shell takes as it stands: absolute, and with
 * %XX for what means something else there.
 */
static void uri_of(const char *path, char *uri)
{
	char *full = realpath(path, NULL);
	char *at = uri + sprintf(uri, "shm://");
	const char *end = uri + 4 * SOCKPATH_MAX - 4;

	for (const char *p = full ? full : path; *p && at < end; p++)
		if (isalnum((unsigned char)*p) || strchr("/._-+=,@:", *p))
			*at++ = *p;
		else
			at += sprintf(at, "%%%02X", (unsigned char)*p);
	*at = '\0';
	free(full);
}

/* ---- the stages ----------------------------------------------------------------- */

static int check(struct serving *s)
{
	const struct server_config *cfg = s->cfg;

	if (transport_address(cfg->listen, &s->address))
		return EXIT_USAGE;
	if (cfg->keys_on_socket && !cfg->keys) {
		err_set(FARKV_EINVAL, "keys-on-socket: there are no keys; give "
				      "--keys FILE");
		return EXIT_USAGE;
	}
	if (cfg->keys && cfg->no_auth) {
		err_set(FARKV_EINVAL, "--keys and --no-auth exclude each other");
		return EXIT_USAGE;
	}
	if (cfg->keys && keyfile_load(cfg->keys, &s->keys))
		return EXIT_CONFIG;
	return 0;
}

int serve_check(const struct server_config *cfg)
{
	struct serving s = {.cfg = cfg};
	struct transport_wanted w = {.transport = TRANSPORT_SHM};
	int code = check(&s);

	w.transport = (enum transport)cfg->transport;
	w.have_keys = cfg->keys;
	w.no_auth = cfg->no_auth;
	if (!code && w.transport != TRANSPORT_AUTO &&
	    transport_choose(&w, &s.address, &s.plan))
		code = EXIT_USAGE;
	keyfile_free(s.keys);
	return code;
}

static int choose(struct serving *s)
{
	struct transport_wanted w = {
		.transport = (enum transport)s->cfg->transport,
		.listen = s->cfg->listen,
		.have_keys = s->keys != NULL,
		.no_auth = s->cfg->no_auth,
	};

	return transport_choose(&w, &s->address, &s->plan) ? EXIT_USAGE : 0;
}

static int open_socket(struct serving *s)
{
	const struct server_config *cfg = s->cfg;

	if (cfg->socket)
		strcpy(s->path, cfg->socket);
	else if (sockpath_server_default(s->path, sizeof(s->path)))
		return EXIT_USAGE;
	if (listen_open(s->path, cfg->socket_mode, &s->socket))
		return EXIT_RUN;
	s->socket_open = true;
	return 0;
}

static int open_control(struct serving *s)
{
	const struct server_config *cfg = s->cfg;
	struct verbs_server_config rdma = {
		.host = s->address.host[0] ? s->address.host : NULL,
		.port = s->address.port,
		.device = cfg->device,
		.tuning = {.ack_timeout = (uint8_t)cfg->ack_timeout,
			   .tos = (uint8_t)cfg->tos},
		.n_recv = (uint32_t)cfg->control_buffers,
	};
	struct control_config cc = {
		.max_sessions = (uint32_t)cfg->max_sessions,
		.drain_ms = (uint32_t)cfg->drain_ms,
		.hello_ms = 5000,
		.socket = s->plan.socket ? &s->socket : NULL,
		.rdma = s->plan.rdma ? &rdma : NULL,
		.keys = s->keys,
		.keys_on_socket = cfg->keys_on_socket,
	};

	if (control_new(&cc, &s->region, &s->control) == 0)
		return 0;
	if (cfg->transport != TRANSPORT_AUTO || !s->plan.rdma || cfg->listen ||
	    cfg->device || cfg->keys)
		return EXIT_RUN;
	/* Nobody asked for RDMA: what works is better than nothing. */
	log_warn("no RDMA: %s", err_detail());
	s->plan.rdma = false;
	strcpy(s->plan.why, "shared memory, for clients of this host");
	cc.rdma = NULL;
	return control_new(&cc, &s->region, &s->control) ? EXIT_RUN : 0;
}

static void announce(const struct serving *s)
{
	const struct server_config *cfg = s->cfg;
	const char *rdma = control_rdma_address(s->control);
	const char *pages = s->region.pages_note;
	char size[24], uri[4 * SOCKPATH_MAX] = "";

	if (s->plan.socket)
		uri_of(s->path, uri);
	if (cfg->hugepages > REGION_PAGES_AHEAD)
		log_info("pages: %s", pages);
	if (cfg->transport != TRANSPORT_AUTO || rdma)
		log_info("transport: %s", s->plan.why);
	else
		log_debug("transport: %s", s->plan.why);
	if (rdma)
		log_info("rdma: %s; %s", control_rdma_device(s->control),
			 s->keys ? "clients need a key" :
				   "clients need no key");
	printf("kvserver: serving %s at %s%s%s (pid %ld); try: kvcli -u %s "
	       "ping\n",
	       util_format_size(cfg->memory, size, sizeof(size)),
	       rdma ? rdma : uri, rdma && *uri ? " and " : "",
	       rdma ? uri : "", (long)getpid(), rdma ? rdma : uri);
	fflush(stdout);
	if (cfg->ready_fd)
		(void)!write((int)cfg->ready_fd, "READY\n", 6);
}

static int open_all(struct serving *s)
{
	struct region_config rc = serve_region(s->cfg);
	int code = check(s);

	if (!code)
		code = choose(s);
	if (code)
		return code;
	raise_file_limit(s->cfg->max_sessions);
	/* Where files may not be as large as the region: an error, not an end. */
	signal(SIGXFSZ, SIG_IGN);
	if (s->plan.socket)
		code = open_socket(s);
	if (code)
		return code;
	/* A device pins all of the memory where it is. */
	if (s->plan.rdma && rc.pages == REGION_PAGES_AHEAD)
		rc.pages = REGION_PAGES_NEVER;
	if (region_create(&rc, &s->region))
		return EXIT_RUN;
	s->region_open = true;
	return open_control(s);
}

/*
 * While there is a socket and no loop to answer them: a signal must not leave the
 * socket behind, nor spoil the exit status of a server that is leaving.
 */
static void signals_hold(bool hold)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(hold ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL);
}

int serve(const struct server_config *cfg)
{
	struct serving s = {.cfg = cfg};
	int code;

	signals_hold(true);
	code = open_all(&s);
	if (code) {
		log_error("%s", err_detail());
	} else {
		signals_hold(false);
		announce(&s);
		code = control_run(s.control);
		signals_hold(true);
	}
	control_free(s.control);
	if (s.region_open)
		region_destroy(&s.region);
	if (s.socket_open)
		listen_close(&s.socket);
	keyfile_free(s.keys);
	return code;
}
