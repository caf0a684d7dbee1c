/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "log.h"
