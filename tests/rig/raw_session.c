/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "raw_session.h"

#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "marks.h"

#define HEAR_MS 20000

int raw_dial(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	ck_assert_uint_lt(strlen(path), sizeof(a.sun_path));
	strcpy(a.sun_path, path);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	return fd;
}

void raw_say(int fd, const struct msg *m, const struct block_ref *refs)
{
	uint8_t buf[MSG_MAX_BYTES];
	size_t len;

	ck_assert_int_eq(msg_encode(m, refs, buf, sizeof(buf), &len), 0);
	ck_assert_int_eq(send(fd, buf, len, MSG_NOSIGNAL), (ssize_t)len);
}

int raw_pending(int fd, int ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, ms);
}

static void *tether;

void raw_untie(void)
{
	ck_assert_int_eq(munmap(tether, 4096), 0);
}

/* Keep the first two, map the third. */
static void take_fds(struct msghdr *h, int keep[2])
{
	int n = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c))
		for (size_t i = 0;
		     i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
			int got;

			memcpy(&got, CMSG_DATA(c) + i * sizeof(int),
			       sizeof(got));
			if (n < 2) {
				keep[n++] = got;
				continue;
			}
			tether = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
				      MAP_SHARED, got, 0);
			ck_assert_ptr_ne(tether, MAP_FAILED);
			madvise(tether, 4096, MADV_DONTFORK);
			close(got);
		}
}

struct msg raw_hear_fds(int fd, int fds_out[2])
{
	static uint8_t buf[MSG_MAX_BYTES];
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(8 * sizeof(int))];
	} control;
	struct iovec iov = {buf, sizeof(buf)};
	struct msghdr h = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control.bytes,
			   .msg_controllen = sizeof(control.bytes)};
	struct msg m = {0};
	ssize_t n;

	fds_out[0] = fds_out[1] = -1;
	ck_assert_int_eq(raw_pending(fd, HEAR_MS), 1);
	n = recvmsg(fd, &h, 0);
	if (n <= 0)
		return m;
	take_fds(&h, fds_out);
	ck_assert_int_eq(msg_decode(buf, (size_t)n, &m), 0);
	return m;
}

struct msg raw_hear(int fd)
{
	int fds[2];
	struct msg m = raw_hear_fds(fd, fds);

	for (int i = 0; i < 2; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	return m;
}

struct msg raw_next(int fd)
{
	for (;;) {
		struct msg m = raw_hear(fd);
		struct msg ack = {.type = MSG_BARRIER_ACK, .epoch = m.epoch};

		if (m.type == MSG_BARRIER)
			raw_say(fd, &ack, NULL);
		else if (m.type != MSG_RECLAIM)
			return m;
	}
}

int raw_session(const char *path, enum msg_role role, struct msg *welcome_out)
{
	struct msg hello = {.type = MSG_HELLO, .req = 1,
			    .hello = {.role = (uint8_t)role,
				      .name = (const uint8_t *)"raw",
				      .name_len = 3}};
	int fd = raw_dial(path);
	struct msg m;

	raw_say(fd, &hello, NULL);
	m = raw_hear(fd);
	ck_assert_uint_eq(m.type, MSG_WELCOME);
	if (welcome_out)
		*welcome_out = m;
	return fd;
}

int raw_session_map(const char *path, struct raw_region *r_out)
{
	static const struct msg hello = {.type = MSG_HELLO, .req = 1};
	int fd = raw_dial(path), fds[2];
	struct raw_region r;
	uint64_t d, entry;
	uint8_t *meta;
	struct msg w;

	raw_say(fd, &hello, NULL);
	w = raw_hear_fds(fd, fds);
	ck_assert_uint_eq(w.type, MSG_WELCOME);
	meta = mmap(NULL, w.welcome.meta_bytes, PROT_READ, MAP_SHARED, fds[0],
		    0);
	r.data = mmap(NULL, w.welcome.region_bytes - w.welcome.meta_bytes,
		      PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0);
	ck_assert(meta != MAP_FAILED && r.data != MAP_FAILED);
	close(fds[0]);
	close(fds[1]);
	memcpy(&r.sb, meta, sizeof(r.sb));
	memcpy(&d, meta + REGION_D_OFF, sizeof(d));
	ck_assert_uint_eq(dirword_depth(d), 0);
	memcpy(&entry, meta + dirword_off(d), sizeof(entry));
	munmap(meta, r.sb.meta_bytes);
	r.page = entry_page(entry);
	r.slots = (uint64_t *)(void *)(r.data + r.page * PAGE_BYTES -
				       r.sb.meta_bytes);
	*r_out = r;
	return fd;
}

void raw_unmap(struct raw_region *r)
{
	munmap(r->data, r->sb.region_bytes - r->sb.meta_bytes);
}

void raw_grant(int fd, uint8_t cls, uint32_t n, struct block_ref *refs_out)
{
	struct msg m = {.type = MSG_GRANT_REQ, .req = 2,
			.grant_req = {cls, n}};

	raw_say(fd, &m, NULL);
	m = raw_next(fd);
	ck_assert_uint_eq(m.type, MSG_GRANT);
	ck_assert_uint_eq(m.blocks.n, n);
	for (uint32_t i = 0; i < n; i++)
		refs_out[i] = msg_ref(&m, i);
}
