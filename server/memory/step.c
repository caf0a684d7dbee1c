/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "step.h"

void (*step_hook)(enum step step);
