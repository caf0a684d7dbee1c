/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * props.h - properties by name: YCSB's property files (the format of java.util.Properties),
 * -p key=value, and a table that converts them to a struct. Errors are one line with the
 * place of the property.
 */
#ifndef BENCH_BASE_PROPS_H
#define BENCH_BASE_PROPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Longest property file; a larger file is taken for something else. */
#define PROPS_FILE_MAX (1u << 20)

struct prop {
	char *key;
	char *value;
	char *where; /* "workloada:12" or "-p": for messages */
	bool in_file; /* set by a property file */
	bool used;   /* known to some table */
};

/** Zeroed initially; the later of two settings wins. One thread. */
struct props {
	struct prop *v;
	size_t n;
};

void props_free(struct props *p);

/**
 * Read a property file over the existing ones. '#' and '!' start comment lines; a key ends
 * at '=', ':' or blank; a backslash escapes (\t \n \r \f \uXXXX) and joins lines.
 * FARKV_ESYS, FARKV_ENOMEM, FARKV_EINVAL; the detail names file and line. Properties before
 * an error stay.
 */
int props_load(struct props *p, const char *path);

/** Set one; key, value and where are copied. FARKV_ENOMEM. */
int props_set(struct props *p, const char *key, const char *value,
	      const char *where);

/** Set by "key=value". FARKV_EINVAL without '=' or key; FARKV_ENOMEM. */
int props_set_arg(struct props *p, const char *arg);

/** The property, or NULL. */
const struct prop *props_find(const struct props *p, const char *key);

enum prop_type {
	PROP_BOOL,   /* bool: true or false */
	PROP_U64,    /* uint64_t, min..max */
	PROP_DOUBLE, /* double, min..max */
	PROP_STR,    /* const char *: belongs to the props */
	PROP_ENUM,   /* int: index into `choices` */
};

struct prop_spec {
	const char *name;
	enum prop_type type;
	size_t offset;     /* of the field in the caller's struct */
	const char *deflt; /* NULL: keep the field */
	double min, max;   /* PROP_U64 and PROP_DOUBLE: max 0 = no bound */
	const char *const *choices; /* PROP_ENUM: NULL-terminated */
};

/**
 * Fill the struct at `out` from the properties or the defaults, and mark those in `specs`
 * as used. FARKV_EINVAL with a detail like "workloada:12: readproportion: 'half' is not a
 * number".
 */
int props_read(struct props *p, const struct prop_spec *specs, size_t n,
	       void *out);

/**
 * FARKV_EINVAL with the detail "<where>: <name>: <text>", or "<name>: <text>" if the
 * property is not set: for checks that only the caller can make.
 */
int props_error(const struct props *p, const char *name, const char *text);

#endif
