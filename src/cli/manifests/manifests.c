/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/manifests/manifests.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "cli/manifests/embedded.h"
#include "cli/manifests/render.h"
#include "cli/manifests/values.h"
#include "wire/yaml/yaml.h"

struct manifests_opts {
	struct opt_strs set, files;
	const char *ns;
};

static const struct opt opts[] = {
	{"values", 'f', OPT_STRS, "FILE",
	 "values file of the Helm chart (-: standard input); may be given several times, a later "
	 "one has precedence",
	 offsetof(struct manifests_opts, files), 0, 0},
	{"set", 0, OPT_STRS, "PATH=VALUE[,...]",
	 "values, with precedence over files: ipam.enableIPv6=false, or PATH={a,b} for a list; may "
	 "be given several times",
	 offsetof(struct manifests_opts, set), 0, 0},
	{"namespace", 'n', OPT_STR, "NAME", "namespace of the objects (default: unirail)",
	 offsetof(struct manifests_opts, ns), 0, 0},
	{0},
};

const struct cmd manifests_cmds[] = {
	{NULL, NULL, "print unirail's manifests, rendered with values of the Helm chart", opts, 0,
	 0},
	{0},
};

static int add_file(struct json_tree *values, const char *path, struct err *e)
{
	bool standard_input = strcmp(path, "-") == 0;
	auto_fd int fd = standard_input ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
	auto_buf struct buf text;
	int r;

	buf_init(&text, VALUES_MAX + 1);
	if (fd < 0)
		return err_sys(e, -errno, "open '%s'", path);
	r = fd_read_all(fd, VALUES_MAX, &text, e);
	if (r < 0)
		return err_wrap(e, r, "values file '%s'", path);
	return values_add_yaml(values, buf_span(&text), standard_input ? "standard input" : path,
			       e);
}

int manifests_values(const struct opt_strs *files, const struct opt_strs *set,
		     struct json_tree *values, struct err *e)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < files->n; i++)
		r = add_file(values, files->v[i], e);
	for (size_t i = 0; r == 0 && i < set->n; i++)
		r = values_add_set(values, set->v[i], e);
	return r;
}

int manifests_check_namespace(const char *ns, struct err *e)
{
	size_t n = strlen(ns);

	if (n && n < 64 && strspn(ns, "abcdefghijklmnopqrstuvwxyz0123456789-") == n &&
	    ns[0] != '-' && ns[n - 1] != '-')
		return 0;
	return err_set(e, -EINVAL,
		       "namespace '%s': expected 1 to 63 lower-case letters, digits and '-', "
		       "with no '-' at either end",
		       ns);
}

int manifests_render(const struct json_tree *tree, const char *ns, struct buf *out,
		     struct buf *remarks, struct err *e)
{
	auto_embedded struct embedded files = {0};
	auto_json struct json_doc *rules = NULL, *values = NULL;
	auto_buf struct buf text;
	struct json_out o;
	int r;

	buf_init(&text, RENDER_MAX);
	jo_init(&o, &text, 0);
	json_tree_write(tree, &o);
	r = json_parse(&values, buf_span(&text), RENDER_MAX, e);
	if (r < 0)
		return r;
	buf_reset(&text);
	embedded_open(&files);
	r = yaml_to_json(span_of(embedded_text(&files, "rules.yaml")), &text, e);
	if (r == 0)
		r = json_parse(&rules, buf_span(&text), RENDER_MAX, e);
	if (r == 0)
		r = values_check(json_root(values), json_get(json_root(rules), "rules"), e);
	if (r == 0)
		r = render(&files, json_root(rules), json_root(values), ns, out, remarks, e);
	return r;
}

static int print(const struct manifests_opts *o, struct err *e)
{
	auto_tree struct json_tree *values = json_tree_new(JSON_OBJECT);
	auto_buf struct buf out, remarks;
	int r = manifests_check_namespace(o->ns, e);

	buf_init(&out, RENDER_MAX);
	buf_init(&remarks, RENDER_MAX);
	if (r == 0)
		r = manifests_values(&o->files, &o->set, values, e);
	if (r == 0)
		r = manifests_render(values, o->ns, &out, &remarks, e);
	if (r < 0)
		return r;
	for (struct span rest = buf_span(&remarks), line; span_cut(&rest, '\n', &line);)
		if (line.n)
			fprintf(stderr, "unirail manifests: note: %.*s\n", (int)line.n, line.p);
	if (fwrite(out.p, 1, out.len, stdout) != out.len || fflush(stdout) != 0)
		return err_sys(e, -errno, "write the manifests");
	return 0;
}

int manifests_main(int argc, char **argv)
{
	struct manifests_opts o = {.ns = "unirail"};
	struct err e = ERR_INIT;
	int r = opt_parse(manifests_cmds, "unirail manifests", argc - 1, argv + 1, &o, &e);
	int status;

	if (r < 0) {
		status = opt_exit("unirail manifests", r, &e);
	} else if ((r = print(&o, &e)) < 0) {
		fprintf(stderr, "unirail manifests: %s\n", e.text);
		status = r == -EINVAL ? 2 : 1;
	} else {
		status = 0;
	}
	free(o.set.v);
	free(o.files.v);
	return status;
}
