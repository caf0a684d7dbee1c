/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "transport.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/base/err.h"
#include "common/base/util.h"
#include "common/rdma/verbs.h"

static int bad_address(const char *text, const char *what)
{
	return err_set(FARKV_EINVAL,
		       "--listen '%s': %s; write HOST:PORT, :PORT or "
		       "[IPV6]:PORT", text, what);
}

int transport_address(const char *text, struct transport_address *out)
{
	struct transport_address a = {.port = VERBS_PORT};
	const char *host = text, *end, *port = NULL;
	uint64_t number;

	if (!text || !*text) {
		*out = a;
		return 0;
	}
	if (*text == '[') {
		host = text + 1;
		end = strchr(host, ']');
		if (!end)
			return bad_address(text, "']' is missing");
		if (end[1] != '\0' && end[1] != ':')
			return bad_address(text, "after ']' comes a colon");
		port = end[1] ? end + 2 : NULL;
	} else {
		end = host + strcspn(host, ":");
		port = *end ? end + 1 : NULL;
		if (port && strchr(port, ':'))
			return bad_address(text,
					   "an IPv6 address needs brackets");
	}
	if ((size_t)(end - host) >= sizeof(a.host))
		return bad_address(text, "the host name is too long");
	memcpy(a.host, host, (size_t)(end - host));
	if (port) {
		if (!util_parse_u64(port, &number) || number > 65535)
			return bad_address(text, "the port is a number from 0 "
						 "(any) to 65535");
		snprintf(a.port, sizeof(a.port), "%u", (unsigned)number);
	}
	*out = a;
	return 0;
}

/* True if no other host can connect to that address. */
static bool is_loopback(const struct transport_address *a)
{
	struct in6_addr v6;
	struct in_addr v4;

	if (strcmp(a->host, "localhost") == 0)
		return true;
	if (inet_pton(AF_INET, a->host, &v4) == 1)
		return (ntohl(v4.s_addr) >> 24) == 127;
	return inet_pton(AF_INET6, a->host, &v6) == 1 &&
	       IN6_IS_ADDR_LOOPBACK(&v6);
}

static void choose_auto(bool open, struct transport_plan *p)
{
	char device[500];
	bool there = false;

	if (xport_verbs)
		there = xport_verbs->available(device, sizeof(device));
	else
		snprintf(device, sizeof(device), "%s", XPORT_VERBS_NONE);
	p->socket = true;
	p->rdma = there && open;
	if (!there)
		snprintf(p->why, sizeof(p->why),
			 "shared memory, for clients of this host: %s", device);
	else if (!open)
		snprintf(p->why, sizeof(p->why),
			 "shared memory, for clients of this host; %s could "
			 "serve others by RDMA, with --keys FILE or --no-auth",
			 device);
	else
		snprintf(p->why, sizeof(p->why),
			 "RDMA, because %s is active; clients of the socket "
			 "can only read", device);
}

int transport_choose(const struct transport_wanted *w,
		     const struct transport_address *a,
		     struct transport_plan *out)
{
	bool open = w->have_keys || w->no_auth || is_loopback(a);
	struct transport_plan p = {0};

	switch (w->transport) {
	case TRANSPORT_AUTO:
		choose_auto(open, &p);
		*out = p;
		return 0;
	case TRANSPORT_SHM:
		p.socket = true;
		strcpy(p.why, "shared memory, as asked for");
		*out = p;
		return 0;
	default:
		break;
	}
	if (!open)
		return err_set(FARKV_EINVAL,
			       "by RDMA anybody on the network can come: give "
			       "--keys FILE (kvcli keygen makes keys), or "
			       "--no-auth if the network is trusted");
	p.rdma = true;
	p.socket = w->transport == TRANSPORT_BOTH;
	strcpy(p.why, p.socket ? "RDMA and shared memory, as asked for; clients "
				 "of the socket can only read"
			       : "RDMA, as asked for");
	*out = p;
	return 0;
}
