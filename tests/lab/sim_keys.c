/* SPDX-License-Identifier: BSD-3-Clause */
/* The public functions that put straight on by loads (sim_loads.h). */
#include "config.h"

#include "tests/lab/sim_loads.h"

#include "client/farkv_keys.c"
