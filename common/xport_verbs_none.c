/* SPDX-License-Identifier: BSD-3-Clause */
/* The RDMA transport in a build without its libraries: every open fails and says so. */
#include "config.h"

#include "xport_verbs.h"

#include <errno.h>
#include <stdio.h>

#include <farkv.h>

#include "err.h"

#define WHY                                                              \
	"this build has no RDMA: libibverbs and librdmacm were not found " \
	"(Debian: libibverbs-dev librdmacm-dev)"

int verbs_link_open(const struct verbs_dial *d, struct verbs_link **out)
{
	(void)d;
	(void)out;
	return err_set(FARKV_ENOTSUP, WHY);
}

int verbs_server_open(const struct verbs_server_config *cfg,
		      struct verbs_server **out)
{
	(void)cfg;
	(void)out;
	return err_set(FARKV_ENOTSUP, WHY);
}

int verbs_claim_open(const struct verbs_server_config *cfg, struct verbs_claim **out)
{
	(void)cfg;
	*out = NULL;
	return 0;
}

void verbs_claim_close(struct verbs_claim *c)
{
	(void)c;
}

bool verbs_available(char *why, size_t cap)
{
	snprintf(why, cap, "%s", WHY);
	return false;
}

/* ---- never reached: nothing was ever opened ------------------------------------- */

void verbs_link_forked(struct verbs_link *l)
{
	(void)l;
}

void verbs_link_close(struct verbs_link *l)
{
	(void)l;
}

int verbs_link_fd(const struct verbs_link *l)
{
	(void)l;
	return -1;
}

int verbs_link_send(struct verbs_link *l, const void *buf, size_t len)
{
	(void)l;
	(void)buf;
	(void)len;
	return ENOTSUP;
}

ssize_t verbs_link_receive(struct verbs_link *l, void *buf, size_t cap)
{
	(void)l;
	(void)buf;
	(void)cap;
	return 0;
}

const char *verbs_link_why(const struct verbs_link *l)
{
	(void)l;
	return WHY;
}

int verbs_lane_open(struct verbs_link *l, const struct verbs_lane_params *p,
		    struct xport_lane **out)
{
	(void)l;
	(void)p;
	(void)out;
	return FARKV_ENOTSUP;
}

void verbs_server_close(struct verbs_server *vs)
{
	(void)vs;
}

int verbs_server_fd(const struct verbs_server *vs)
{
	(void)vs;
	return -1;
}

void verbs_server_dispatch(struct verbs_server *vs)
{
	(void)vs;
}

bool verbs_server_tick(struct verbs_server *vs)
{
	(void)vs;
	return false;
}

const char *verbs_server_address(const struct verbs_server *vs)
{
	(void)vs;
	return "";
}

const char *verbs_server_device(const struct verbs_server *vs)
{
	(void)vs;
	return "";
}

bool verbs_server_read8_atomic(const struct verbs_server *vs)
{
	(void)vs;
	return false;
}

void verbs_server_areas(const struct verbs_server *vs, bool readonly,
			struct verbs_area areas[2])
{
	(void)vs;
	(void)readonly;
	areas[0] = areas[1] = (struct verbs_area){0};
}

struct xport_lane *verbs_server_lane(struct verbs_server *vs)
{
	(void)vs;
	return NULL;
}

void verbs_server_lane_lost(struct verbs_server *vs)
{
	(void)vs;
}

void verbs_server_counters(const struct verbs_server *vs,
			   struct verbs_server_counters *out)
{
	(void)vs;
	*out = (struct verbs_server_counters){0};
}

void verbs_peer_set_user(struct verbs_peer *peer, void *user)
{
	(void)peer;
	(void)user;
}

void *verbs_peer_user(const struct verbs_peer *peer)
{
	(void)peer;
	return NULL;
}

const char *verbs_peer_name(const struct verbs_peer *peer)
{
	(void)peer;
	return "";
}

bool verbs_peer_same_host(const struct verbs_peer *a, const struct verbs_peer *b)
{
	(void)a;
	(void)b;
	return false;
}

void verbs_server_probe(struct verbs_server *vs, uint64_t since_ns)
{
	(void)vs;
	(void)since_ns;
}

int verbs_peer_send(struct verbs_peer *peer, const void *buf, size_t len)
{
	(void)peer;
	(void)buf;
	(void)len;
	return ENOTSUP;
}

void verbs_peer_fence(struct verbs_peer *peer)
{
	(void)peer;
}

void verbs_peer_close(struct verbs_peer *peer)
{
	(void)peer;
}
