/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "private_data.h"

#include <arpa/inet.h>
#include <string.h>

#include <farkv.h>

#include "common/base/err.h"

void verbs_private_fill(struct verbs_private *p, enum verbs_kind kind)
{
	memset(p, 0, sizeof(*p));
	p->magic = htonl(VERBS_MAGIC);
	p->version = VERBS_VERSION;
	p->bytes = sizeof(*p);
	p->kind = (uint8_t)kind;
}

bool verbs_private_read(const void *data, size_t len, struct verbs_private *out)
{
	struct verbs_private p;

	if (!data || len < sizeof(p))
		return false;
	memcpy(&p, data, sizeof(p));
	if (ntohl(p.magic) != VERBS_MAGIC || p.version != VERBS_VERSION ||
	    p.bytes != sizeof(p))
		return false;
	p.session = ntohl(p.session);
	*out = p;
	return true;
}

/* ---- refusals --------------------------------------------------------------------- */

/* The kernel sends zeros on behalf of a process that has died. */
static bool is_zero(const uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (bytes[i])
			return false;
	return true;
}

static int other_version(const char *peer)
{
	return err_set(FARKV_EPROTOCOL,
		       "the server at %s speaks another version of the "
		       "protocol",
		       peer);
}

/* Explain bytes that verbs_private_read() rejects. */
static int other_protocol_error(const uint8_t *bytes, size_t len, const char *peer)
{
	uint32_t magic = htonl(VERBS_MAGIC);

	if (is_zero(bytes, len))
		return err_set(FARKV_EUNREACHABLE,
			       "the server at %s ended before it answered, or "
			       "is no farkv server",
			       peer);
	/* Every version begins with the magic and the version number. */
	if (len > sizeof(magic) && !memcmp(bytes, &magic, sizeof(magic)) &&
	    bytes[sizeof(magic)] != VERBS_VERSION)
		return other_version(peer);
	return err_set(FARKV_EPROTOCOL, "what listens at %s is no farkv server",
		       peer);
}

static int reason_error(uint8_t reason, const char *peer)
{
	switch (reason) {
	case VERBS_REJECT_FULL:
		return err_set(FARKV_EREFUSED,
			       "the server at %s has all the sessions it takes "
			       "(kvserver --max-sessions)",
			       peer);
	case VERBS_REJECT_SHUTDOWN:
		return err_set(FARKV_EREFUSED, "the server at %s is leaving",
			       peer);
	case VERBS_REJECT_DEVICE:
		return err_set(FARKV_EREFUSED,
			       "%s belongs to another RDMA device than the "
			       "store's; use the address that kvserver printed",
			       peer);
	case VERBS_REJECT_PROTOCOL:
		return other_version(peer);
	case VERBS_REJECT_INTERNAL:
		return err_set(FARKV_EREFUSED,
			       "the server at %s could not take the "
			       "connection: it is out of memory or device "
			       "resources; its log says which",
			       peer);
	default:
		return err_set(FARKV_EREFUSED,
			       "the server at %s refused the connection "
			       "(reason %u)",
			       peer, reason);
	}
}

int verbs_refusal_error(int status, const void *data, size_t len,
			const char *peer)
{
	struct verbs_private p;

	/* Any other status: nobody listens. */
	if (status != VERBS_STATUS_REFUSED)
		return err_set(FARKV_EUNREACHABLE,
			       "no server listens at %s: is kvserver running "
			       "with --transport rdma or both?",
			       peer);
	if (!verbs_private_read(data, len, &p))
		return other_protocol_error(data, data ? len : 0, peer);
	return reason_error(p.reason, peer);
}
