/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "outputs.h"

#include <errno.h>
#include <stdbool.h>

#include "common/err.h"
#include "plot.h"

static FILE *open_file(const char *property, const char *path)
{
	FILE *f = fopen(path, "we");

	if (!f)
		err_set_errno(FARKV_ESYS, errno, "%s: cannot open %s", property,
			      path);
	return f;
}

int outputs_open(struct outputs *o, const struct params *p)
{
	*o = (struct outputs){.params = p, .report = stdout};
	if (p->plot_file[0] && plot_check())
		return FARKV_ESYS;
	if (p->export_file[0])
		o->report = open_file("exportfile", p->export_file);
	if (!o->report)
		return FARKV_ESYS;
	if (p->csv_file[0])
		o->csv = open_file("csv", p->csv_file);
	if (o->csv || !p->csv_file[0])
		return 0;
	if (o->report != stdout)
		fclose(o->report);
	return FARKV_ESYS;
}

int outputs_write(struct outputs *o, const struct bench *b)
{
	if (o->csv)
		bench_csv(b, o->csv); /* errors show when it is closed */
	return o->params->plot_file[0] ? plot_write(b, o->params->plot_file)
				       : 0;
}

static int close_file(FILE *f, const char *path)
{
	bool bad = fflush(f) || ferror(f);

	if (f != stdout)
		bad = fclose(f) || bad;
	if (bad)
		err_set_errno(FARKV_ESYS, errno, "cannot write the results to %s",
			      path);
	return bad ? FARKV_ESYS : 0;
}

int outputs_close(struct outputs *o)
{
	const struct params *p = o->params;
	int err = close_file(o->report,
			     p->export_file[0] ? p->export_file : "stdout");

	if (o->csv && close_file(o->csv, p->csv_file))
		err = FARKV_ESYS;
	return err;
}
