/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "opts.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include <ini.h>

#include "err.h"
#include "nearest.h"
#include "textfile.h"
#include "util.h"

#define OPTS_MAX 64
/* getopt values of long options without a letter: greater than any character. */
#define OPT_VALUE_BASE 256

static void *field(const struct opt *o, void *cfg)
{
	return (uint8_t *)cfg + o->offset;
}

static bool takes_arg(const struct opt *o)
{
	return o->type != OPT_BOOL && o->type != OPT_COUNT;
}

static int bad_value(const struct opt *o, const char *text, const char *want)
{
	return err_set(FARKV_EINVAL, "%s: '%s' is not %s", o->name, text, want);
}

static int set_bool(const struct opt *o, void *cfg, const char *text)
{
	static const char *const yes[] = {"yes", "true", "on", "1"};
	static const char *const no[] = {"no", "false", "off", "0"};

	for (size_t i = 0; i < ARRAY_SIZE(yes); i++) {
		if (strcasecmp(text, yes[i]) == 0) {
			*(bool *)field(o, cfg) = true;
			return 0;
		}
		if (strcasecmp(text, no[i]) == 0) {
			*(bool *)field(o, cfg) = false;
			return 0;
		}
	}
	return bad_value(o, text, "yes or no");
}

static int set_number(const struct opt *o, void *cfg, const char *text)
{
	uint64_t v;
	bool size = o->type == OPT_SIZE;

	if (size ? !util_parse_size(text, o->unit ? o->unit : 1, &v)
		 : !util_parse_u64(text, &v))
		return bad_value(o, text,
				 size ? "a size (examples: 512k, 64m, 2g)"
				      : "a whole number");
	if (v < o->min || (o->max && v > o->max)) {
		char low[24], high[24];

		if (size) {
			util_format_size(o->min, low, sizeof(low));
			util_format_size(o->max, high, sizeof(high));
		} else {
			snprintf(low, sizeof(low), "%" PRIu64, o->min);
			snprintf(high, sizeof(high), "%" PRIu64, o->max);
		}
		return o->max ? err_set(FARKV_EINVAL,
					"%s: %s is not within %s and %s",
					o->name, text, low, high)
			      : err_set(FARKV_EINVAL,
					"%s: %s is less than %s", o->name, text,
					low);
	}
	*(uint64_t *)field(o, cfg) = v;
	return 0;
}

/* Count one more on the command line; a file gives the number itself. */
static int set_count(const struct opt *o, void *cfg, const char *text)
{
	unsigned *count = field(o, cfg);
	uint64_t v;

	if (!text) {
		++*count;
		return 0;
	}
	if (!util_parse_u64(text, &v) || v > 9)
		return bad_value(o, text, "a number from 0 to 9");
	*count = (unsigned)v;
	return 0;
}

static int set_mode(const struct opt *o, void *cfg, const char *text)
{
	unsigned v = 0;

	if (!*text || strlen(text) > 4)
		return bad_value(o, text, "an octal file mode like 0660");
	for (const char *p = text; *p; p++) {
		if (*p < '0' || *p > '7')
			return bad_value(o, text,
					 "an octal file mode like 0660");
		v = v * 8 + (unsigned)(*p - '0');
	}
	if (v > 0777)
		return bad_value(o, text, "an octal file mode like 0660");
	*(unsigned *)field(o, cfg) = v;
	return 0;
}

static int set_enum(const struct opt *o, void *cfg, const char *text)
{
	char want[160] = "one of:";

	for (int i = 0; o->choices[i]; i++)
		if (strcmp(o->choices[i], text) == 0) {
			*(int *)field(o, cfg) = i;
			return 0;
		}
	for (int i = 0; o->choices[i]; i++) {
		size_t at = strlen(want);

		snprintf(want + at, sizeof(want) - at, " %s", o->choices[i]);
	}
	return bad_value(o, text, want);
}

static int set_list(const struct opt *o, void *cfg, const char *text)
{
	struct opt_list *l = field(o, cfg);
	const char **v = realloc(l->v, (l->n + 1) * sizeof(*v));

	if (!v)
		return err_set(FARKV_ENOMEM, "%s: out of memory", o->name);
	l->v = v;
	l->v[l->n] = strdup(text);
	if (!l->v[l->n])
		return err_set(FARKV_ENOMEM, "%s: out of memory", o->name);
	l->n++;
	return 0;
}

