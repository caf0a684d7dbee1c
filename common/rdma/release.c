/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Release, and deferred destroy of a cm_id while its port is down.
 *
 * Ending a connection sends a disconnect message through the device's one QP for the
 * connection manager. While the interface is down, rxe (seen with Linux 6.1) finds no route
 * for it and puts that QP into an error state: nobody can connect to or from the device
 * until the device is created again. So nothing is sent while the port is down, and a
 * cm_id, whose destruction would make the kernel send, is kept until the port is up.
 */
#include "config.h"

#include "release.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/log.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rdma_event_channel *channel; /* of deferred ids; never read */
static struct rdma_cm_id *deferred; /* linked through id->context */
static pid_t owner;

void verbs_release_failed(const char *what, int rc)
{
	log_warn("rdma: cannot release %s: %s", what,
		 strerror(rc > 0 ? rc : errno));
}

/*
 * True if there is a route to the peer: routes vanish shortly before the port is down. connect() of
 * a UDP socket sends nothing.
 */
static bool has_route(struct rdma_cm_id *id)
{
	const struct sockaddr *peer = rdma_get_peer_addr(id);
	bool has = true;
	int fd;

	if (peer->sa_family != AF_INET && peer->sa_family != AF_INET6)
		return true;
	fd = socket(peer->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return true;
	if (connect(fd, peer,
		    peer->sa_family == AF_INET ? sizeof(struct sockaddr_in) :
						 sizeof(struct sockaddr_in6)))
		has = errno != ENETUNREACH && errno != EHOSTUNREACH;
	close(fd);
	return has;
}

bool verbs_port_is_down(struct rdma_cm_id *id)
{
	struct ibv_port_attr port;

	return id->verbs && id->port_num &&
	       !ibv_query_port(id->verbs, id->port_num, &port) &&
	       (port.state < IBV_PORT_ACTIVE || !has_route(id));
}

/* In a child of fork(): forget the parent's ids, which the child must not use. */
static void disown(void)
{
	if (owner == getpid())
		return;
	owner = getpid();
	channel = NULL;
	deferred = NULL;
}

/* Defer the destruction of the id; false if it must be destroyed now. */
static bool defer(struct rdma_cm_id *id)
{
	bool ok;

	pthread_mutex_lock(&lock);
	disown();
	if (!channel)
		channel = rdma_create_event_channel();
	/* Its own event channel is closed with the connection. */
	ok = channel && !rdma_migrate_id(id, channel);
	if (ok) {
		id->context = deferred;
		deferred = id;
	}
	pthread_mutex_unlock(&lock);
	return ok;
}

void verbs_id_release(struct rdma_cm_id *id)
{
	if (!verbs_port_is_down(id) || !defer(id))
		VERBS_RELEASE("a connection", rdma_destroy_id(id));
}

bool verbs_release_deferred(void)
{
	struct rdma_cm_id **at = &deferred, *id;
	bool left;

	pthread_mutex_lock(&lock);
	disown();
	while ((id = *at)) {
		if (verbs_port_is_down(id)) {
			at = (struct rdma_cm_id **)&id->context;
			continue;
		}
		*at = id->context;
		VERBS_RELEASE("a connection", rdma_destroy_id(id));
	}
	left = deferred != NULL;
	pthread_mutex_unlock(&lock);
	return left;
}
