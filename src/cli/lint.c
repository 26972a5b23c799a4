/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "cli/cli.h"
#include "cli/manifests.h"
#include "cli/manifests/embedded.h"
#include "doctor/lint.h"
#include "wire/json/json.h"

/* `unirail lint`: options and printing. */

enum { OUT_MAX = 64 << 20 };

struct lint_opts {
	const char *ns, *own_ns, *output;
};

#define AT(field) offsetof(struct lint_opts, field), 0, 0
static const struct opt opts[] = {{"namespace", 'n', OPT_STR, "NS",
				   "namespace of objects whose manifest names none "
				   "(default: 'default')",
				   AT(ns)},
				  {"unirail-namespace", 0, OPT_STR, "NS",
				   "unirail's own namespace (kube-system)", AT(own_ns)},
				  {"output", 'o', OPT_CHOICE, "text|json", "output format",
				   AT(output)},
				  {0}};

const struct cmd lint_cmds[] = {
	{NULL, "FILE...", "validate manifests against each other, without a cluster", opts, 1, -1},
	{0}};

int manifests_read(struct objects *l, const char *file, const char *ns, struct err *e)
{
	auto_fd int fd = strcmp(file, "-") ? open(file, O_RDONLY | O_CLOEXEC) : dup(STDIN_FILENO);
	auto_buf struct buf b = {0};
	int r;

	if (fd < 0)
		return err_sys(e, -errno, "open '%s'", file);
	buf_init(&b, OBJECTS_TEXT_MAX);
	r = fd_read_all(fd, OBJECTS_TEXT_MAX, &b, e);
	if (r < 0)
		return err_wrap(e, r, "read '%s'", file);
	return objects_read(l, file, ns, buf_span(&b), e);
}

/* Reads the CustomResourceDefinitions of this version, which are packed into the binary. */
static int read_definitions(struct objects *l, struct err *e)
{
	auto_embedded struct embedded d;
	int r = 0;

	embedded_open(&d);
	for (const char *name = embedded_next(&d, NULL); name && r >= 0;
	     name = embedded_next(&d, name))
		if (strncmp(name, "crds/", 5) == 0)
			r = objects_read(l, name, "", span_of(embedded_text(&d, name)), e);
	return r;
}

static void put_text(const struct lint *l, struct buf *b)
{
	for (size_t i = 0; i < l->n; i++) {
		const struct lint_finding *f = &l->v[i];

		buf_printf(b, "%s: %s: %s: %s%s%s\n", f->origin,
			   f->level == LINT_ERROR ? "error" : "warning", f->object, f->field,
			   *f->field ? ": " : "", f->text);
	}
	buf_printf(b, "%zu objects: %zu errors, %zu warnings\n", l->in->n,
		   lint_count(l, LINT_ERROR), lint_count(l, LINT_WARNING));
}

static void put_json(const struct lint *l, struct buf *b)
{
	struct json_out o;

	jo_init(&o, b, 4);
	jo_obj(&o);
	jo_kbool(&o, "ok", !lint_count(l, LINT_ERROR));
	jo_kint(&o, "objects", (int64_t)l->in->n);
	jo_key(&o, "findings");
	jo_arr(&o);
	for (size_t i = 0; i < l->n; i++) {
		jo_obj(&o);
		jo_kstr(&o, "level", l->v[i].level == LINT_ERROR ? "error" : "warning");
		jo_kstr(&o, "origin", l->v[i].origin);
		jo_kstr(&o, "object", l->v[i].object);
		jo_kstr(&o, "field", l->v[i].field);
		jo_kstr(&o, "text", l->v[i].text);
		jo_end_obj(&o);
	}
	jo_end_arr(&o);
	jo_end_obj(&o);
	buf_char(b, '\n');
}

int lint_main(int argc, char **argv)
{
	struct lint_opts o = {.ns = "default", .own_ns = "kube-system", .output = "text"};
	auto_objects struct objects in = {0}, crds = {0};
	struct lint l = {.in = &in, .crds = &crds};
	auto_buf struct buf b;
	struct err e = ERR_INIT;
	int at = opt_parse(lint_cmds, "unirail lint", argc - 1, argv + 1, &o, &e), r;

	buf_init(&b, OUT_MAX);
	if (at < 0)
		return opt_exit("unirail lint", at, &e);
	for (int i = 1 + at; i < argc; i++)
		if (manifests_read(&in, argv[i], o.ns, &e) < 0) {
			fprintf(stderr, "unirail lint: %s\n", e.text);
			return 1;
		}
	if (read_definitions(&crds, &e) < 0) {
		fprintf(stderr, "unirail lint: %s\n", e.text);
		return 1;
	}
	objects_sort(&in);
	l.own_ns = o.own_ns;
	lint_run(&l);
	if (strcmp(o.output, "json"))
		put_text(&l, &b);
	else
		put_json(&l, &b);
	r = opt_print(&b);
	if (r == 0)
		r = lint_count(&l, LINT_ERROR) ? 1 : 0;
	lint_done(&l);
	return r;
}