static int set_string(const struct opt *o, void *cfg, const char *text)
{
	char **s = field(o, cfg);
	char *copy;

	if ((o->flags & OPT_PATH) && !*text)
		return bad_value(o, text, "a path");
	copy = strdup(text);
	if (!copy)
		return err_set(FARKV_ENOMEM, "%s: out of memory", o->name);
	free(*s);
	*s = copy;
	return 0;
}

/* Set an option; `text` is NULL for a bare flag on the command line. */
static int opt_set(const struct opt *o, void *cfg, const char *text)
{
	if (!text && takes_arg(o))
		text = o->implied ? o->implied : "";
	switch (o->type) {
	case OPT_BOOL:
		return set_bool(o, cfg, text ? text : "yes");
	case OPT_COUNT:
		return set_count(o, cfg, text);
	case OPT_SIZE:
	case OPT_U64:
		return set_number(o, cfg, text);
	case OPT_MODE:
		return set_mode(o, cfg, text);
	case OPT_ENUM:
		return set_enum(o, cfg, text);
	case OPT_LIST:
		return set_list(o, cfg, text);
	default:
		return set_string(o, cfg, text);
	}
}

void opts_defaults(const struct opts_spec *s, void *cfg)
{
	for (size_t i = 0; i < s->n_opts; i++)
		if (s->opts[i].deflt)
			(void)opt_set(&s->opts[i], cfg, s->opts[i].deflt);
}

void opts_free(const struct opts_spec *s, void *cfg)
{
	for (size_t i = 0; i < s->n_opts; i++) {
		const struct opt *o = &s->opts[i];

		if (o->type == OPT_STR) {
			char **p = field(o, cfg);

			free(*p);
			*p = NULL;
		} else if (o->type == OPT_LIST) {
			struct opt_list *l = field(o, cfg);

			for (size_t k = 0; k < l->n; k++)
				free((char *)(uintptr_t)l->v[k]);
			free(l->v);
			*l = (struct opt_list){0};
		}
	}
}

/* ---- changes ------------------------------------------------------------------------ */

static size_t field_bytes(const struct opt *o)
{
	switch (o->type) {
	case OPT_BOOL:
		return sizeof(bool);
	case OPT_COUNT:
	case OPT_MODE:
		return sizeof(unsigned);
	case OPT_ENUM:
		return sizeof(int);
	case OPT_SIZE:
	case OPT_U64:
		return sizeof(uint64_t);
	case OPT_LIST:
		return sizeof(struct opt_list);
	default:
		return sizeof(char *);
	}
}

static bool differs(const struct opt *o, void *a, void *b)
{
	const char *x, *y;

	if (o->type == OPT_LIST)
		return false;
	if (o->type != OPT_STR)
		return memcmp(field(o, a), field(o, b), field_bytes(o)) != 0;
	x = *(char **)field(o, a);
	y = *(char **)field(o, b);
	return x && y ? strcmp(x, y) != 0 : x != y;
}

void opts_reload(const struct opts_spec *s, void *cfg, void *now, struct opts_changes *out)
{
	*out = (struct opts_changes){0};
	for (size_t i = 0; i < s->n_opts; i++) {
		const struct opt *o = &s->opts[i];
		char *list = o->flags & OPT_RELOAD ? out->taken : out->left;
		size_t at = strlen(list), bytes = field_bytes(o);
		uint8_t other[sizeof(struct opt_list)];

		if (!differs(o, cfg, now))
			continue;
		snprintf(list + at, sizeof(out->left) - at, " %s", o->name);
		if (!(o->flags & OPT_RELOAD))
			continue;
		/* Each string has one owner, which frees it: swap. */
		memcpy(other, field(o, cfg), bytes);
		memcpy(field(o, cfg), field(o, now), bytes);
		memcpy(field(o, now), other, bytes);
	}
}

/* ---- command line -------------------------------------------------------------- */

