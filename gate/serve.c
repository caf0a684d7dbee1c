/* SPDX-License-Identifier: BSD-3-Clause */
/* kvgate's run: keys, sockets, handles, threads; then it accepts connections. */
#include "config.h"

#include "serve.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/event.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/log.h"
#include "common/base/util.h"
#include "listen.h"
#include "waits.h"
#include "worker.h"

#define MIB (UINT64_C(1) << 20)
#define OUTPUT_DEFAULT (64 * MIB)

struct serving {
	struct gate gate;
	struct listen_at *listens;
	struct event **events; /* of the sockets */
	size_t n_listens;
	struct worker **workers;
	size_t n_workers;
	size_t turn; /* of the threads, for the next connection */
	struct event_base *base;
	bool followed;       /* the store has followers: WAIT waits for them */
	struct event *pause; /* until descriptors are free again */
};

/* ---- keys ---------------------------------------------------------------------------- */

static int check_list(const char *option, const struct opt_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		if (listen_check(option, l->v[i]))
			return EXIT_USAGE;
	return 0;
}

static int load_keys(const struct gate_config *cfg, struct keyfile **out)
{
	if (cfg->client_keys && cfg->no_auth) {
		err_set(FARKV_EINVAL, "--client-keys and --no-auth exclude each other");
		return EXIT_USAGE;
	}
	if (!cfg->client_keys)
		return 0;
	return keyfile_load(cfg->client_keys, out) ? EXIT_CONFIG : 0;
}

int serve_check(const struct gate_config *cfg)
{
	struct keyfile *keys = NULL;
	int code;

	if (!cfg->resp.n && !cfg->memcached.n) {
		err_set(FARKV_EINVAL, "there is nothing to serve: give --resp ADDRESS, --memcached "
				      "ADDRESS or both, as in --resp 6379");
		return EXIT_USAGE;
	}
	code = check_list("resp", &cfg->resp);
	if (!code)
		code = check_list("memcached", &cfg->memcached);
	if (!code)
		code = load_keys(cfg, &keys);
	keyfile_free(keys);
	return code;
}

/* ---- sockets ------------------------------------------------------------------------- */

/* Port 0 is another one each time. */
static bool in_list(const struct opt_list *l, const char *text)
{
	size_t len = strlen(text);

	if (strcmp(text, "0") == 0 || (len > 2 && strcmp(text + len - 2, ":0") == 0))
		return false;
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->v[i], text) == 0)
			return true;
	return false;
}

static int open_one(struct serving *s, const char *option, const char *text,
		    enum client_speaks speaks)
{
	const struct gate_config *cfg = &s->gate.cfg;
	struct listen_at *l = &s->listens[s->n_listens];

	l->speaks = speaks;
	if (listen_open_at(option, text, cfg->socket_mode, l))
		return EXIT_RUN;
	s->n_listens++;
	if (l->local || cfg->client_keys || cfg->no_auth)
		return 0;
	err_set(FARKV_EINVAL,
		"%s: other machines reach %s: give --client-keys FILE, or --no-auth to let everyone "
		"read and write",
		option, l->text);
	return EXIT_USAGE;
}

/* An address of both lists is opened once. */
static int open_sockets(struct serving *s)
{
	const struct gate_config *cfg = &s->gate.cfg;
	int code = 0;

	s->listens = calloc(cfg->resp.n + cfg->memcached.n, sizeof(*s->listens));
	s->events = calloc(cfg->resp.n + cfg->memcached.n, sizeof(*s->events));
	if (!s->listens || !s->events) {
		err_set(FARKV_ENOMEM, "no memory");
		return EXIT_RUN;
	}
	for (size_t i = 0; i < cfg->resp.n && !code; i++)
		code = open_one(s, "resp", cfg->resp.v[i],
				in_list(&cfg->memcached, cfg->resp.v[i]) ? SPEAKS_UNKNOWN :
									   SPEAKS_RESP);
	for (size_t i = 0; i < cfg->memcached.n && !code; i++)
		if (!in_list(&cfg->resp, cfg->memcached.v[i]))
			code = open_one(s, "memcached", cfg->memcached.v[i], SPEAKS_MEMCACHED);
	return code;
}

static void refuse(int fd, enum client_speaks speaks)
{
	const char *text = speaks == SPEAKS_MEMCACHED ?
				   "ERROR Too many open connections\r\n" :
				   "-ERR max number of clients reached\r\n";
	ssize_t n = send(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);

	(void)n; /* it is closed anyway */
	close(fd);
}

static void pause_accepting(struct serving *s, int errnum)
{
	static const struct timeval tenth = {.tv_usec = 100000};

	log_warn("cannot accept a connection: %s", strerror(errnum));
	for (size_t i = 0; i < s->n_listens; i++)
		event_del(s->events[i]);
	event_add(s->pause, &tenth);
}

