/* SPDX-License-Identifier: BSD-3-Clause */
/** options.h - kvcli's options, which fill a struct cli. */
#ifndef CLIENT_CLI_OPTIONS_H
#define CLIENT_CLI_OPTIONS_H

#include "common/base/opts.h"

extern const struct opts_spec cli_spec;

#endif