struct getopt_tables {
	struct option longs[OPTS_MAX + 1];
	char shorts[3 * OPTS_MAX + 4];
};

static void getopt_build(const struct opts_spec *s, struct getopt_tables *t)
{
	char *p = t->shorts;

	if (s->stop_at_operand)
		*p++ = '+';
	*p++ = ':'; /* distinguish a missing argument from an unknown option */
	for (size_t i = 0; i < s->n_opts && i < OPTS_MAX; i++) {
		const struct opt *o = &s->opts[i];
		int arg = !takes_arg(o)                    ? no_argument
			  : (o->flags & OPT_OPTIONAL_ARG) ? optional_argument
							  : required_argument;

		t->longs[i] = (struct option){.name = o->name,
					      .has_arg = arg,
					      .val = OPT_VALUE_BASE + (int)i};
		if (o->letter) {
			*p++ = o->letter;
			if (arg != no_argument)
				*p++ = ':';
			if (arg == optional_argument)
				*p++ = ':';
		}
	}
	*p = '\0';
}

static const struct opt *find_opt(const struct opts_spec *s, int c)
{
	if (c >= OPT_VALUE_BASE)
		return &s->opts[c - OPT_VALUE_BASE];
	for (size_t i = 0; i < s->n_opts; i++)
		if (s->opts[i].letter && s->opts[i].letter == c)
			return &s->opts[i];
	return NULL;
}

/* ": did you mean PREFIX NAME" for an unknown long option with a near name; otherwise "". */
static const char *did_you_mean(const struct opts_spec *s, const char *name,
				const char *prefix, char buf[80])
{
	char word[64];
	struct nearest n = {.word = word};

	snprintf(word, sizeof(word), "%.*s", (int)strcspn(name, "="), name);
	for (size_t i = 0; i < s->n_opts; i++)
		if (!(s->opts[i].flags & OPT_HIDDEN))
			nearest_offer(&n, s->opts[i].name);
	buf[0] = '\0';
	if (n.name)
		snprintf(buf, 80, ": did you mean %s%s", prefix, n.name);
	return buf;
}

/* A letter is in optopt; a long option is argv[optind - 1]. */
static int usage_error(const struct opts_spec *s, int c, char **argv)
{
	char letter[3] = {'-', (char)optopt, '\0'};
	char meant[80];
	const char *word = optopt > 0 && optopt < OPT_VALUE_BASE
				   ? letter
				   : argv[optind - 1];

	if (c == ':')
		return err_set(FARKV_EINVAL,
			       "missing argument of option %s; see %s --help",
			       word, s->program);
	return err_set(FARKV_EINVAL,
		       "unknown or ambiguous option %s%s; see %s --help", word,
		       did_you_mean(s, word + strspn(word, "-"), "--", meant),
		       s->program);
}

int opts_parse_argv(const struct opts_spec *s, void *cfg, int argc, char **argv,
		    int *first_out)
{
	struct getopt_tables t = {0};
	int c;

	getopt_build(s, &t);
	optind = 0; /* start a new scan, also for '+' */
	opterr = 0;
	for (;;) {
		const struct opt *o;
		int err;

		c = s->single_dash
			    ? getopt_long_only(argc, argv, t.shorts, t.longs,
					       NULL)
			    : getopt_long(argc, argv, t.shorts, t.longs, NULL);
		if (c == -1)
			break;
		o = find_opt(s, c);
		if (c == '?' || c == ':' || !o)
			return usage_error(s, c, argv);
		err = opt_set(o, cfg, optarg);
		if (err) {
			char why[400];

			snprintf(why, sizeof(why), "%s", err_detail());
			return err_set(err, "option --%s; see %s --help", why,
				       s->program);
		}
	}
	*first_out = optind;
	return 0;
}

/* ---- configuration file ----------------------------------------------------------- */

struct file_scan {
	const struct opts_spec *spec;
	void *cfg;
	const char *path;
	FILE *in;
	int line; /* number of the line read last; inih asks line by line */
	int err;
	int set_in[OPTS_MAX]; /* line of each option, or 0 */
};

