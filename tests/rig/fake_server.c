/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "fake_server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <farkv.h>

#include "common/index/alloc.h"
#include "common/proto/hits.h"
#include "marks.h"

/* ---- the region ------------------------------------------------------------- */

static int memfd_make(const char *name, uint64_t bytes, uint8_t **base_out)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, (off_t)bytes), 0);
	*base_out = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(*base_out, MAP_FAILED);
	return fd;
}

void fake_server_superblock(struct fake_server *f, bool seal)
{
	if (seal)
		superblock_seal(&f->sb);
	memcpy(f->meta, &f->sb, sizeof(f->sb));
}

static void region_make(struct fake_server *f, int seals)
{
	uint64_t page = META_ALIGN / PAGE_BYTES, *slots;

	f->sb.meta_bytes = META_ALIGN;
	f->sb.region_bytes = META_ALIGN + FAKE_PAGES * PAGE_BYTES;
	f->sb.region_id[0] = (uint64_t)getpid() << 32 | (uint64_t)rand();
	f->sb.region_id[1] = 7;
	f->sb.hash_seed = 42;
	f->sb.max_value = 1u << 20;
	f->sb.max_key = 1000;
	f->sb.grace_ns = 20 * 1000000;
	f->meta_fd = memfd_make("fake-meta", META_ALIGN, &f->meta);
	f->data_fd = memfd_make("fake-data", FAKE_PAGES * PAGE_BYTES, &f->data);
	f->tether_fd = memfd_create("fake-session",
				    MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ck_assert_int_eq(ftruncate(f->tether_fd, HITS_FILE_BYTES), 0);
	ck_assert_int_eq(fcntl(f->tether_fd, F_ADD_SEALS,
			       F_SEAL_GROW | F_SEAL_SHRINK), 0);
	fake_server_superblock(f, true);
	*(uint64_t *)(void *)(f->meta + REGION_D_OFF) =
		dirword_pack(REGION_DIR_OFF, 0);
	*(uint64_t *)(void *)(f->meta + REGION_DIR_OFF) =
		entry_pack(page, 1, 0);
	slots = (uint64_t *)(void *)f->data;
	for (unsigned i = 0; i < SUBTABLE_SLOTS; i++)
		slots[i] = slot_empty(1);
	f->next_block = META_ALIGN + PAGE_BYTES;
	if (seals) {
		ck_assert_int_eq(fcntl(f->meta_fd, F_ADD_SEALS, seals), 0);
		ck_assert_int_eq(fcntl(f->data_fd, F_ADD_SEALS, seals), 0);
	}
}

/* ---- answers ---------------------------------------------------------------- */

static void send_locked(struct fake_server *f, const struct msg *m,
			const struct block_ref *refs)
{
	uint8_t buf[MSG_MAX_BYTES];
	size_t len;

	ck_assert_int_eq(msg_encode(m, refs, buf, sizeof(buf), &len), 0);
	(void)!send(f->conn_fd, buf, len, MSG_NOSIGNAL);
}

static void send_welcome(struct fake_server *f)
{
	struct msg m = {.type = MSG_WELCOME, .req = 1};
	uint8_t buf[MSG_MAX_BYTES + 64];
	union {
		struct cmsghdr align;
		uint8_t space[CMSG_SPACE(64 * sizeof(int))];
	} control;
	struct iovec iov = {.iov_base = buf};
	struct msghdr mh = {.msg_iov = &iov, .msg_iovlen = 1};
	int fds[64];

	m.welcome.session = f->next_session++;
	m.welcome.prefix = m.welcome.session;
	m.welcome.role = f->role;
	memcpy(m.welcome.region_id, f->sb.region_id, sizeof(f->sb.region_id));
	m.welcome.region_bytes = META_ALIGN + FAKE_PAGES * PAGE_BYTES;
	m.welcome.meta_bytes = META_ALIGN;
	m.welcome.grace_ns = f->sb.grace_ns;
	m.welcome.n_areas = 2;
	m.welcome.areas[0].bytes = META_ALIGN;
	m.welcome.areas[1].off = META_ALIGN;
	m.welcome.areas[1].bytes = FAKE_PAGES * PAGE_BYTES;
	ck_assert_int_eq(msg_encode(&m, NULL, buf, MSG_MAX_BYTES,
				    &iov.iov_len), 0);
	if (f->hello == FAKE_EDITED)
		iov.iov_len = f->edit(buf, iov.iov_len);
	for (unsigned i = 0; i < f->n_fds; i++)
		fds[i] = i % 3 == 0 ? f->meta_fd :
			 i % 3 == 1 ? f->data_fd :
				      f->tether_fd;
	if (f->n_fds) {
		struct cmsghdr *c;

		memset(&control, 0, sizeof(control));
		mh.msg_control = &control;
		mh.msg_controllen = CMSG_SPACE(f->n_fds * sizeof(int));
		c = CMSG_FIRSTHDR(&mh);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(f->n_fds * sizeof(int));
		memcpy(CMSG_DATA(c), fds, f->n_fds * sizeof(int));
	}
	/* A client that gave up may have hung up. */
	ck_assert(sendmsg(f->conn_fd, &mh, MSG_NOSIGNAL) >= 0 ||
		  errno == EPIPE || errno == ECONNRESET);
}

static void conn_close(struct fake_server *f)
{
	if (f->conn_fd >= 0) {
		/* The thread's poll() may hold the socket open: hang up first. */
		shutdown(f->conn_fd, SHUT_RDWR);
		close(f->conn_fd);
	}
	f->conn_fd = -1;
}

/* It did not welcome. */
static void counted(struct fake_server *f)
{
	if (f->refuse_times && --f->refuse_times == 0)
		f->hello = FAKE_WELCOME;
}

static void on_hello(struct fake_server *f, const struct msg *m)
{
	struct msg r = {.req = m->req};

	f->hello_replaces = m->hello.replaces;
	f->hello_replaces_region = m->hello.replaces_region[0];
	switch (f->hello) {
	case FAKE_WELCOME:
	case FAKE_EDITED:
		send_welcome(f);
		break;
	case FAKE_BYTES:
		(void)!send(f->conn_fd, f->bytes, f->n_bytes, MSG_NOSIGNAL);
		counted(f);
		break;
	case FAKE_REFUSE:
		r.type = MSG_REFUSE;
		r.refuse.reason = f->refuse_reason;
		r.refuse.text = (const uint8_t *)f->refuse_text;
		r.refuse.text_len = (uint16_t)strlen(f->refuse_text);
		send_locked(f, &r, NULL);
		counted(f);
		break;
	case FAKE_HANGUP:
		conn_close(f);
		counted(f);
		break;
	case FAKE_OTHER:
		r.type = MSG_PONG;
		send_locked(f, &r, NULL);
		break;
	default:
		break;
	}
}

static void grant(struct fake_server *f, uint32_t req, uint8_t cls,
		  uint32_t count)
{
	struct msg m = {.type = MSG_GRANT, .req = req};
	struct block_ref refs[MSG_REFS_MAX];

	m.blocks.cls = cls;
	if (f->grant_each && count > f->grant_each)
		count = f->grant_each;
	for (unsigned i = 0; i < f->n_deferred && m.blocks.n < count && !f->keep_deferred;
	     i++) {
		if (f->deferred[i].cls != cls)
			continue;
		refs[m.blocks.n++] = f->deferred[i];
		f->out[(f->deferred[i].off - META_ALIGN) / PTR_UNIT] = cls + 1;
		f->deferred[i--] = f->deferred[--f->n_deferred];
		f->granted++;
	}
	while (m.blocks.n < count && f->grant_blocks > 0 &&
	       f->next_block + class_bytes(cls) <= f->sb.region_bytes) {
		refs[m.blocks.n++] =
			(struct block_ref){.off = f->next_block, .cls = cls};
		f->out[(f->next_block - META_ALIGN) / PTR_UNIT] = cls + 1;
		f->next_block += class_bytes(cls);
		f->grant_blocks--;
		f->granted++;
	}
	send_locked(f, &m, refs);
}

static void on_request(struct fake_server *f, const struct msg *m)
{
	static const char why[] = "for today";
	struct msg r = {.req = m->req};
	struct msg end = {.type = MSG_SHUTDOWN,
			  .refuse = {.reason = MSG_REASON_SHUTDOWN,
				     .text = (const uint8_t *)why,
				     .text_len = sizeof(why) - 1}};

	switch (m->type) {
	case MSG_GRANT_REQ:
		if (f->hold_grants) {
			f->held[f->n_held].req = m->req;
			f->held[f->n_held].cls = m->grant_req.cls;
			f->held[f->n_held++].count = m->grant_req.count;
		} else {
			grant(f, m->req, m->grant_req.cls, m->grant_req.count);
		}
		return;
	case MSG_HINT:
		r.type = MSG_HINT_REPLY;
		r.hint_reply.status = f->hint_status;
		break;
	case MSG_PREFIX_REQ:
		r.type = MSG_PREFIX;
		r.prefix.prefix = 1000 + f->seen[MSG_PREFIX_REQ];
		break;
	case MSG_STATS_REQ:
		r.type = MSG_STATS;
		r.stats.n = 2;
		r.stats.stat[0].id = MSG_STAT_GRACE_NS;
		r.stats.stat[0].value = 77;
		r.stats.stat[1].id = 9999; /* of a future version */
		break;
	case MSG_PING:
		r.type = MSG_PONG;
		r.epoch.number = m->epoch.number;
		break;
	case MSG_BYE:
		r.type = MSG_BYE_ACK;
		break;
	default:
		return;
	}
	send_locked(f, &r, NULL);
	if (m->type == MSG_HINT && f->hint_is_last)
		send_locked(f, &end, NULL);
}

static void on_return(struct fake_server *f, const struct msg *m)
{
	f->returned += m->blocks.n;
	for (uint32_t i = 0; i < m->blocks.n; i++) {
		uint8_t *out = &f->out[(msg_ref(m, i).off - META_ALIGN) /
				       PTR_UNIT];

		ck_assert_msg(*out, "the client returned what it had not");
		*out = 0;
		if (m->blocks.state == RETURN_DEFERRED && f->n_deferred < FAKE_DEFERRED_MAX)
			f->deferred[f->n_deferred++] = msg_ref(m, i);
	}
}

static void on_claim(struct fake_server *f, const struct msg *m)
{
	f->claimed = m->blocks.n;
	f->claim_req = m->req;
	f->claim_number = m->blocks.number;
	for (uint32_t i = 0; i < m->blocks.n; i++)
		f->claims[i] = msg_ref(m, i);
	if (m->req == 0 && f->seen[MSG_BYE] == 0)
		f->unasked += m->blocks.n;
}

static void on_message(struct fake_server *f, const struct msg *m)
{
	f->seen[m->type]++;
	switch (m->type) {
	case MSG_HELLO:
		on_hello(f, m);
		break;
	case MSG_RETURN:
		on_return(f, m);
		break;
	case MSG_BARRIER_ACK:
	case MSG_SWEEP_ACK:
		f->ack_number = m->epoch.number;
		break;
	case MSG_SWEEP_CLAIM:
		on_claim(f, m);
		break;
	default:
		if (!f->ignore_requests)
			on_request(f, m);
	}
	pthread_cond_broadcast(&f->cond);
}

/* ---- the thread -------------------------------------------------------------- */

static void conn_read(struct fake_server *f)
{
	uint8_t buf[MSG_MAX_BYTES];
	ssize_t n = recv(f->conn_fd, buf, sizeof(buf), MSG_DONTWAIT);
	struct msg m;

	if (n <= 0)
		conn_close(f);
	else if (msg_decode(buf, (size_t)n, &m))
		ck_abort_msg("the client sent garbage");
	else
		on_message(f, &m);
}

/* -1 if nobody waits */
static int accept_next(struct fake_server *f)
{
	return accept4(f->listen_fd, NULL, NULL, SOCK_CLOEXEC);
}

static void accept_one(struct fake_server *f)
{
	conn_close(f);
	f->conn_fd = accept_next(f);
	if (f->hello == FAKE_CLOSE) {
		conn_close(f);
		counted(f);
	}
}

static void *server_main(void *arg)
{
	struct fake_server *f = arg;

	for (;;) {
		struct pollfd p[3] = {{.fd = f->wake_fd, .events = POLLIN},
				      {.fd = f->listen_fd, .events = POLLIN}};
		eventfd_t v;

		pthread_mutex_lock(&f->lock);
		p[2] = (struct pollfd){.fd = f->deaf ? -1 : f->conn_fd,
				       .events = POLLIN};
		pthread_mutex_unlock(&f->lock);
		(void)poll(p, 3, -1);
		pthread_mutex_lock(&f->lock);
		if (p[0].revents)
			(void)eventfd_read(f->wake_fd, &v);
		if (f->stop) {
			pthread_mutex_unlock(&f->lock);
			return NULL;
		}
		if (p[2].revents && p[2].fd == f->conn_fd && f->conn_fd >= 0 &&
		    !f->deaf)
			conn_read(f);
		else if (p[1].revents)
			accept_one(f);
		pthread_mutex_unlock(&f->lock);
	}
}

void fake_server_wake(struct fake_server *f)
{
	(void)eventfd_write(f->wake_fd, 1);
}

/* ---- for the test -------------------------------------------------------------- */

void fake_server_init(struct fake_server *f, int seals)
{
	pthread_condattr_t attr;
	const char *tmp = getenv("TMPDIR");

	memset(f, 0, sizeof(*f));
	f->n_fds = 3;
	f->grant_blocks = 1u << 20;
	f->hint_status = MSG_HINT_NOSPC;
	f->next_session = 100;
	f->conn_fd = -1;
	f->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	pthread_mutex_init(&f->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&f->cond, &attr);
	region_make(f, seals);
	snprintf(f->dir, sizeof(f->dir), "%.40s/farkv-XXXXXX",
		 tmp && strlen(tmp) < 40 ? tmp : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(f->dir));
	snprintf(f->path, sizeof(f->path), "%s/s", f->dir);
}

void fake_server_start(struct fake_server *f)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};

	strcpy(sa.sun_path, f->path);
	f->listen_fd = socket(AF_UNIX,
			      SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	ck_assert_int_eq(bind(f->listen_fd, (struct sockaddr *)&sa, sizeof(sa)),
			 0);
	ck_assert_int_eq(listen(f->listen_fd, 8), 0);
	ck_assert_int_eq(pthread_create(&f->thread, NULL, server_main, f), 0);
}