static void on_pause_over(evutil_socket_t fd, short what, void *arg)
{
	struct serving *s = arg;

	(void)fd;
	(void)what;
	for (size_t i = 0; i < s->n_listens; i++)
		event_add(s->events[i], NULL);
}

static enum client_speaks speaks_at(const struct serving *s, int fd)
{
	for (size_t i = 0; i < s->n_listens; i++)
		if (s->listens[i].fd == fd)
			return s->listens[i].speaks;
	return SPEAKS_UNKNOWN;
}

static void on_connection(evutil_socket_t at, short what, void *arg)
{
	struct serving *s = arg;
	struct gate *g = &s->gate;
	enum client_speaks speaks = speaks_at(s, at);
	int one = 1, fd = accept4(at, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	(void)what;
	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
			pause_accepting(s, errno);
		return;
	}
	if (atom_load_relaxed(&g->connected) >= atom_load_relaxed(&g->max_clients)) {
		atom_count(&g->rejected, 1);
		refuse(fd, speaks);
		return;
	}
	/* Fails on a Unix socket, which has no such delay. */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	atom_count(&g->connected, 1);
	atom_count(&g->accepted, 1);
	s->turn = (s->turn + 1) % s->n_workers;
	if (!worker_give(s->workers[s->turn], fd, speaks)) {
		atom_count(&g->connected, (uint64_t)-1);
		refuse(fd, speaks);
	}
}

/* ---- the stages ---------------------------------------------------------------------- */

/* A connection is one descriptor; a handle has some. */
static void raise_file_limit(const struct gate_config *cfg)
{
	rlim_t need = (rlim_t)cfg->max_clients + 32 * cfg->threads + 64;
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) || r.rlim_cur >= need)
		return;
	r.rlim_cur = UTIL_MIN(r.rlim_max, need);
	if (setrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < need)
		log_warn("only %llu descriptors allowed: fewer than max-clients=%llu clients can "
			 "connect",
			 (unsigned long long)r.rlim_cur, (unsigned long long)cfg->max_clients);
}

static int open_handle(const struct gate_config *cfg, struct farkv **kv)
{
	struct farkv_options o;

	farkv_options_init(&o);
	o.name = "kvgate";
	o.keys = cfg->keys;
	o.key = cfg->key;
	o.connect_timeout_ms = o.op_timeout_ms = (uint32_t)cfg->timeout_ms;
	return farkv_open(cfg->uri, &o, kv);
}

/* Limits follow the store's longest value. */
static int learn_limits(struct gate *g, struct farkv *kv)
{
	struct farkv_stats stats = {.size = sizeof(stats)};
	char a[24], b[24];

	if (farkv_stats(kv, &stats))
		return EXIT_RUN;
	g->max_value = stats.max_value;
	g->max_key = stats.max_key;
	if (!g->cfg.max_request)
		g->cfg.max_request = g->max_value + MIB;
	if (!g->cfg.max_output)
		g->cfg.max_output = UTIL_MAX(OUTPUT_DEFAULT, g->max_value + MIB);
	if (g->cfg.max_output >= g->max_value + MIB / 16)
		return 0;
	err_set(FARKV_EINVAL,
		"max-output: %s does not hold the store's longest value of %s; give more",
		util_format_size(g->cfg.max_output, a, sizeof(a)),
		util_format_size(g->max_value, b, sizeof(b)));
	return EXIT_USAGE;
}

/* libfarkv's own detail, for the log. */
static int start_worker(struct serving *s)
{
	struct farkv *kv;
	int code = 0;

	if (open_handle(&s->gate.cfg, &kv)) {
		err_set(FARKV_ESYS, "%s", farkv_errdetail());
		return EXIT_RUN;
	}
	if (!s->n_workers && (code = learn_limits(&s->gate, kv)) == EXIT_RUN)
		err_set(FARKV_ESYS, "%s", farkv_errdetail());
	if (!code && !s->n_workers)
		s->followed = farkv_wait_followers(kv, 0) != FARKV_ENOTSUP;
	if (!code && worker_start(&s->gate, kv, &s->gate.counts[s->n_workers],
				  &s->workers[s->n_workers]))
		code = EXIT_RUN;
	if (code)
		farkv_close(kv);
	else
		s->n_workers++;
	return code;
}

static int start_workers(struct serving *s)
{
	uint64_t n = s->gate.cfg.threads;
	int code = 0;

	s->workers = calloc(n, sizeof(struct worker *));
	s->gate.counts = calloc(n, sizeof(*s->gate.counts));
	if (!s->workers || !s->gate.counts) {
		err_set(FARKV_ENOMEM, "no memory");
		return EXIT_RUN;
	}
	s->gate.n_workers = n;
	while (!code && s->n_workers < n)
		code = start_worker(s);
	return code;
}