/* Words that are no comment, option or section. */
static bool is_stray(const char *line)
{
	size_t n = strcspn(line, "\r\n");

	if (n == 0 || line[0] == '#' || line[0] == ';')
		return false;
	return !memchr(line, '=', n) && !memchr(line, ':', n) &&
	       !(line[0] == '[' && memchr(line, ']', n));
}

/* fgets() with the length, since there may be NUL bytes. False at the end. */
static bool read_bytes(struct file_scan *f, char *buf, size_t cap,
		       size_t *len_out)
{
	size_t n = 0;
	int c = 0;

	while (n < cap - 1 && c != '\n' && (c = getc(f->in)) != EOF)
		buf[n++] = (char)c;
	buf[n] = '\0';
	*len_out = n;
	return n > 0;
}

/* A line without leading blanks, which inih would take for a continuation. */
static char *read_line(char *buf, int cap, void *user)
{
	struct file_scan *f = user;
	size_t blanks, len = 0;

	if (f->err || !read_bytes(f, buf, (size_t)cap, &len))
		return NULL;
	f->line++;
	if (f->line == 1)
		f->err = textfile_check(f->path, buf, len, NULL);
	if (!f->err && memchr(buf, 0, len))
		f->err = err_set(FARKV_EINVAL,
				 "%s:%d: a NUL byte: this is not a text file",
				 f->path, f->line);
	if (!f->err && !strchr(buf, '\n') && !feof(f->in))
		f->err = err_set(FARKV_EINVAL,
				 "%s:%d: line is longer than %d bytes", f->path,
				 f->line, cap - 2);
	if (f->err)
		return NULL;
	if (f->line == 1 && textfile_mark(buf, len))
		memmove(buf, buf + 3, len - 3 + 1);
	blanks = strspn(buf, " \t");
	memmove(buf, buf + blanks, strlen(buf + blanks) + 1);
	if (is_stray(buf)) {
		f->err = err_set(FARKV_EINVAL,
				 "%s:%d: neither [section] nor name = value",
				 f->path, f->line);
		return NULL;
	}
	return buf;
}

/* Set option `i` to the value of the line read last. */
static int set_from_file(struct file_scan *f, size_t i, const char *value)
{
	const struct opt *o = &f->spec->opts[i];
	char why[400];
	int err;

	/* Otherwise one of the two values would be lost silently. */
	if (f->set_in[i] && o->type != OPT_LIST)
		return err_set(FARKV_EINVAL,
			       "%s:%d: %s: line %d has this option already",
			       f->path, f->line, o->name, f->set_in[i]);
	f->set_in[i] = f->line;
	err = opt_set(o, f->cfg, value);
	if (!err)
		return 0;
	snprintf(why, sizeof(why), "%s", err_detail());
	return err_set(err, "%s:%d: %s", f->path, f->line, why);
}

static int on_ini_key(void *user, const char *section, const char *name,
		      const char *value)
{
	struct file_scan *f = user;
	char meant[80];
	int line = f->line;
	const struct opts_spec *s = f->spec;

	if (f->err)
		return 0;
	if (strcmp(section, s->section) != 0) {
		f->err = err_set(FARKV_EINVAL,
				 "%s:%d: section [%s] is unknown here, options "
				 "of %s belong in [%s]",
				 f->path, line, section, s->program,
				 s->section);
		return 0;
	}
	for (size_t i = 0; i < s->n_opts && i < OPTS_MAX; i++) {
		const struct opt *o = &s->opts[i];

		if (strcmp(o->name, name) != 0 || (o->flags & OPT_NO_FILE))
			continue;
		f->err = set_from_file(f, i, value ? value : "");
		return f->err == 0;
	}
	f->err = err_set(FARKV_EINVAL, "%s:%d: unknown option '%s'%s", f->path,
			 line, name, did_you_mean(s, name, "", meant));
	return 0;
}

