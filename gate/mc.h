/* SPDX-License-Identifier: BSD-3-Clause */
/** mc.h - execute memcached's requests. */
#ifndef GATE_MC_H
#define GATE_MC_H

#include "client.h"

/** As resp_step(); `data` is not changed. */
size_t mc_step(struct client *c, const char *data, size_t len);

#endif
