/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "outputs.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/err.h"

#include "html.h"
#include "plot.h"

/* Does not truncate: the old contents stay until there are results. */
static FILE *open_file(const char *property, const char *path, bool *new_out)
{
	int flags = O_WRONLY | O_CREAT | O_CLOEXEC;
	int fd = open(path, flags | O_EXCL, 0666);
	FILE *f;

	*new_out = fd >= 0;
	if (fd < 0 && errno == EEXIST)
		fd = open(path, flags, 0666);
	f = fd >= 0 ? fdopen(fd, "w") : NULL;
	if (!f)
		err_set_errno(FARKV_ESYS, errno, "%s: cannot open %s", property,
			      path);
	return f;
}

static void empty_file(FILE *f)
{
	struct stat st;

	/* If truncating fails, so does writing, which is reported. */
	if (f && f != stdout && fstat(fileno(f), &st) == 0 &&
	    S_ISREG(st.st_mode) && ftruncate(fileno(f), 0))
		clearerr(f);
}

/* Check the path: gnuplot opens it at the end, and would draw on stdout if it cannot. */
static bool try_plot(struct outputs *o, const char *path)
{
	FILE *f = plot_check() ? NULL : open_file("plot", path, &o->new_plot);

	return f && fclose(f) == 0;
}

/* A page appears whole: its file is created when there is one. */
static bool try_html(struct outputs *o, const char *path)
{
	if (outfile_open(&o->html, path)) {
		err_set(FARKV_ESYS, "html: %s", err_detail());
		return false;
	}
	if (o->html.temp)
		outfile_abort(&o->html);
	return true;
}

static void remove_new(const struct outputs *o)
{
	if (o->new_report)
		unlink(o->params->export_file);
	if (o->new_csv)
		unlink(o->params->csv_file);
	if (o->new_plot)
		unlink(o->params->plot_file);
}

int outputs_open(struct outputs *o, const struct params *p)
{
	bool good;

	*o = (struct outputs){.params = p, .report = stdout, .html.fd = -1};
	if (p->export_file[0])
		o->report = open_file("exportfile", p->export_file,
				      &o->new_report);
	good = o->report != NULL;
	if (good && p->csv_file[0])
		good = (o->csv = open_file("csv", p->csv_file, &o->new_csv)) != NULL;
	if (good && p->plot_file[0])
		good = try_plot(o, p->plot_file);
	if (good && p->html_file[0])
		good = try_html(o, p->html_file);
	if (good)
		return 0;
	if (o->report && o->report != stdout)
		fclose(o->report);
	if (o->csv)
		fclose(o->csv);
	remove_new(o);
	return FARKV_ESYS;
}

void outputs_begin(struct outputs *o)
{
	empty_file(o->report);
	empty_file(o->csv);
	o->new_report = o->new_csv = false;
}

/* A new page has the mode of the other files: a browser's user may be another one. */
static void set_mode(const struct outfile *f)
{
	mode_t mask = umask(0);

	umask(mask);
	if (f->temp && fchmod(f->fd, 0666 & ~mask)) {
		/* Then the page is its owner's. */
	}
}

static int write_html(struct outfile *o, const struct bench *b, const char *path)
{
	FILE *f;
	bool bad;
	int err = o->fd < 0 ? outfile_open(o, path) : 0;

	if (err)
		return err;
	set_mode(o);
	f = fdopen(fcntl(o->fd, F_DUPFD_CLOEXEC, 0), "w");
	if (f)
		html_write(b, f);
	bad = !f || ferror(f);
	if (f)
		bad = fclose(f) || bad;
	if (!bad)
		return outfile_commit(o);
	err = err_set_errno(FARKV_ESYS, errno, "html: cannot write %s", o->name);
	outfile_abort(o);
	return err;
}

int outputs_write(struct outputs *o, const struct bench *b)
{
	const struct params *p = o->params;
	int err = 0;

	if (o->csv)
		bench_csv(b, o->csv); /* errors show at its close */
	if (p->plot_file[0]) {
		err = plot_write(b, p->plot_file);
		o->new_plot = o->new_plot && err;
	}
	if (!err && p->html_file[0] && b->n_rounds)
		err = write_html(&o->html, b, p->html_file);
	return err;
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
	outfile_abort(&o->html);
	remove_new(o);
	return err;
}
