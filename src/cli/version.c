/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

#include "base/alloc.h"
#include "cli/cli.h"
#include "wire/json/json.h"
#include "wire/library.h"

/*
 * The Makefile defines these macros for this file only, so that a commit does not rebuild the other
 * files.
 */
#ifndef UNIRAIL_VERSION
#define UNIRAIL_VERSION "0.0.0-unknown"
#endif
#ifndef UNIRAIL_COMMIT
#define UNIRAIL_COMMIT "unknown"
#endif

struct library {
	const char *name, *version, *licence;
};

static const struct library libraries[] = {
#if __has_include("vendor_versions.h")
#include "vendor_versions.h"
#endif
	{NULL, NULL, NULL},
};

struct version_opts {
	const char *output;
};

static const struct opt opts[] = {
	{"output", 'o', OPT_CHOICE, "text|json", "output format",
	 offsetof(struct version_opts, output), 0, 0},
	{0},
};

const struct cmd version_cmds[] = {
	{NULL, NULL, "version, applets and libraries of this binary", opts, 0, 0},
	{0},
};

const char *unirail_version(void)
{
	return UNIRAIL_VERSION;
}

/* Writes name and version of the libc: "musl 1.2.5", "glibc 2.36". */
static void libc_name(char *ret, size_t size)
{
#ifdef __GLIBC__
	snprintf(ret, size, "glibc %s", gnu_get_libc_version());
#else
	const char *version = "";

	/*
	 * musl has neither a function nor a macro for its version: vendor_versions.h lists the
	 * version.
	 */
	for (const struct library *l = libraries; l->name; l++)
		if (strcmp(l->name, "musl") == 0)
			version = l->version;
	snprintf(ret, size, "musl %s", version);
#endif
}

/* Returns the version in the library's headers at compile time; NULL: it is unknown, or equals
 * the version in vendor_versions.h. */
static const char *other_version(const struct library *l)
{
	const char *runs = wire_library_version(l->name);

	return runs && strcmp(runs, l->version) != 0 ? runs : NULL;
}

static void print_text(struct buf *b)
{
	char libc[64], line[32];

	libc_name(libc, sizeof(libc));
	buf_printf(b, "unirail %s\ncommit    %s\ncompiler  gcc %s\nlibc      %s\n", UNIRAIL_VERSION,
		   UNIRAIL_COMMIT, __VERSION__, libc);
	buf_str(b, "applets   ");
	for (const struct applet *a = applets; a->name; a++)
		if (!(a->flags & APPLET_HIDDEN))
			buf_printf(b, "%s%s", a == applets ? "" : " ", a->name);
	buf_str(b, "\nlibraries\n");
	for (const struct library *l = libraries; l->name; l++) {
		const char *other = other_version(l);

		snprintf(line, sizeof(line), "%s", l->name);
		buf_printf(b, "  %-16s%-12s%s", line, l->version, l->licence);
		if (other)
			buf_printf(b, " (reports %s)", other);
		buf_char(b, '\n');
	}
}

static void json_applets(struct json_out *o)
{
	jo_key(o, "applets");
	jo_arr(o);
	for (const struct applet *a = applets; a->name; a++)
		if (!(a->flags & APPLET_HIDDEN))
			jo_str(o, a->name);
	jo_end_arr(o);
}

static void json_libraries(struct json_out *o)
{
	jo_key(o, "libraries");
	jo_arr(o);
	for (const struct library *l = libraries; l->name; l++) {
		const char *other = other_version(l);

		jo_obj(o);
		jo_kstr(o, "name", l->name);
		jo_kstr(o, "version", l->version);
		jo_kstr(o, "licence", l->licence);
		if (other)
			jo_kstr(o, "runningVersion", other);
		jo_end_obj(o);
	}
	jo_end_arr(o);
}

static void print_json(struct buf *b)
{
	struct json_out o;
	char libc[64];

	libc_name(libc, sizeof(libc));
	jo_init(&o, b, 4);
	jo_obj(&o);
	jo_kstr(&o, "version", UNIRAIL_VERSION);
	jo_kstr(&o, "commit", UNIRAIL_COMMIT);
	jo_kstr(&o, "compiler", "gcc " __VERSION__);
	jo_kstr(&o, "libc", libc);
	json_applets(&o);
	json_libraries(&o);
	jo_end_obj(&o);
	buf_char(b, '\n');
}

int version_main(int argc, char **argv)
{
	struct version_opts o = {.output = "text"};
	struct err e = ERR_INIT;
	auto_buf struct buf b;
	int r = opt_parse(version_cmds, "unirail version", argc - 1, argv + 1, &o, &e);

	buf_init(&b, HELP_MAX);
	if (r < 0)
		return opt_exit("unirail version", r, &e);
	if (strcmp(o.output, "json") == 0)
		print_json(&b);
	else
		print_text(&b);
	return opt_print(&b);
}
