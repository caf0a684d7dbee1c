/* SPDX-License-Identifier: BSD-3-Clause */
/* kvserver's run: keys, socket, region, transports, control loop. */
#include "config.h"

#include "serve.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/log.h"
#include "common/base/opts.h"
#include "common/base/privileges.h"
#include "common/base/sockpath.h"
#include "common/base/util.h"
#include "common/proto/clustermap.h"
#include "common/proto/keyfile.h"
#include "common/rdma/verbs.h"
#include "control.h"
#include "copies.h"
#include "http.h"
#include "listen.h"
#include "membership.h"
#include "server/cluster/coord.h"
#include "server/memory/fdstore.h"
#include "server/memory/memlimit.h"
#include "server/memory/notify.h"
#include "server/memory/numa.h"
#include "server/memory/region.h"
#include "server/memory/region_file.h"
#include "server/saver/start.h"
#include "snapshots.h"
#include "transport.h"

#define SAVE_EVERY_MIN_MS UINT64_C(1000)
#define SAVE_EVERY_MAX_MS (UINT64_C(365) * 24 * 3600 * 1000)

/* By which a socket unit passes the socket. */
#define SOCKET_NAME "farkv-socket"

/* Everything that serve() opens. */
struct serving {
	struct server_config *cfg;
	serve_reread *reread;
	bool checking; /* --check-config */
	struct transport_address address;
	struct transport_plan plan;
	struct keyfile *keys;
	char *keys_path; /* of `keys`, absolute; NULL: none */
	struct clustermap *map; /* of the cluster; NULL: in none */
	uint32_t server;        /* of that map */
	char path[SOCKPATH_MAX];
	char uri[LISTEN_URI_MAX]; /* of the socket; empty without one */
	struct listen_socket socket;
	bool socket_open;
	int passed; /* the socket that systemd passed; -1: none */
	struct http_listen metrics;
	bool metrics_open;
	struct region_file file;
	bool file_open;
	struct verbs_claim *claim; /* of the RDMA address, until the device listens */
	struct region region;
	bool region_open;
	struct control *control;
	uint64_t save_every_ms;
	bool again; /* it has served before, and begins again */
	bool restore; /* the snapshot is there, and the region is new */
	struct saver saver; /* pid 0: none */
};

/* Set the detail, and give the exit code. */
#define USAGE_ERROR(...) (err_set(FARKV_EINVAL, __VA_ARGS__), EXIT_USAGE)

unsigned serve_format(void)
{
	return REGION_VERSION;
}

/* The saver is a client as well. */
static uint32_t max_sessions(const struct server_config *cfg)
{
	return (uint32_t)cfg->max_sessions + (cfg->save || cfg->restore ? 1 : 0);
}

/* A cache turns its memory over fast, and what waits out the grace period is lost to it. */
static uint64_t grace_ms(const struct server_config *cfg)
{
	if (cfg->grace_ms)
		return cfg->grace_ms;
	return cfg->when_full == WHEN_FULL_EVICT ? 10 : 100;
}

struct region_config serve_region(const struct server_config *cfg)
{
	return (struct region_config){
		.memory = cfg->memory,
		.index_slots = cfg->index_slots,
		.max_value = cfg->max_value,
		.max_key = (uint32_t)cfg->max_key,
		.cache = cfg->when_full == WHEN_FULL_EVICT,
		.grace_ns = grace_ms(cfg) * NS_PER_MS,
		.sessions = max_sessions(cfg) * 2, /* lingering ones, too */
		.pages = (enum pages_want)cfg->hugepages,
	};
}

/*
 * Per session: its socket and its tether (lingering.h), one more socket that is slow to close
 * (closer.h), and one more tether of a lingering session.
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

/* For RDMA, which takes all memory at once, region_create() fails instead. */
static void warn_of_memory(const struct server_config *cfg, bool pinned)
{
	char a[24], b[24];
	struct room room;

	memlimit_read("", &room);
	if (!pinned && cfg->memory > room.total)
		log_warn("memory: %s is more than %s, %s: when that is used up, puts "
			 "fail for want of memory",
			 util_format_size(cfg->memory, a, sizeof(a)), room.what,
			 util_format_size(room.total, b, sizeof(b)));
}

