/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "util.h"

static _Thread_local char detail[ERR_LINE_MAX];
static _Thread_local int plain; /* if not 0, the line is err_str(plain) */

const char *err_str(int err)
{
	switch (err) {
	case FARKV_OK: return "success";
	case FARKV_ENOTFOUND: return "no value is stored under the key";
	case FARKV_EEXISTS: return "the key already has a value";
	case FARKV_EVERSION: return "the value has another version";
	case FARKV_ENOSPC: return "the store is out of memory";
	case FARKV_EINDEXFULL: return "the index has no slot for a new key";
	case FARKV_ETOOLARGE: return "key or value is over the store's limit";
	case FARKV_ETOOSMALL: return "the buffer cannot hold the value";
	case FARKV_ETIMEDOUT: return "the deadline passed";
	case FARKV_EMAYBE: return "outcome unknown: it may have happened";
	case FARKV_EPERM: return "the session may not do this";
	case FARKV_EINVAL: return "an argument is not valid";
	case FARKV_ENOMEM: return "this process is out of memory";
	case FARKV_EABORTED: return "the item was not attempted";
	case FARKV_EAGAIN: return "the queue is full: take completions first";
	case FARKV_ESTALE: return "what was read may not be the value: read it again";
	case FARKV_EDISCONNECTED: return "the connection to the server is gone";
	case FARKV_EUNREACHABLE: return "no server listens at that address";
	case FARKV_EREFUSED: return "the server turned the session down";
	case FARKV_EPROTOCOL: return "the peer does not speak the protocol";
	case FARKV_ENOROUTE: return "there is no way to that host";
	case FARKV_ELINKDOWN: return "the network link of this machine is down";
	case FARKV_EFORMAT: return "the region's format is not usable";
	case FARKV_ECORRUPT: return "stored data fails its checksum";
	case FARKV_EURI: return "the address is malformed";
	case FARKV_ENOTSUP: return "not supported by this build or machine";
	case FARKV_ESYS: return "a system call failed";
	default: return "unknown error";
	}
}

int (err_set)(int err, const char *fmt, ...)
{
	char line[sizeof(detail)]; /* arguments may point to the old line */
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	memcpy(detail, util_one_line(line), strlen(line) + 1);
	plain = 0;
	return err;
}

int err_set_plain(int err)
{
	detail[0] = '\0';
	plain = err;
	return err;
}

int (err_set_errno)(int err, int errnum, const char *fmt, ...)
{
	char line[sizeof(detail)], reason[128];
	const char *why;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	/* One remedy for this errno wherever it occurs. */
	why = errnum == EMFILE ? "too many open files; close some, or raise "
				 "ulimit -n"
			       : strerror_r(errnum, reason, sizeof(reason));
	/* Keep the reason even if the line before it is too long. */
	return err_set(err, "%.*s: %s",
		       (int)(sizeof(line) - sizeof(": ") - strlen(why)), line,
		       why);
}

const char *err_detail(void)
{
	return plain ? err_str(plain) : detail;
}

void err_clear(void)
{
	plain = 0;
	detail[0] = '\0';
}