void fake_server_fini(struct fake_server *f)
{
	fake_server_set(f, stop, true);
	pthread_join(f->thread, NULL);
	conn_close(f);
	close(f->listen_fd);
	close(f->wake_fd);
	munmap(f->meta, META_ALIGN);
	munmap(f->data, FAKE_PAGES * PAGE_BYTES);
	close(f->meta_fd);
	close(f->data_fd);
	close(f->tether_fd);
	unlink(f->path);
	rmdir(f->dir);
}

void fake_server_send(struct fake_server *f, const struct msg *m,
		      const struct block_ref *refs)
{
	pthread_mutex_lock(&f->lock);
	send_locked(f, m, refs);
	pthread_mutex_unlock(&f->lock);
}

void fake_server_send_bytes(struct fake_server *f, const void *p, size_t n)
{
	pthread_mutex_lock(&f->lock);
	(void)!send(f->conn_fd, p, n, MSG_NOSIGNAL);
	pthread_mutex_unlock(&f->lock);
}

void fake_server_release(struct fake_server *f)
{
	pthread_mutex_lock(&f->lock);
	for (unsigned i = 0; i < f->n_held; i++)
		grant(f, f->held[i].req, f->held[i].cls, f->held[i].count);
	f->n_held = 0;
	f->hold_grants = false;
	pthread_mutex_unlock(&f->lock);
}

void fake_server_hangup(struct fake_server *f)
{
	pthread_mutex_lock(&f->lock);
	conn_close(f);
	pthread_mutex_unlock(&f->lock);
}

void fake_server_hangup_all(struct fake_server *f)
{
	pthread_mutex_lock(&f->lock);
	do
		conn_close(f);
	while ((f->conn_fd = accept_next(f)) >= 0);
	pthread_mutex_unlock(&f->lock);
}

unsigned fake_server_count(struct fake_server *f, uint8_t type)
{
	unsigned n;

	pthread_mutex_lock(&f->lock);
	n = f->seen[type];
	pthread_mutex_unlock(&f->lock);
	return n;
}

bool fake_server_wait(struct fake_server *f, uint8_t type, unsigned n)
{
	struct timespec until;
	bool ok;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += FAKE_WAIT_S;
	pthread_mutex_lock(&f->lock);
	while (f->seen[type] < n &&
	       pthread_cond_timedwait(&f->cond, &f->lock, &until) == 0)
		;
	ok = f->seen[type] >= n;
	pthread_mutex_unlock(&f->lock);
	return ok;
}