/* A region that was found keeps its mode. */
static bool evicts(const struct serving *s)
{
	bool cache = s->region.sb.flags & REGION_CACHE;

	if (cache != (s->cfg->when_full == WHEN_FULL_EVICT))
		log_warn("when-full: the store of %s was made with %s, and keeps that",
			 s->file.path, cache ? "evict" : "refuse");
	return cache;
}

/* The table of sessions of an adopted store keeps its length. */
static void warn_of_sessions(const struct serving *s)
{
	uint32_t room = s->region.sb.session_count;

	if (room < max_sessions(s->cfg))
		log_warn("max-sessions: the store of %s was made for fewer, and takes %" PRIu32,
			 s->file.path, room);
}

/* ---- the stages ----------------------------------------------------------------- */

/* The map comes later, from the coordinator. */
static int check_coordinator(const struct server_config *cfg)
{
	struct clustermap *probe;
	char pair[CLUSTERMAP_NAME_MAX + 80];

	if (cfg->cluster_map || cfg->memory_file)
		return USAGE_ERROR("cluster: %s", cfg->cluster_map ?
				   "the map is the coordinator's; leave out --cluster-map" :
				   "a server that comes back begins empty; leave out --memory-file");
	if (coord_check(cfg->cluster)) {
		char why[ERR_LINE_MAX];

		snprintf(why, sizeof(why), "%s", err_detail());
		err_set(FARKV_EINVAL, "cluster: %s", why);
		return EXIT_USAGE;
	}
	snprintf(pair, sizeof(pair), "%.40s=/x", cfg->node_name);
	if (clustermap_make(pair, &probe))
		return USAGE_ERROR("node-name: '%s' is not 1 to 31 of A-Z a-z 0-9 . _ -",
				   cfg->node_name);
	free(probe);
	return 0;
}

static int check_cluster(struct serving *s)
{
	const struct server_config *cfg = s->cfg;

	if ((!cfg->cluster_map && !cfg->cluster) != !cfg->node_name)
		return USAGE_ERROR("--cluster-map FILE or --cluster URL, and --node-name NAME belong "
				   "together");
	if (cfg->cluster)
		return check_coordinator(cfg);
	if (!cfg->cluster_map)
		return 0;
	if (clustermap_load(cfg->cluster_map, &s->map))
		return EXIT_CONFIG;
	s->server = clustermap_find(s->map, cfg->node_name);
	if (s->server < s->map->n_servers)
		return 0;
	err_set(FARKV_EINVAL, "node-name: the map %s has no server '%s'", cfg->cluster_map,
		cfg->node_name);
	return EXIT_CONFIG;
}

/* A restored snapshot that --save has not written yet is no mistake: it is the first start. */
static int check_restore(struct serving *s)
{
	const struct server_config *cfg = s->cfg;

	if (!cfg->restore)
		return 0;
	s->restore = access(cfg->restore, R_OK) == 0;
	if (s->restore || (errno == ENOENT && cfg->save && strcmp(cfg->save, cfg->restore) == 0))
		return 0;
	err_set_errno(FARKV_ESYS, errno, "restore: cannot read %s", cfg->restore);
	return EXIT_RUN;
}

static int check_snapshots(struct serving *s)
{
	const struct server_config *cfg = s->cfg;

	if (cfg->save_every && !cfg->save)
		return USAGE_ERROR("save-every: there is no file; give --save FILE");
	if (cfg->save_every &&
	    (!util_parse_duration(cfg->save_every, &s->save_every_ms) ||
	     s->save_every_ms < SAVE_EVERY_MIN_MS || s->save_every_ms > SAVE_EVERY_MAX_MS))
		return USAGE_ERROR("save-every: '%s' is no time from 1s to 365d, such as 10m",
				   cfg->save_every);
	if ((cfg->save || cfg->restore) && (cfg->cluster_map || cfg->cluster))
		return USAGE_ERROR("%s: a server of a cluster has a part of the keys; use kvcli "
				   "%s, which has all of them",
				   cfg->save ? "save" : "restore", cfg->save ? "save" : "restore");
	return check_restore(s);
}

