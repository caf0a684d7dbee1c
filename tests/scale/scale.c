/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "scale.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/rig/marks.h"

#define OUTPUT_MAX 16384

/* Of the worker that this process is. */
static int my_tell = -1, my_hear = -1;

uint64_t scale_pick(uint64_t small, uint64_t large, uint64_t full)
{
	const char *size = getenv("FARKV_SCALE");

	if (!size || strcmp(size, "small") == 0)
		return small;
	if (strcmp(size, "large") == 0)
		return large;
	if (strcmp(size, "full") == 0)
		return full;
	/* Also before there is a test that could fail. */
	fprintf(stderr, "FARKV_SCALE is small, large or full, not '%s'\n", size);
	exit(1);
}

void *scale_shared(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(p, MAP_FAILED);
	return p;
}

uint64_t scale_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

void scale_say(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	printf("  ");
	vprintf(format, ap);
	printf("\n");
	va_end(ap);
	fflush(stdout);
}

/* ---- kvcli ----------------------------------------------------------------- */

static void exec_kvcli(const struct real_server *s, const char *const *args,
		       int out)
{
	const char *argv[8] = {getenv("KVCLI")};

	for (int i = 0; i < 6 && args[i]; i++)
		argv[i + 1] = args[i];
	dup2(out, STDOUT_FILENO);
	dup2(out, STDERR_FILENO);
	setenv("FARKV_URI", s->path, 1);
	if (argv[0])
		execv(argv[0], (char *const *)(void *)argv);
	dprintf(out, "cannot run $KVCLI: %s\n", strerror(errno));
	_exit(127);
}

/* Run it; `out` gets what it printed. Returns its exit status, -1 if none. */
static int kvcli(const struct real_server *s, const char *const *args,
		 char *out)
{
	size_t len = 0;
	ssize_t n;
	int fds[2], status;
	pid_t pid;

	ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0)
		exec_kvcli(s, args, fds[1]);
	close(fds[1]);
	while (len < OUTPUT_MAX - 1 &&
	       (n = read(fds[0], out + len, OUTPUT_MAX - 1 - len)) > 0)
		len += (size_t)n;
	out[len] = '\0';
	close(fds[0]);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A member of a flat object. */
static uint64_t json_number(const char *text, const char *name)
{
	char quoted[64];
	const char *at;

	snprintf(quoted, sizeof(quoted), "\"%s\":", name);
	at = strstr(text, quoted);
	ck_assert_msg(at != NULL, "kvcli shows no %s: %s", name, text);
	return strtoull(at + strlen(quoted), NULL, 10);
}

void scale_stats(const struct real_server *s, const char *const *names,
		 uint64_t *out, unsigned n)
{
	static const char *const args[] = {"stats", "--json", "--timeout-ms=60000",
					   NULL};
	char text[OUTPUT_MAX];
	int status = kvcli(s, args, text);

	ck_assert_msg(status == 0, "kvcli stats: exit status %d: %s", status,
		      text);
	for (unsigned i = 0; i < n; i++)
		out[i] = json_number(text, names[i]);
}

uint64_t scale_stat(const struct real_server *s, const char *name)
{
	uint64_t value;

	scale_stats(s, &name, &value, 1);
	return value;
}

void scale_await_exactly(const struct real_server *s, const char *name,
			 uint64_t want, unsigned timeout_ms)
{
	uint64_t end = scale_now_ns() + timeout_ms * UINT64_C(1000000), now;

	while ((now = scale_stat(s, name)) != want) {
		ck_assert_msg(scale_now_ns() < end,
			      "%s is %" PRIu64 " and not %" PRIu64
			      " after %u ms", name, now, want, timeout_ms);
		usleep(20000);
	}
}

static void fsck(const struct real_server *s, const char *what, char *text)
{
	static const char *const args[] = {"fsck", "--json",
					   "--timeout-ms=120000", NULL};
	int status = kvcli(s, args, text);

	ck_assert_msg(status == 0, "%s: kvcli fsck: exit status %d:\n%s", what,
		      status, text);
}

void scale_fsck(const struct real_server *s, const char *what)
{
	char text[OUTPUT_MAX];

	fsck(s, what, text);
}