static int start_waits(struct serving *s)
{
	struct farkv *kv;

	if (!s->followed)
		return 0;
	if (open_handle(&s->gate.cfg, &kv)) {
		err_set(FARKV_ESYS, "%s", farkv_errdetail());
		return EXIT_RUN;
	}
	if (!waits_start(kv, &s->gate.waits))
		return 0;
	farkv_close(kv);
	return EXIT_RUN;
}

static void on_signal(evutil_socket_t sig, short what, void *arg)
{
	struct serving *s = arg;

	(void)sig;
	(void)what;
	event_base_loopbreak(s->base);
}

static void on_hangup(evutil_socket_t sig, short what, void *arg)
{
	struct serving *s = arg;
	uint64_t closed;

	(void)sig;
	(void)what;
	if (!s->gate.clients)
		log_info("SIGHUP: nothing to read again: there are no --client-keys");
	else if (clients_reload_keys(&s->gate, &closed))
		log_error("SIGHUP: the keys stay as they are: %s", err_detail());
	else
		log_info("SIGHUP: keys read again; closed %llu connections whose key is gone or "
			 "changed",
			 (unsigned long long)closed);
}

static void announce(const struct serving *s)
{
	static const char *const names[] = {"RESP and memcached", "RESP", "memcached"};
	struct buf line = {0};

	buf_text(&line, "kvgate: serving ");
	for (size_t i = 0; i < s->n_listens; i++)
		buf_printf(&line, "%s%s at %s", i ? ", " : "", names[s->listens[i].speaks],
			   s->listens[i].text);
	buf_printf(&line, " (pid %ld)\n", (long)getpid());
	if (line.failed || log_put(STDOUT_FILENO, line.p, line.len))
		log_warn("cannot write to stdout");
	buf_free(&line);
	if (s->gate.cfg.ready_fd && (!util_writable((int)s->gate.cfg.ready_fd) ||
				     write((int)s->gate.cfg.ready_fd, "READY\n", 6) != 6))
		log_warn("cannot write to ready-fd: %s", strerror(errno));
}

static int run(struct serving *s)
{
	struct event *term, *intr, *hangup;
	bool ok;

	s->base = event_base_new();
	if (!s->base) {
		err_set(FARKV_ENOMEM, "no memory for the event loop");
		return EXIT_RUN;
	}
	term = evsignal_new(s->base, SIGTERM, on_signal, s);
	intr = evsignal_new(s->base, SIGINT, on_signal, s);
	hangup = evsignal_new(s->base, SIGHUP, on_hangup, s);
	s->pause = event_new(s->base, -1, 0, on_pause_over, s);
	ok = term && intr && hangup && s->pause && event_add(term, NULL) == 0 &&
	     event_add(hangup, NULL) == 0 &&
	     (util_signal_ignored(SIGINT) || event_add(intr, NULL) == 0);
	for (size_t i = 0; i < s->n_listens && ok; i++) {
		s->events[i] = event_new(s->base, s->listens[i].fd, EV_READ | EV_PERSIST,
					 on_connection, s);
		ok = s->events[i] && event_add(s->events[i], NULL) == 0;
	}
	if (ok) {
		announce(s);
		event_base_dispatch(s->base);
	}
	for (size_t i = 0; i < s->n_listens; i++)
		if (s->events[i])
			event_free(s->events[i]);
	if (s->pause)
		event_free(s->pause);
	if (term)
		event_free(term);
	if (intr)
		event_free(intr);
	if (hangup)
		event_free(hangup);
	event_base_free(s->base);
	if (!ok)
		err_set(FARKV_ENOMEM, "no memory for the event loop");
	return ok ? 0 : EXIT_RUN;
}

int serve(const struct gate_config *cfg)
{
	struct serving s = {.gate = {.cfg = *cfg}};
	int code;

	log_never_wait();
	signal(SIGPIPE, SIG_IGN);
	pthread_mutex_init(&s.gate.lock, NULL);
	s.gate.start_ns = clock_now_ns();
	s.gate.max_clients = cfg->max_clients;
	s.gate.idle_s = cfg->idle_timeout;
	raise_file_limit(cfg);
	code = load_keys(cfg, &s.gate.clients);
	if (!code)
		code = open_sockets(&s);
	if (!code)
		code = start_workers(&s);
	if (!code)
		code = start_waits(&s);
	if (!code)
		code = run(&s);
	if (code)
		log_error("%s", err_detail());
	for (size_t i = 0; i < s.n_listens; i++)
		listen_close_at(&s.listens[i]);
	waits_stop(s.gate.waits);
	for (size_t i = 0; i < s.n_workers; i++)
		worker_stop(s.workers[i]);
	for (size_t i = 0; i < s.n_workers; i++)
		worker_join(s.workers[i]);
	waits_free(s.gate.waits);
	keyfile_free(s.gate.clients);
	pthread_mutex_destroy(&s.gate.lock);
	free(s.workers);
	free(s.gate.counts);
	free(s.listens);
	free(s.events);
	return code;
}
