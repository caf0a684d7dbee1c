/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "alloc.h"