static int check(struct serving *s)
{
	const struct server_config *cfg = s->cfg;
	int code;

	if (transport_address(cfg->listen, &s->address))
		return EXIT_USAGE;
	if (cfg->user && privileges_find(cfg->user))
		return EXIT_USAGE;
	if (!s->checking && privileges_begin())
		return EXIT_USAGE;
	if (cfg->keys_on_socket && !cfg->keys)
		return USAGE_ERROR("keys-on-socket: there are no keys; give "
				   "--keys FILE");
	if (cfg->keys && cfg->no_auth)
		return USAGE_ERROR("--keys and --no-auth exclude each other");
	if ((cfg->verify || cfg->replace) && !cfg->memory_file)
		return USAGE_ERROR("%s: there is no region to take over; give "
				   "--memory-file PATH",
				   cfg->verify ? "verify" : "replace");
	s->keys_path = cfg->keys ? realpath(cfg->keys, NULL) : NULL;
	if (cfg->keys && keyfile_load(cfg->keys, &s->keys))
		return EXIT_CONFIG;
	if (cfg->metrics && http_listen_check(cfg->metrics))
		return EXIT_USAGE;
	if (cfg->numa_node && numa_node_parse(cfg->numa_node) < 0)
		return EXIT_USAGE;
	code = check_snapshots(s);
	return code ? code : check_cluster(s);
}

int serve_check(struct server_config *cfg)
{
	struct serving s = {.cfg = cfg, .checking = true};
	struct transport_wanted w = {.transport = TRANSPORT_SHM};
	int code = check(&s);

	w.transport = (enum transport)cfg->transport;
	w.have_keys = cfg->keys;
	w.no_auth = cfg->no_auth;
	if (!code && w.transport != TRANSPORT_AUTO &&
	    transport_choose(&w, &s.address, &s.plan))
		code = EXIT_USAGE;
	if (!code && cfg->socket && listen_uri(cfg->socket, s.uri))
		code = EXIT_USAGE;
	keyfile_free(s.keys);
	free(s.keys_path);
	free(s.map);
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

	if (transport_choose(&w, &s->address, &s->plan))
		return EXIT_USAGE;
	if (s->passed >= 0 && !s->plan.socket)
		return USAGE_ERROR("transport: by RDMA alone there is no use for the socket that "
				   "was passed; stop the socket unit");
	if (s->cfg->listen && !s->plan.rdma)
		log_warn("listen: %s is not used: %s", s->cfg->listen, s->plan.why);
	return 0;
}

static int adopt_socket(struct serving *s)
{
	int err = listen_adopt(s->passed, s->cfg->socket, &s->socket);

	if (err)
		return err == FARKV_EINVAL ? EXIT_USAGE : EXIT_RUN;
	s->socket_open = true;
	strcpy(s->path, s->socket.path);
	return listen_uri(s->path, s->uri) ? EXIT_USAGE : 0;
}

static int open_socket(struct serving *s)
{
	const struct server_config *cfg = s->cfg;

	if (s->passed >= 0)
		return adopt_socket(s);
	if (cfg->socket)
		strcpy(s->path, cfg->socket);
	else if (sockpath_server_default(s->path, sizeof(s->path)))
		return EXIT_USAGE;
	else if (sockpath_make_folder(s->path))
		return EXIT_RUN;
	if (listen_uri(s->path, s->uri))
		return EXIT_USAGE;
	if (listen_open(s->path, cfg->socket_mode, &s->socket))
		return EXIT_RUN;
	s->socket_open = true;
	return 0;
}

static int open_metrics(struct serving *s)
{
	int err = http_listen_open(s->cfg->metrics, &s->metrics);

	s->metrics_open = !err;
	return err == FARKV_EINVAL ? EXIT_USAGE : err ? EXIT_RUN : 0;
}

/* Descriptors that do not fit are dropped without a word, and a session's must not be missing. */
static bool store_is_there(const struct server_config *cfg)
{
	uint64_t room = fdstore_room(), needs = 2 * max_sessions(cfg) + 2;

	if (room && room < needs)
		log_warn("the store is lost at a restart: the unit has FileDescriptorStoreMax=%" PRIu64
			 ", and with max-sessions=%" PRIu64 " it takes %" PRIu64,
			 room, cfg->max_sessions, needs);
	return room >= needs;
}

/* Before the socket: with --replace another server has that, too. */
static int open_file(struct serving *s)
{
	const struct server_config *cfg = s->cfg;

	if (cfg->cluster || (!cfg->memory_file && !store_is_there(cfg)))
		return 0;
	if (cfg->memory_file ? region_file_open(cfg->memory_file, cfg->replace, &s->file) :
			       region_file_of_store(&s->file))
		return EXIT_RUN;
	s->file_open = true;
	return 0;
}