void scale_fsck_swept(const struct real_server *s, const char *what)
{
	char text[OUTPUT_MAX];

	scale_await_exactly(s, "sweep_deaths", 0, 60000);
	fsck(s, what, text);
	ck_assert_msg(json_number(text, "blocks_held") == 0 &&
		      json_number(text, "blocks_leaked") == 0,
		      "%s: blocks are held by nobody, and no sweep found them: "
		      "%s", what, text);
}

/* ---- /proc ----------------------------------------------------------------- */

static uint64_t status_kib(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	ck_assert_msg(at != NULL, "no %s in /proc", name);
	return strtoull(at + strlen(name), NULL, 10);
}

static void slurp(pid_t pid, const char *name, char *text, size_t cap)
{
	char path[64];
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	f = fopen(path, "r");
	ck_assert_msg(f != NULL, "%s: %s", path, strerror(errno));
	n = fread(text, 1, cap - 1, f);
	text[n] = '\0';
	fclose(f);
}

static bool is_among(ino_t x, const ino_t *seen, unsigned n)
{
	while (n > 0)
		if (seen[--n] == x)
			return true;
	return false;
}

/* Resident bytes of the region's files; over RDMA there are none. */
static uint64_t memfd_bytes(pid_t pid)
{
	char path[320], name[64];
	uint64_t sum = 0;
	ino_t seen[8] = {0}; /* a file may be open twice */
	unsigned n_seen = 0;
	struct dirent *e;
	struct stat st;
	ssize_t n;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	d = opendir(path);
	ck_assert_ptr_nonnull(d);
	while ((e = readdir(d))) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%s", (int)pid,
			 e->d_name);
		n = readlink(path, name, sizeof(name) - 1);
		if (n < 7 || memcmp(name, "/memfd:", 7) != 0)
			continue;
		/* Not sessions' files, of a page each. */
		if (strncmp(name, "/memfd:farkv-session", 20) == 0 || stat(path, &st) ||
		    !st.st_blocks || is_among(st.st_ino, seen, n_seen))
			continue;
		ck_assert_uint_lt(n_seen, 8);
		seen[n_seen++] = st.st_ino;
		sum += (uint64_t)st.st_blocks * 512;
	}
	closedir(d);
	return sum;
}

void scale_usage(pid_t pid, struct scale_usage *out)
{
	char text[4096];
	unsigned long user, system;
	const char *at;

	slurp(pid, "status", text, sizeof(text));
	out->own = status_kib(text, "RssAnon:") << 10;
	out->region = memfd_bytes(pid);
	slurp(pid, "stat", text, sizeof(text));
	at = strrchr(text, ')'); /* its name may hold anything */
	ck_assert_ptr_nonnull(at);
	ck_assert_int_eq(sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u "
				"%*u %*u %lu %lu", &user, &system), 2);
	out->cpu_ns = (uint64_t)(user + system) * 1000000000 /
		      (uint64_t)sysconf(_SC_CLK_TCK);
}

/* ---- workers --------------------------------------------------------------- */

struct scale_worker scale_start(scale_main *fn, unsigned me, void *arg)
{
	struct scale_worker w;
	pid_t parent = getpid();
	int to[2], from[2];

	fflush(stdout);
	ck_assert_int_eq(pipe2(to, O_CLOEXEC), 0);
	ck_assert_int_eq(pipe2(from, O_CLOEXEC), 0);
	w.pid = fork();
	ck_assert_int_ge(w.pid, 0);
	if (w.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		close(to[1]);
		close(from[0]);
		my_hear = to[0];
		my_tell = from[1];
		fn(me, arg);
		_exit(1);
	}
	close(to[0]);
	close(from[1]);
	w.tell = to[1];
	w.hear = from[0];
	return w;
}

void scale_tell(struct scale_worker *w, char c)
{
	ck_assert_int_eq(write(w->tell, &c, 1), 1);
}

void scale_expect(struct scale_worker *w, char want, unsigned timeout_ms)
{
	struct pollfd p = {.fd = w->hear, .events = POLLIN};
	int n = poll(&p, 1, (int)timeout_ms);
	char c = 0;

	ck_assert_msg(n == 1, "a worker did not say '%c' within %u ms", want,
		      timeout_ms);
	ck_assert_msg(read(w->hear, &c, 1) == 1 && c == want,
		      "a worker said '%c', not '%c' (nothing: it ended)",
		      c ? c : '-', want);
}

