/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "verbs_far.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <farkv.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/rdma/verbs.h"
#include "marks.h"

#define META_BYTES 4096u
#define LANES_MAX 8u
#define LIMIT_NS (60 * NS_PER_SEC)
#define READONLY_SESSION 0x100u

static const uint8_t token[VERBS_TOKEN_BYTES] = "not guessed here";

static struct far {
	bool open;
	struct verbs_server *server;
	uint8_t *meta;
	size_t bytes;
	pthread_t thread;
	int wake_fd;
	char host[64], port[8];

	struct verbs_ctrl *links[LANES_MAX];
	struct xport_lane *lanes[LANES_MAX];
	unsigned n_lanes;

	pthread_mutex_t lock; /* all below */
	pthread_cond_t changed;
	struct verbs_peer *peers[LANES_MAX];
	unsigned n_peers;
	int fence; /* this one, or -1 */
	bool renew; /* the server's loopback lane */
	unsigned probes; /* to come */
	bool quit;
} far;

/* ---- the server's side ------------------------------------------------------- */

static int on_request(void *arg)
{
	(void)arg;
	return 0;
}

static bool on_connected(void *arg, struct verbs_peer *peer)
{
	(void)arg;
	pthread_mutex_lock(&far.lock);
	far.peers[far.n_peers++] = peer;
	pthread_cond_broadcast(&far.changed);
	pthread_mutex_unlock(&far.lock);
	return true;
}

static bool may_take(void *arg, struct verbs_peer *peer)
{
	(void)arg;
	(void)peer;
	return true;
}

static void on_overrun(void *arg, struct verbs_peer *peer, bool no_memory)
{
	(void)arg;
	(void)peer;
	(void)no_memory;
}

static void on_message(void *arg, struct verbs_peer *peer, const void *buf,
		       size_t len)
{
	(void)arg;
	(void)peer;
	(void)buf;
	(void)len;
}

static void on_room(void *arg, struct verbs_peer *peer)
{
	(void)arg;
	(void)peer;
}

static void on_gone(void *arg, struct verbs_peer *peer, const char *why)
{
	(void)arg;
	(void)why;
	pthread_mutex_lock(&far.lock);
	for (unsigned i = 0; i < far.n_peers; i++)
		if (far.peers[i] == peer)
			far.peers[i] = NULL;
	pthread_mutex_unlock(&far.lock);
}

static int on_data(void *arg, uint32_t session, const uint8_t *given,
		   struct verbs_peer **peer_out, bool *readonly_out)
{
	uint32_t n = session & ~READONLY_SESSION;

	(void)arg;
	if (n >= far.n_peers || !far.peers[n] ||
	    memcmp(given, token, sizeof(token)) != 0)
		return VERBS_REJECT_SESSION;
	*peer_out = far.peers[n];
	*readonly_out = (session & READONLY_SESSION) != 0;
	return 0;
}

static void on_tick_due(void *arg)
{
	(void)arg;
}

static void on_device_lost(void *arg, const char *why)
{
	(void)arg;
	fprintf(stderr, "the device is lost: %s\n", why);
}

static void on_lane(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&far.lock);
	far.renew = false;
	pthread_cond_broadcast(&far.changed);
	pthread_mutex_unlock(&far.lock);
}

static const struct verbs_server_ops ops = {
	.on_request = on_request,
	.on_connected = on_connected,
	.may_take = may_take,
	.on_overrun = on_overrun,
	.on_message = on_message,
	.on_room = on_room,
	.on_gone = on_gone,
	.on_data = on_data,
	.on_tick_due = on_tick_due,
	.on_lane = on_lane,
	.on_device_lost = on_device_lost,
};