/* Except the fields about the region. */
static struct verbs_server_config rdma_config(const struct serving *s)
{
	const struct server_config *cfg = s->cfg;

	return (struct verbs_server_config){
		.host = s->address.host[0] ? s->address.host : NULL,
		.port = s->address.port,
		.device = cfg->device,
		.tuning = {.ack_timeout = (uint8_t)cfg->ack_timeout,
			   .tos = (uint8_t)cfg->tos},
		.n_recv = (uint32_t)cfg->control_buffers,
		.claim = s->claim,
	};
}

static void release_claim(struct serving *s)
{
	if (s->claim)
		xport_verbs->claim_close(s->claim);
	s->claim = NULL;
}

/* Continue without RDMA unless it was requested; false if it was. */
static bool do_without_rdma(struct serving *s)
{
	const struct server_config *cfg = s->cfg;

	if (cfg->transport != TRANSPORT_AUTO || !s->plan.rdma || cfg->listen ||
	    cfg->device || cfg->keys)
		return false;
	log_warn("no RDMA: %s", err_detail());
	s->plan.rdma = false;
	strcpy(s->plan.why, "shared memory, for clients of this host");
	release_claim(s);
	return true;
}

static int claim_address(struct serving *s)
{
	struct verbs_server_config rdma = rdma_config(s);

	if (!xport_verbs) /* open_control() says so */
		return 0;
	return xport_verbs->claim_open(&rdma, &s->claim) && !do_without_rdma(s) ? EXIT_RUN : 0;
}

/* The level and look of the log. */
static void set_log(const struct server_config *cfg)
{
	log_set_level(cfg->quiet     ? LOG_LEVEL_WARN
		      : cfg->verbose ? LOG_LEVEL_DEBUG
				     : LOG_LEVEL_INFO);
	log_set_format((enum log_format)cfg->log_format);
}

/* At SIGHUP. */
static void reload(void *arg, struct control_config *cc)
{
	struct opts_changes changes;
	struct serving *s = arg;

	if (s->reread(s->cfg, &changes)) {
		log_error("SIGHUP: the options stay as they are: %s", err_detail());
		return;
	}
	set_log(s->cfg);
	cc->drain_ms = (uint32_t)s->cfg->drain_ms;
	if (*changes.left)
		log_warn("SIGHUP: changed in %s, but only a restart changes:%s", s->cfg->config,
			 changes.left);
	log_info("SIGHUP: options read again; changed:%s",
		 *changes.taken ? changes.taken : " none");
}

static int open_control(struct serving *s)
{
	const struct server_config *cfg = s->cfg;
	struct verbs_server_config rdma = rdma_config(s);
	struct control_config cc = {
		.max_sessions = max_sessions(cfg),
		.drain_ms = (uint32_t)cfg->drain_ms,
		.hello_ms = 5000,
		.socket = s->plan.socket ? &s->socket : NULL,
		.rdma = s->plan.rdma ? &rdma : NULL,
		.reload = s->reread ? reload : NULL,
		.reload_arg = s,
		.keys = s->keys,
		.keys_path = s->keys_path,
		.evict = evicts(s),
		/* Without RDMA the socket's clients are the only ones to authenticate. */
		.keys_on_socket = cfg->keys_on_socket || !s->plan.rdma,
		.map = s->map,
		.server = s->server,
		.metrics = s->metrics_open ? &s->metrics : NULL,
		.cluster = cfg->cluster,
		.node_name = cfg->node_name,
		.saver = s->saver.pid > 0 ? &s->saver : NULL,
		.saves = cfg->save != NULL,
		.save_every_ms = s->save_every_ms,
		/* A region that outlives the server has a successor that waits for its end. */
		.save_at_end = cfg->save && !s->file_open,
		.verify = cfg->verify,
	};
	int err;

	warn_of_sessions(s);
	err = control_new(&cc, &s->region, &s->control);
	if (!err)
		return 0;
	if (err == FARKV_EREFUSED || !do_without_rdma(s)) /* of the region, not of a device */
		return EXIT_RUN;
	cc.rdma = NULL;
	return control_new(&cc, &s->region, &s->control) ? EXIT_RUN : 0;
}