void scale_expect_alive(const struct scale_worker *w)
{
	siginfo_t info = {0};

	ck_assert_int_eq(waitid(P_PID, (id_t)w->pid, &info,
				WEXITED | WNOHANG | WNOWAIT), 0);
	ck_assert_msg(info.si_pid == 0, "worker %d ended by itself: %d, %d",
		      (int)w->pid, info.si_code, info.si_status);
}

/* waitid() with a deadline: there is no such call, so look every millisecond. */
static void wait_for(pid_t pid, int what, unsigned timeout_ms, siginfo_t *info)
{
	uint64_t end = scale_now_ns() + timeout_ms * UINT64_C(1000000);

	for (;;) {
		info->si_pid = 0;
		ck_assert_int_eq(waitid(P_PID, (id_t)pid, info,
					what | WNOHANG), 0);
		if (info->si_pid == pid)
			return;
		ck_assert_msg(scale_now_ns() < end,
			      "worker %d is not done after %u ms", (int)pid,
			      timeout_ms);
		usleep(1000);
	}
}

void scale_expect_stopped(struct scale_worker *w, unsigned timeout_ms)
{
	siginfo_t info;

	wait_for(w->pid, WSTOPPED | WEXITED, timeout_ms, &info);
	ck_assert_msg(info.si_code == CLD_STOPPED,
		      "a worker ended (%d, %d) in place of stopping",
		      info.si_code, info.si_status);
}

void scale_continue(struct scale_worker *w)
{
	ck_assert_int_eq(kill(w->pid, SIGCONT), 0);
}

static void forget(struct scale_worker *w)
{
	close(w->tell);
	close(w->hear);
	w->pid = 0;
}

void scale_let_end(struct scale_worker *w, unsigned timeout_ms)
{
	siginfo_t info;

	do {
		scale_continue(w);
		wait_for(w->pid, WSTOPPED | WEXITED, timeout_ms, &info);
	} while (info.si_code == CLD_STOPPED);
	ck_assert_msg(info.si_code == CLD_EXITED && info.si_status == 0,
		      "a worker ended with %d, %d", info.si_code,
		      info.si_status);
	forget(w);
}

void scale_kill(struct scale_worker *w)
{
	ck_assert_int_eq(kill(w->pid, SIGKILL), 0);
	scale_join(w, SIGKILL, 10000);
}

static int reap(struct scale_worker *w, unsigned timeout_ms)
{
	siginfo_t info;
	int status;

	wait_for(w->pid, WEXITED | WNOWAIT, timeout_ms, &info);
	ck_assert_int_eq(waitpid(w->pid, &status, 0), w->pid);
	forget(w);
	return status;
}

void scale_join(struct scale_worker *w, int status, unsigned timeout_ms)
{
	int got = reap(w, timeout_ms);

	ck_assert_msg(got == status, "a worker ended with 0x%x, not 0x%x",
		      (unsigned)got, (unsigned)status);
}

bool scale_killed(struct scale_worker *w, unsigned timeout_ms)
{
	int got = reap(w, timeout_ms);

	ck_assert_msg(got == 0 || got == SIGKILL, "a worker ended with 0x%x",
		      (unsigned)got);
	return got == SIGKILL;
}

/* ---- in a worker ----------------------------------------------------------- */

void worker_say(char c)
{
	MUST(write(my_tell, &c, 1) == 1, "the test is gone");
}

char worker_wait(void)
{
	char c;

	MUST(read(my_hear, &c, 1) == 1, "the test is gone");
	return c;
}

struct farkv *worker_open(const char *uri, uint32_t flags)
{
	struct farkv_options o;
	struct farkv *kv;
	int err;

	farkv_options_init(&o);
	o.flags = flags;
	o.connect_timeout_ms = 60000;
	o.op_timeout_ms = 60000;
	err = farkv_open(uri, &o, &kv);
	MUST(err == 0, "open: %s", farkv_strerror(err));
	return kv;
}

/* ---- keys and values ------------------------------------------------------- */

