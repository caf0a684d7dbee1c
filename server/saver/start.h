/* SPDX-License-Identifier: BSD-3-Clause */
/** start.h - the saver's process: its start, and what it does. */
#ifndef SERVER_SAVER_START_H
#define SERVER_SAVER_START_H

#include "saver.h"

/** What the child works with; must stay valid in the parent until saver_start(). */
struct saver_config {
	const char *save;    /* file, or NULL */
	const char *restore; /* file, or NULL */
	const char *keys;    /* the server's key file, or NULL */
};

/**
 * Start the child. Before the process has threads, memory of the region, or descriptors that must
 * close when it ends. 0, or FARKV_ESYS with a detail.
 */
int saver_start(const struct saver_config *cfg, struct saver *s_out);

#endif