int opts_parse_file(const struct opts_spec *s, void *cfg, const char *path)
{
	struct file_scan f = {.spec = s, .cfg = cfg, .path = path};
	struct stat st;
	int line;

	f.in = fopen(path, "re");
	if (!f.in)
		return err_set_errno(FARKV_ESYS, errno, "cannot open %s", path);
	if (fstat(fileno(f.in), &st) == 0 && S_ISDIR(st.st_mode)) {
		fclose(f.in);
		return err_set(FARKV_ESYS, "cannot read %s: it is a directory",
			       path);
	}
	line = ini_parse_stream(read_line, &f, on_ini_key, &f);
	fclose(f.in);
	if (f.err)
		return f.err;
	if (line > 0)
		return err_set(FARKV_EINVAL,
			       "%s:%d: neither [section] nor name = value",
			       path, line);
	return line < 0 ? err_set(FARKV_ESYS, "cannot read %s", path) : 0;
}

/* ---- texts -------------------------------------------------------------------------- */

static const char *help_word(const struct opt *o, char *buf, size_t cap)
{
	char letter[8] = "    ";
	const char *open = "", *close = "";

	if (o->letter)
		snprintf(letter, sizeof(letter), "-%c, ", o->letter);
	if (o->flags & OPT_OPTIONAL_ARG) {
		open = "[";
		close = "]";
	}
	if (o->metavar)
		snprintf(buf, cap, "%s--%s%s=%s%s", letter, o->name, open,
			 o->metavar, close);
	else
		snprintf(buf, cap, "%s--%s", letter, o->name);
	return buf;
}

/* Print words from column `left` on, wrapped at 79. */
static void print_wrapped(FILE *out, const char *text, int left)
{
	int at = left;

	while (*text) {
		int len = (int)strcspn(text, " ");

		if (at > left && at + 1 + len > 79) {
			fprintf(out, "\n%*s", left, "");
			at = left;
		} else if (at > left) {
			fputc(' ', out);
			at++;
		}
		fprintf(out, "%.*s", len, text);
		at += len;
		text += len;
		while (*text == ' ')
			text++;
	}
	fputc('\n', out);
}

#define HELP_COLUMN 30

void opts_print_help(const struct opts_spec *s, FILE *out)
{
	fprintf(out, "Usage: %s %s\n%s\n\nOptions:\n", s->program, s->usage,
		s->summary);
	for (size_t i = 0; i < s->n_opts; i++) {
		const struct opt *o = &s->opts[i];
		char word[80], text[512];
		int at;

		if (o->flags & OPT_HIDDEN)
			continue;
		snprintf(text, sizeof(text), o->deflt ? "%s [%s]" : "%s",
			 o->help, o->deflt);
		at = fprintf(out, "  %s", help_word(o, word, sizeof(word)));
		if (at > HELP_COLUMN - 2) {
			fputc('\n', out);
			at = 0;
		}
		fprintf(out, "%*s", HELP_COLUMN - at, "");
		print_wrapped(out, text, HELP_COLUMN);
	}
	if (s->epilog)
		fprintf(out, "\n%s\n", s->epilog);
}

/* Escape for man(7): backslashes, and dashes that users copy. */
static void man_text(FILE *out, const char *text)
{
	for (const char *p = text; *p; p++) {
		if (*p == '\\')
			fputs("\\e", out);
		else if (*p == '-')
			fputs("\\-", out);
		else if (p == text && (*p == '.' || *p == '\''))
			fprintf(out, "\\&%c", *p);
		else
			fputc(*p, out);
	}
}

void opts_print_man(const struct opts_spec *s, FILE *out)
{
	for (size_t i = 0; i < s->n_opts; i++) {
		const struct opt *o = &s->opts[i];
		bool optional = o->flags & OPT_OPTIONAL_ARG;

		if (o->flags & OPT_HIDDEN)
			continue;
		fputs(".TP\n", out);
		if (o->letter)
			fprintf(out, "\\fB\\-%c\\fR, ", o->letter);
		fputs("\\fB\\-\\-", out);
		man_text(out, o->name);
		fputs("\\fR", out);
		if (o->metavar)
			fprintf(out, "%s=\\fI%s\\fR%s", optional ? "[" : "",
				o->metavar, optional ? "]" : "");
		fputc('\n', out);
		man_text(out, o->help);
		if (o->deflt) {
			fputs("\nDefault: ", out);
			man_text(out, o->deflt);
			fputc('.', out);
		}
		fputc('\n', out);
	}
}
