/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * opts.h - one table per program drives getopt_long(3), the configuration file,
 * --help and the OPTIONS part of the man page.
 */
#ifndef COMMON_BASE_OPTS_H
#define COMMON_BASE_OPTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum opt_type {
	OPT_BOOL,  /* bool: set by presence; in files yes/no/true/false/1/0 */
	OPT_COUNT, /* unsigned: +1 each time (-v -v) */
	OPT_SIZE,  /* uint64_t: human size, a bare number counts in `unit` bytes */
	OPT_U64,   /* uint64_t: decimal number */
	OPT_MODE,  /* unsigned: octal file mode */
	OPT_STR,   /* const char *: points into argv, or duplicated (file) */
	OPT_LIST,  /* struct opt_list: may be given several times */
	OPT_ENUM,  /* int: index into `choices` */
};

/** Values of an OPT_LIST in the order given. */
struct opt_list {
	const char **v;
	size_t n;
};

struct opt {
	const char *name;    /* long name without dashes */
	char letter;         /* short name or 0 */
	enum opt_type type;
	size_t offset;       /* of the field in the program's config struct */
	const char *metavar; /* "SIZE"; NULL for OPT_BOOL and OPT_COUNT */
	const char *deflt;   /* text of the default, applied by opts_defaults() */
	const char *help;    /* one sentence, no line breaks */
	uint64_t min, max;   /* OPT_SIZE, OPT_U64: inclusive; max 0: no bound */
	uint64_t unit;       /* OPT_SIZE: bytes of a bare number; 0 means 1 */
	const char *const *choices; /* OPT_ENUM: NULL-terminated */
	unsigned flags;      /* enum opt_flags */
	const char *implied; /* OPT_OPTIONAL_ARG: the argument if none is given */
};

enum opt_flags {
	OPT_NO_FILE = 1u << 0, /* command line only */
	OPT_HIDDEN = 1u << 1,  /* not in --help or the man page */
	OPT_OPTIONAL_ARG = 1u << 2, /* --name[=ARG]; `implied` if absent */
	OPT_PATH = 1u << 3, /* OPT_STR: may not be empty */
	OPT_RELOAD = 1u << 4, /* may change while the program runs: opts_reload() */
};

struct opts_spec {
	const char *program;  /* "kvserver" */
	const char *usage;    /* "[OPTION]..." */
	const char *summary;  /* one line under the usage */
	const char *epilog;   /* text after the options, or NULL */
	const char *section;  /* section of the configuration file: "kvserver" */
	const struct opt *opts;
	size_t n_opts;
	bool single_dash;     /* one dash is allowed, too: -threads 4 */
	bool stop_at_operand; /* "+" of getopt: options end at the first operand */
};

/** Apply every `deflt` to a zeroed struct. */
void opts_defaults(const struct opts_spec *s, void *cfg);

/**
 * Parse argv over the values already set. *first_out is the index of the first operand.
 * Returns 0, or FARKV_EINVAL with a detail that names the option, the error and the allowed
 * values.
 */
int opts_parse_argv(const struct opts_spec *s, void *cfg, int argc, char **argv,
		    int *first_out);

/**
 * Read an ini file: keys of [section] are long option names, each at most once except an
 * OPT_LIST. Errors name file and line: "kvserver.conf:12: memory: ...". FARKV_EINVAL or
 * FARKV_ESYS.
 */
int opts_parse_file(const struct opts_spec *s, void *cfg, const char *path);

/** Names of options, each after a blank; "" if there are none. A longer list is cut. */
struct opts_changes {
	char taken[256], left[256];
};

/**
 * Copy to `cfg` the options that differ in `now` and have OPT_RELOAD, and list their names in
 * `taken`; list those that differ without OPT_RELOAD in `left`. Both structs stay the caller's.
 */
void opts_reload(const struct opts_spec *s, void *cfg, void *now, struct opts_changes *out);

/** Free what the parsers allocated. */
void opts_free(const struct opts_spec *s, void *cfg);

void opts_print_help(const struct opts_spec *s, FILE *out);
/** Print the OPTIONS items in man(7) macros, which the build inserts into the page. */
void opts_print_man(const struct opts_spec *s, FILE *out);

#endif
