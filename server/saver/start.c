/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "start.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <farkv.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/privileges.h"
#include "common/base/util.h"
#include "common/snapshot/outfile.h"
#include "common/snapshot/restore.h"
#include "common/snapshot/save.h"

/* Of one operation of the child: a full or busy store takes its time. */
#define OP_TIMEOUT_MS 60000u

/* ---- the child --------------------------------------------------------------------- */

struct child {
	struct saver_config cfg;
	const char *name;
	struct saver_message address;
	struct farkv *kv; /* NULL: not connected */
	struct saver_answer *answer;
};

static volatile sig_atomic_t interrupted;

static void on_interrupt(int sig)
{
	interrupted = sig;
}

static void store_failed(void *arg, int err, const void *key, size_t key_len, const char *detail)
{
	struct child *c = arg;
	char name[64] = "";

	(void)err;
	if (key)
		snprintf(name, sizeof(name), "%.*s%s", (int)UTIL_MIN(key_len, (size_t)50),
			 (const char *)key, key_len > 50 ? "..." : "");
	snprintf(c->answer->detail, sizeof(c->answer->detail), "%s%s%s", util_one_line(name),
		 key ? ": " : "", detail);
}

static int file_failed(struct child *c, int err, const char *then)
{
	snprintf(c->answer->detail, sizeof(c->answer->detail), "%s%s", err_detail(), then);
	return err;
}

static int connect_store(struct child *c)
{
	struct farkv_options o;
	int err;

	if (c->kv)
		return 0;
	farkv_options_init(&o);
	o.name = c->name;
	o.op_timeout_ms = OP_TIMEOUT_MS;
	o.keys = c->cfg.keys;
	o.key = c->address.key[0] ? c->address.key : NULL;
	err = farkv_open(c->address.uri, &o, &c->kv);
	if (err)
		store_failed(c, err, NULL, 0, farkv_errdetail());
	return err;
}

static int save(struct child *c)
{
	struct outfile file;
	struct save s = {.kv = c->kv, .file = &file, .stop = &interrupted,
			 .store_failed = store_failed, .arg = c};
	int err = outfile_open_series(&file, c->cfg.save);

	if (err)
		return file_failed(c, err, "");
	err = save_store(&s);
	if (err) {
		if (!s.of_store)
			file_failed(c, err, "");
		outfile_abort(&file);
		return err;
	}
	c->answer->records = s.records;
	c->answer->bytes = s.bytes;
	err = outfile_commit(&file);
	return err ? file_failed(c, err, "") : 0;
}

/* After an error the store is of no use: say how far it got. */
static void restore_result(struct child *c, const struct restore *r, int err)
{
	struct saver_answer *a = c->answer;
	size_t n = strlen(a->detail);

	a->records = r->stored;
	a->bytes = r->bytes;
	if (err && r->begun)
		snprintf(a->detail + n, sizeof(a->detail) - n,
			 "; %" PRIu64 " of %" PRIu64 " records were restored", r->stored,
			 r->total);
	else if (!err && r->expired)
		snprintf(a->detail + n, sizeof(a->detail) - n, "; %" PRIu64 " had expired",
			 r->expired);
}

/* The blocks that the restore was granted go back. A last save cannot connect any more. */
static int leave_and_return(struct child *c)
{
	farkv_close(c->kv);
	c->kv = NULL;
	return c->cfg.save ? connect_store(c) : 0;
}

static int restore(struct child *c)
{
	struct restore r = {.kv = c->kv, .name = c->cfg.restore, .stop = &interrupted,
			    .store_failed = store_failed, .arg = c};
	struct stat st;
	int err = 0;

	r.fd = open(r.name, O_RDONLY | O_CLOEXEC);
	if (r.fd < 0)
		return file_failed(c, err_set_errno(FARKV_ESYS, errno, "cannot open %s", r.name),
				   "");
	if (fstat(r.fd, &st) == 0 && S_ISREG(st.st_mode))
		r.size = (uint64_t)st.st_size;
	err = restore_store(&r);
	if (err && !r.of_store)
		file_failed(c, err, r.begun ? "" : "; nothing was restored");
	restore_result(c, &r, err);
	close(r.fd);
	return err ? err : leave_and_return(c);
}

static void obey(struct child *c, const struct saver_message *o, struct saver_answer *a)
{
	uint64_t begin = clock_now_ns();

	*a = (struct saver_answer){.kind = o->kind,
				   .at_ms = clock_read_ns(CLOCK_REALTIME) / NS_PER_MS};
	c->answer = a;
	interrupted = 0;
	if (o->kind == SAVER_OPEN)
		c->address = *o;
	a->err = connect_store(c);
	if (!a->err && o->kind == SAVER_RESTORE)
		a->err = restore(c);
	else if (!a->err && o->kind == SAVER_SAVE)
		a->err = save(c);
	a->ns = UTIL_MAX(clock_now_ns() - begin, (uint64_t)1);
}

/* SIGTERM, SIGINT and SIGHUP stay blocked: they are the parent's, which may want a last save. */
static void child_run(const struct saver_config *cfg, const struct saver *s, pid_t parent)
{
	struct sigaction sa = {.sa_handler = on_interrupt};
	struct child c = {.cfg = *cfg, .name = s->name};
	struct saver_answer a;
	struct saver_message o;

	sigaction(SAVER_INTERRUPT, &sa, NULL);
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	if (privileges_drop())
		exit(1);
	prctl(PR_SET_PDEATHSIG, SAVER_INTERRUPT);
	prctl(PR_SET_NAME, "kvserver-saver");
	while (getppid() == parent) {
		ssize_t n = recv(s->fd, &o, sizeof(o), 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n != (ssize_t)sizeof(o))
			break;
		obey(&c, &o, &a);
		if (send(s->fd, &a, sizeof(a), MSG_NOSIGNAL) < 0)
			break;
	}
	farkv_close(c.kv);
	exit(0);
}

/* ---- its start ------------------------------------------------------------------------- */

/* A reader of the server's pipes sees their end when the server ends. */
static void close_others(int fd)
{
	(void)syscall(SYS_close_range, STDERR_FILENO + 1u, (unsigned)fd - 1, 0);
	(void)syscall(SYS_close_range, (unsigned)fd + 1, ~0u, 0);
}

int saver_start(const struct saver_config *cfg, struct saver *s_out)
{
	struct saver s = {.pid = -1};
	pid_t parent = getpid();
	uint64_t secret;
	int fds[2];

	if (getrandom(&secret, sizeof(secret), 0) != (ssize_t)sizeof(secret) ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds))
		return err_set_errno(FARKV_ESYS, errno, "cannot start the saving process");
	snprintf(s.name, sizeof(s.name), SAVER_NAME "%016" PRIx64, secret);
	fflush(NULL);
	s.pid = fork();
	if (s.pid == 0) {
		s.fd = fds[1];
		close_others(s.fd);
		child_run(cfg, &s, parent);
	}
	close(fds[1]);
	s.fd = fds[0];
	if (s.pid < 0) {
		close(s.fd);
		return err_set_errno(FARKV_ESYS, errno, "cannot start the saving process");
	}
	*s_out = s;
	return 0;
}