/* A failed write is logged, no more. */
static void tell(int fd, const char *where, const char *text)
{
	int errnum = log_put(fd, text, strlen(text));

	if (errnum)
		log_warn("cannot write to %s: %s", where, strerror(errnum));
}

/* Writes to the raw descriptor: a reader can rely on all others being closed. */
static void tell_ready(int fd)
{
	if (!util_writable(fd) || write(fd, "READY\n", 6) != 6)
		log_warn("cannot write to ready-fd: %s", strerror(errno));
}

/* A key that may write, if there is one. */
static const char *key_name(const struct serving *s)
{
	const struct key *k;

	for (size_t i = 0; (k = keyfile_at(s->keys, i)); i++)
		if (k->role == KEY_RW)
			return k->name;
	return keyfile_at(s->keys, 0)->name;
}

/* kvcli options for the suggested command. */
static const char *key_options(const struct serving *s, char *buf, size_t cap)
{
	char word[PATH_MAX + 64];
	char *full = realpath(s->cfg->keys, NULL);
	bool several = keyfile_at(s->keys, 1) != NULL;

	snprintf(buf, cap, "--keys %s %s%s%s",
		 util_shell_word(full ? full : s->cfg->keys, word, sizeof(word)),
		 several ? "--key " : "", several ? key_name(s) : "",
		 several ? " " : "");
	free(full);
	return buf;
}

static void announce(const struct serving *s)
{
	const struct server_config *cfg = s->cfg;
	const char *rdma = control_rdma_address(s->control);
	const char *pages = s->region.pages_note;
	const char *uri = s->uri;
	char size[24], word[LISTEN_URI_MAX + 4], options[PATH_MAX + 256] = "";
	char line[sizeof(options) + 3 * LISTEN_URI_MAX + 128];

	if (s->map)
		log_info("cluster: server %s, %" PRIu32 " of %u partitions, map of epoch %" PRIu64,
			 cfg->node_name, s->map->server[s->server].partitions,
			 CLUSTERMAP_PARTITIONS, s->map->epoch);
	if (cfg->hugepages > PAGES_AHEAD)
		log_info("pages: %s", pages);
	if (cfg->transport != TRANSPORT_AUTO || rdma)
		log_info("transport: %s", s->plan.why);
	else
		log_debug("transport: %s", s->plan.why);
	if (rdma)
		log_info("rdma: %s; %s", control_rdma_device(s->control),
			 s->keys ? "clients need a key" :
				   "clients need no key");
	else if (s->keys)
		log_info("socket: clients need a key");
	snprintf(line, sizeof(line),
		 "kvserver: serving %s at %s%s%s (pid %ld)%s%s%s; try: kvcli %s-u %s "
		 "ping\n",
		 util_format_size(s->region.sb.region_bytes - s->region.sb.meta_bytes, size,
				  sizeof(size)),
		 rdma ? rdma : uri, rdma && *uri ? " and " : "",
		 rdma ? uri : "", (long)getpid(), s->metrics_open ? ", metrics at http://" : "",
		 s->metrics_open ? s->metrics.text : "", s->metrics_open ? "/metrics" : "",
		 s->keys ? key_options(s, options, sizeof(options)) : "",
		 util_shell_word(rdma ? rdma : uri, word, sizeof(word)));
	tell(STDOUT_FILENO, "stdout", line);
	if (cfg->ready_fd && !s->again)
		tell_ready((int)cfg->ready_fd);
	(void)notify_send("READY=1", -1);
}

/* Before anything that a child must not have. */
static int start_saver(struct serving *s)
{
	const struct server_config *cfg = s->cfg;
	struct saver_config sc = {.save = cfg->save, .restore = cfg->restore, .keys = cfg->keys};

	if (!cfg->save && !cfg->restore)
		return 0;
	return saver_start(&sc, &s->saver) ? EXIT_RUN : 0;
}

static int open_early(struct serving *s)
{
	int code = check(s);

	if (!code && s->cfg->numa_node && numa_place(numa_node_parse(s->cfg->numa_node)))
		code = EXIT_RUN;
	if (!code)
		code = choose(s);
	if (!code)
		code = start_saver(s);
	if (code)
		return code;
	privileges_raise();
	raise_file_limit(s->cfg->max_sessions);
	privileges_lower();
	/* A file size limit below the region's size: report an error instead of ending. */
	signal(SIGXFSZ, SIG_IGN);
	return open_file(s);
}