uint32_t scale_round(uint64_t i, const struct farkv_value *v, size_t len)
{
	uint64_t word, want;

	MUST(v->len == len, "key %" PRIu64 " has a value of %zu bytes, not %zu",
	     i, v->len, len);
	memcpy(&word, v->data, sizeof(word));
	want = scale_value(i, (uint32_t)word);
	MUST(word == want, "key %" PRIu64 " has %016" PRIx64
	     ", which is no value of it", i, word);
	for (size_t at = 8; at < len; at += 8)
		MUST(memcmp((const char *)v->data + at, &want,
			    len - at < 8 ? len - at : 8) == 0,
		     "key %" PRIu64 ": the value is torn at byte %zu", i, at);
	return (uint32_t)word;
}

int scale_put(struct farkv *kv, uint64_t i, uint32_t round, size_t len)
{
	static __thread uint64_t words[SCALE_VALUE_MAX / 8 + 1];
	uint64_t key = scale_key(i), word = scale_value(i, round);

	for (size_t at = 0; at < (len + 7) / 8; at++)
		words[at] = word;
	return farkv_put(kv, &key, sizeof(key), words, len);
}

uint32_t scale_get(struct farkv *kv, uint64_t i, size_t len)
{
	uint64_t key = scale_key(i);
	struct farkv_value v;
	int err = farkv_get(kv, &key, sizeof(key), &v);

	if (err == FARKV_ENOTFOUND)
		return 0;
	MUST(err == 0, "get of key %" PRIu64 ": %s", i, farkv_strerror(err));
	return scale_round(i, &v, len);
}

int scale_delete(struct farkv *kv, uint64_t i)
{
	uint64_t key = scale_key(i);

	return farkv_delete(kv, &key, sizeof(key));
}

/* ---- a bystander ----------------------------------------------------------- */

#define HOME_LEN 200u

struct home_key {
	uint32_t last;  /* write of it, for ever rising */
	uint32_t there; /* the same, or 0 after a delete */
};

static void home_op(struct farkv *kv, const struct scale_home *h, uint64_t i,
		    uint64_t what)
{
	static struct home_key keys[SCALE_HOME_KEYS + 1];
	struct home_key *k = &keys[i];
	int err;

	MUST(scale_get(kv, i, HOME_LEN) == k->there,
	     "the bystander's key %" PRIu64 " is not at write %u", i, k->there);
	if (what == 0 && k->there) {
		err = scale_delete(kv, i);
		k->there = 0;
	} else if (what < 4) {
		err = scale_put(kv, i, k->last + 1, HOME_LEN);
		if (err == FARKV_ENOSPC && h->may_be_full)
			return;
		k->there = ++k->last;
	} else {
		return;
	}
	MUST(err == 0, "the bystander's write: %s", farkv_strerror(err));
}

void scale_home_main(unsigned me, void *home)
{
	struct scale_home *h = home;
	struct farkv *kv = worker_open(h->uri, 0);
	uint64_t x = me, r, i;

	worker_say('r');
	while (!__atomic_load_n(&h->stop, __ATOMIC_ACQUIRE)) {
		r = scale_random(&x);
		i = 1 + r % SCALE_HOME_KEYS;
		home_op(kv, h, i, r >> 40 & 7);
		if (++h->ops % 64 == 0)
			usleep(h->nap_us ? h->nap_us : 1000);
	}
	for (i = 1; i <= SCALE_HOME_KEYS; i++)
		home_op(kv, h, i, 7);
	farkv_close(kv);
	_exit(0);
}

void scale_home_stop(struct scale_home *h, struct scale_worker *w)
{
	__atomic_store_n(&h->stop, 1, __ATOMIC_RELEASE);
	scale_join(w, 0, 60000);
	ck_assert_uint_gt(h->ops, 100);
}

/* ---- figures --------------------------------------------------------------- */

void scale_print_hist(const char *title, const struct hist *h)
{
	struct hist_summary s;

	hist_summarize(h, &s);
#define US(p) ((double)hist_percentile(h, s.count, p) / 1e3)
	scale_say("%-28s %10" PRIu64 "  mean %.2f  p50 %.2f  p99 %.2f  "
		  "p99.9 %.2f  p99.99 %.1f  max %.1f us", title, s.count,
		  s.mean / 1e3, US(50), US(99), US(99.9), US(99.99),
		  (double)s.max / 1e3);
#undef US
}
