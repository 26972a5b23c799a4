/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BASE_INI_H
#define UNIRAIL_BASE_INI_H

/*
 * Reads files of `key = value` lines in sections. Comments: lines that begin with '#' or ';', and
 * the rest of a line from a ';' after a blank.
 *
 *	[pool rail0]
 *	ips = 10.1.0.0/24
 *
 * inih splits each line into key and value. ini_read() itself parses section headers and counts
 * lines, since inih truncates the names of sections and does not report sections without keys.
 */

#include "base/err.h"
#include "base/num.h"

enum { INI_LINE_MAX = 1020 };

/* A position in the file. */
struct ini_at {
	const char *file; /* as given, for messages */
	int line;
	const char *section; /* the text in brackets, trimmed; "": before the first section */
};

/*
 * Each callback returns 0; or -errno with e set, to which ini_read() adds the prefix "FILE:LINE: ";
 * or a positive number, which ends ini_read() without an error.
 */
struct ini_ops {
	int (*section)(void *arg, const struct ini_at *at, struct err *e); /* may be NULL */
	int (*pair)(void *arg, const struct ini_at *at, const char *key, const char *value,
		    struct err *e);
};

/*
 * Calls ops for each section and each pair of the text, in order, until a callback does not return
 * 0; returns the result of the last callback. -EINVAL: a line that is not blank is none of `key =
 * value`, `key: value`, a section header and a comment; or begins with '[' but has no ']'; or is
 * longer than INI_LINE_MAX bytes; or has a NUL byte.
 */
int ini_read(struct span text, const char *file, const struct ini_ops *ops, void *arg,
	     struct err *e);

/* Sets e to "key 'mtuu' is not known in this section; did you mean 'mtu'?" and returns -EINVAL.
 * names: the known keys. */
int ini_unknown_key(const char *key, const char *const *names, size_t n, struct err *e);

#endif
