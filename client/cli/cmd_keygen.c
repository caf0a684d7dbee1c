/* SPDX-License-Identifier: BSD-3-Clause */
/* kvcli keygen: print a line for a key file. Contacts no server. */
#include "config.h"

#include "cli.h"

#include <stdio.h>
#include <string.h>

#include "common/base/err.h"
#include "common/proto/keyfile.h"

int cmd_keygen(struct cli *cli, int argc, char **argv)
{
	char line[KEYFILE_LINE_MAX];
	enum key_role role = KEY_RW;
	int err;

	if (argc > 1 && strcmp(argv[1], "ro") == 0)
		role = KEY_RO;
	else if (argc > 1 && strcmp(argv[1], "rw") != 0)
		return cli_error(cli, CLI_USAGE, "'%s' is neither rw nor ro",
				 argv[1]);
	err = keyfile_make_line(argv[0], role, line, sizeof(line));
	if (err)
		return cli_error(cli, cli_exit_for(err), "%s", err_detail());
	puts(line);
	explicit_bzero(line, sizeof(line));
	return CLI_OK;
}