/* Executes the test's command. False: end. */
static bool serve_test(void)
{
	struct verbs_peer *peer = NULL;
	bool quit, renew, probe;
	eventfd_t n;

	(void)eventfd_read(far.wake_fd, &n);
	pthread_mutex_lock(&far.lock);
	if (far.fence >= 0)
		peer = far.peers[far.fence];
	quit = far.quit;
	renew = far.renew;
	probe = far.probes > 0;
	far.probes -= probe;
	pthread_mutex_unlock(&far.lock);
	if (peer)
		xport_verbs->peer_fence(peer);
	if (renew)
		xport_verbs->server_lane_lost(far.server);
	if (probe)
		xport_verbs->server_probe(far.server, clock_now_ns());
	pthread_mutex_lock(&far.lock);
	far.fence = -1;
	pthread_cond_broadcast(&far.changed);
	pthread_mutex_unlock(&far.lock);
	return !quit;
}

static void *serve(void *arg)
{
	struct pollfd fds[2] = {
		{.fd = xport_verbs->server_fd(far.server), .events = POLLIN},
		{.fd = far.wake_fd, .events = POLLIN}};

	(void)arg;
	do {
		(void)poll(fds, 2, 200);
		xport_verbs->server_dispatch(far.server);
		(void)xport_verbs->server_tick(far.server);
	} while (serve_test());
	return NULL;
}

/* ---- open and close ------------------------------------------------------------ */

bool far_wanted(void)
{
	const char *transport = getenv("FARKV_TEST_TRANSPORT");

	return transport && strcmp(transport, "rdma") == 0;
}

void far_require(void)
{
	/* Nothing more: a test's process must be the first to use the device. */
	if (far_wanted())
		return;
	printf("SKIP: no RDMA; run by make check-rdma, or with "
	       "FARKV_TEST_TRANSPORT=rdma\n");
	exit(77);
}

void far_open(void *data, size_t bytes)
{
	struct verbs_server_config cfg = {.port = "0",
					  .tuning = {.ack_timeout =
							     VERBS_ACK_TIMEOUT},
					  .n_recv = 8,
					  .msg_max = 4096,
					  .data = data,
					  .meta_bytes = META_BYTES,
					  .region_bytes = META_BYTES + bytes,
					  .ops = &ops};
	const char *at;
	int err;

	memset(&far, 0, sizeof(far));
	far.bytes = bytes;
	far.fence = -1;
	far.meta = aligned_alloc(4096, META_BYTES);
	far.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	ck_assert_ptr_nonnull(far.meta);
	ck_assert_int_ge(far.wake_fd, 0);
	cfg.meta = far.meta;
	pthread_mutex_init(&far.lock, NULL);
	pthread_cond_init(&far.changed, NULL);
	err = xport_verbs->server_open(&cfg, &far.server);
	ck_assert_msg(err == 0, "%s", err_detail());
	/* kv://10.0.0.1:4711, kv://[fd00::1]:4711 */
	at = xport_verbs->server_address(far.server) + strlen("kv://");
	at += *at == '[';
	snprintf(far.host, sizeof(far.host), "%.*s",
		 (int)strcspn(at, strchr(at, ']') ? "]" : ":"), at);
	snprintf(far.port, sizeof(far.port), "%s", strrchr(at, ':') + 1);
	ck_assert_int_eq(pthread_create(&far.thread, NULL, serve, NULL), 0);
	far.open = true;
}

static void wake(void)
{
	ck_assert_int_eq(eventfd_write(far.wake_fd, 1), 0);
}

void far_close(void)
{
	if (!far.open)
		return;
	far.open = false;
	for (unsigned i = 0; i < far.n_lanes; i++) {
		xport_close(far.lanes[i]);
		xport_verbs->ctrl_close(far.links[i]);
	}
	pthread_mutex_lock(&far.lock);
	far.quit = true;
	pthread_mutex_unlock(&far.lock);
	wake();
	pthread_join(far.thread, NULL);
	xport_verbs->server_close(far.server);
	close(far.wake_fd);
	free(far.meta);
}

/* ---- lanes ---------------------------------------------------------------------- */

