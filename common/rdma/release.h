/* SPDX-License-Identifier: BSD-3-Clause */
/** release.h - release objects of libibverbs and librdmacm. */
#ifndef COMMON_RDMA_RELEASE_H
#define COMMON_RDMA_RELEASE_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>

/** Release an object and log a failure, which is a bug here or in the device. */
#define VERBS_RELEASE(what, call)                                          \
	do {                                                               \
		int rc_ = (call);                                          \
		if (rc_)                                                   \
			verbs_release_failed(what, rc_);                   \
	} while (0)
/** Log a failed release; `rc` is what the library returned: an errno, or -1 with errno set. */
void verbs_release_failed(const char *what, int rc);

/** True if nothing can be sent to the id's peer. */
bool verbs_port_is_down(struct rdma_cm_id *id);
/** Destroy an id whose events are all acknowledged; deferred while its port is down. */
void verbs_id_release(struct rdma_cm_id *id);
/** Destroy deferred ids whose port is up again; true if some remain. Any thread. */
bool verbs_release_deferred(void);

#endif
