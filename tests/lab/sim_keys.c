/* SPDX-License-Identifier: BSD-3-Clause */
/* The public functions with the fast path of a put (sim_loads.h). */
#include "config.h"

#include "sim_loads.h"

#include "client/farkv_keys.c"
