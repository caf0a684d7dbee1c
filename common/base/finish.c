/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "finish.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "log.h"

bool finish_stdout(void)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return true;
	if (errno != EPIPE)
		log_error("cannot write to stdout: %s", strerror(errno));
	return false;
}
