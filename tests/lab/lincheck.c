/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lincheck FILE...: each file is a history (history.h has the format, "-" is
 * standard input). Prints whether it is linearizable and its versions fit, and if not,
 * the reason. Exit status: 0 if all are, 1 if one is not, 2 if one cannot be read or decided.
 */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "linear.h"

enum { FINE, WRONG, TROUBLE };

static int read_file(struct history *h, const char *name)
{
	FILE *f = strcmp(name, "-") == 0 ? stdin : fopen(name, "r");
	int err;

	if (!f) {
		fprintf(stderr, "%s: %s\n", name, strerror(errno));
		return -1;
	}
	err = history_read(h, f, name);
	if (f != stdin)
		fclose(f);
	return err;
}

static int check(const char *name)
{
	struct linear_report report;
	struct history h = {0};
	int status = FINE;

	if (read_file(&h, name)) {
		history_free(&h);
		return TROUBLE;
	}
	linear_check(&h, 0, &report);
	printf("%s: ", name);
	linear_print(&report, stdout);
	if (report.verdict == LINEAR_GAVE_UP)
		status = TROUBLE;
	else if (report.verdict == LINEAR_NO || history_versions(&h, stdout))
		status = WRONG;
	history_free(&report.witness);
	history_free(&h);
	return status;
}

int main(int argc, char **argv)
{
	int worst = FINE;

	if (argc < 2) {
		fprintf(stderr, "usage: lincheck FILE... (- is standard "
				"input)\n");
		return TROUBLE;
	}
	for (int i = 1; i < argc; i++) {
		int status = check(argv[i]);

		worst = status > worst ? status : worst;
	}
	return worst;
}