static int take_addresses(struct serving *s)
{
	int code = 0;

	privileges_raise();
	if (s->plan.socket)
		code = open_socket(s);
	if (!code && s->cfg->metrics)
		code = open_metrics(s);
	if (!code && s->plan.rdma)
		code = claim_address(s);
	privileges_lower();
	return code;
}

static int open_all(struct serving *s)
{
	struct region_config rc = serve_region(s->cfg);
	int code = open_early(s);

	if (code)
		return code;
	/* Before memory is taken: the kernel might kill a server that already serves there. */
	code = take_addresses(s);
	if (code)
		return code;
	/* A device pins all pages where they are. */
	if (s->plan.rdma && rc.pages == PAGES_AHEAD)
		rc.pages = PAGES_NEVER;
	rc.pinned = s->plan.rdma;
	rc.file = s->file_open ? &s->file : NULL;
	rc.unfinished = true;
	if (!s->file_open || !s->file.found)
		warn_of_memory(s->cfg, rc.pinned);
	if (region_create(&rc, &s->region))
		return EXIT_RUN;
	s->region_open = true;
	if (s->map && !s->region.found)
		region_reseed(&s->region, clustermap_index_seed(s->map));
	privileges_raise(); /* a device takes locked memory */
	code = open_control(s);
	privileges_lower();
	if (!code && privileges_drop())
		code = EXIT_RUN;
	if (!code && s->socket_open && listen_begin(&s->socket))
		code = EXIT_RUN;
	return code;
}

/* Have the saver connect, restore, join the cluster, and let later servers find the region. */
static int fill(struct serving *s)
{
	const struct server_config *cfg = s->cfg;
	const char *rdma = control_rdma_address(s->control);

	if (s->saver.pid > 0 &&
	    !snapshots_open(s->control, rdma ? rdma : s->uri, s->keys ? key_name(s) : NULL)) {
		err_set(FARKV_EDISCONNECTED, "the saving process has ended");
		return EXIT_RUN;
	}
	if (cfg->restore && s->region.found)
		log_info("restore: left out, the store of %s is there", s->file.path);
	else if (cfg->restore && !s->restore)
		log_info("restore: there is no %s yet, the store is empty", cfg->restore);
	else if (cfg->restore && snapshots_restore(s->control))
		return EXIT_RUN;
	copies_set_address(s->control, rdma ? rdma : s->uri, s->keys ? key_name(s) : NULL);
	if (membership_join(s->control))
		return EXIT_RUN;
	return s->file_open && region_file_finish(&s->file) ? EXIT_RUN : 0;
}

/*
 * Block signals while the socket exists and the loop does not run: a signal must not leave the
 * socket behind, nor change the exit status of a server that is ending.
 */
static void signals_hold(bool hold)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGUSR1);
	sigprocmask(hold ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL);
}

/* CONTROL_AGAIN: begin again, with an empty region. */
static int serve_once(struct serving s)
{
	int code;

	signals_hold(true);
	code = open_all(&s);
	signals_hold(code != 0);
	if (!code)
		code = fill(&s);
	if (code) {
		log_error("%s", err_detail());
	} else {
		announce(&s);
		code = control_run(s.control);
	}
	signals_hold(true);
	control_free(s.control);
	if (s.saver.pid > 0)
		saver_stop(&s.saver);
	release_claim(&s);
	if (s.region_open)
		region_destroy(&s.region);
	if (s.metrics_open)
		close(s.metrics.fd);
	if (s.socket_open)
		listen_close(&s.socket);
	/* Last: a server that waits for it takes the socket, too. */
	if (s.file_open)
		region_file_close(&s.file);
	keyfile_free(s.keys);
	free(s.keys_path);
	free(s.map);
	return code;
}

int serve(struct server_config *cfg, serve_reread *reread)
{
	struct serving s = {.cfg = cfg, .reread = reread, .passed = fdstore_take(SOCKET_NAME)};
	int code;

	log_never_wait();
	set_log(cfg);
	if (s.passed >= 0 && fdstore_take(SOCKET_NAME) >= 0) {
		log_error("several sockets were passed; the socket unit needs a single Listen line");
		return EXIT_USAGE;
	}
	fdstore_close_strangers();
	while ((code = serve_once(s)) == CONTROL_AGAIN)
		s.again = true;
	return code;
}