static void wait_peers(unsigned n)
{
	pthread_mutex_lock(&far.lock);
	while (far.n_peers < n)
		pthread_cond_wait(&far.changed, &far.lock);
	pthread_mutex_unlock(&far.lock);
}

struct xport_lane *far_lane(const struct far_lane *how)
{
	struct verbs_dial dial = {.host = far.host,
				  .port = far.port,
				  .tuning = {.ack_timeout = VERBS_ACK_TIMEOUT},
				  .deadline_ns = clock_now_ns() + LIMIT_NS};
	struct verbs_area served[VERBS_AREAS_MAX], areas[2];
	unsigned i = far.n_lanes;
	struct verbs_lane_params p = {
		.areas = areas,
		.n_areas = how->wrong_from ? 2 : 1,
		.region_bytes = far.bytes,
		.session = i | (how->readonly ? READONLY_SESSION : 0),
		.token = token,
		.readonly = how->readonly && !how->claims_more,
		.read8_atomic = xport_verbs->server_read8_atomic(far.server),
		.deadline_ns = clock_now_ns() + LIMIT_NS};
	int err;

	ck_assert_uint_lt(i, LANES_MAX);
	(void)xport_verbs->server_areas(far.server, p.readonly, served);
	areas[0] = (struct verbs_area){.bytes = how->wrong_from ?
							how->wrong_from :
							far.bytes,
				       .raddr = served[1].raddr,
				       .rkey = served[1].rkey};
	areas[1] = (struct verbs_area){.off = how->wrong_from,
				       .bytes = far.bytes - how->wrong_from,
				       .raddr = served[1].raddr +
						how->wrong_from,
				       .rkey = served[1].rkey ^ 0x5A};
	err = xport_verbs->ctrl_open(&dial, &far.links[i]);
	ck_assert_msg(err == 0, "%s", err_detail());
	wait_peers(i + 1);
	err = xport_verbs->lane_open(far.links[i], &p, &far.lanes[i]);
	ck_assert_msg(err == 0, "%s", err_detail());
	far.n_lanes++;
	return far.lanes[i];
}

void far_fence(unsigned n)
{
	pthread_mutex_lock(&far.lock);
	far.fence = (int)n;
	pthread_mutex_unlock(&far.lock);
	wake();
	pthread_mutex_lock(&far.lock);
	while (far.fence >= 0)
		pthread_cond_wait(&far.changed, &far.lock);
	pthread_mutex_unlock(&far.lock);
}

void far_probe(void)
{
	pthread_mutex_lock(&far.lock);
	far.probes++;
	wake();
	while (far.probes)
		pthread_cond_wait(&far.changed, &far.lock);
	pthread_mutex_unlock(&far.lock);
}

unsigned far_peers(void)
{
	unsigned n = 0;

	pthread_mutex_lock(&far.lock);
	for (unsigned i = 0; i < far.n_peers; i++)
		n += far.peers[i] != NULL;
	pthread_mutex_unlock(&far.lock);
	return n;
}

struct xport_lane *far_own_lane(void)
{
	return xport_verbs->server_lane(far.server);
}

uint64_t far_own_off(void)
{
	return META_BYTES;
}

void far_own_renew(void)
{
	struct timespec end;
	int rc = 0;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += LIMIT_NS / NS_PER_SEC;
	pthread_mutex_lock(&far.lock);
	far.renew = true;
	wake();
	while (far.renew && rc == 0)
		rc = pthread_cond_timedwait(&far.changed, &far.lock, &end);
	pthread_mutex_unlock(&far.lock);
	ck_assert_int_eq(rc, 0);
}

void far_wait(struct xport_lane *lane, struct xport_chain *c)
{
	while (!c->done) /* or the case times out */
		xport_poll(lane);
}

void far_run(struct xport_lane *lane, struct xport_chain *first)
{
	struct xport_chain *last = first;

	while (last->next)
		last = last->next;
	ck_assert_int_eq(xport_post(lane, first), 0);
	far_wait(lane, last);
}
