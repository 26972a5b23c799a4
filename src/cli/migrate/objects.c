/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/migrate/objects.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/manifests/manifests.h"
#include "cli/manifests/render.h"
#include "doctor/objects.h"
#include "kube/kinds.h"

enum { KIND_MAX = 80, GROUP_MAX = 128 };

/*
 * Kind and API path of an object. The plural is derived from the kind: it is regular for every kind
 * in the manifests.
 */
struct place {
	struct kube_kind kind;
	char group[GROUP_MAX], plural[KIND_MAX], name[KIND_MAX];
	struct kube_ref ref;
};

static void place_of(const struct json *v, struct place *p)
{
	const char *api = json_get_text(v, "apiVersion"), *kind = json_get_text(v, "kind");
	const struct json *m = json_get(v, "metadata");
	const char *slash = strchr(api, '/');
	size_t n = strlen(kind);

	str_copy(p->group, sizeof(p->group), api);
	p->group[slash ? slash - api : 0] = '\0';
	str_copy(p->name, sizeof(p->name), kind);
	for (char *c = p->name; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	snprintf(p->plural, sizeof(p->plural), n && p->name[n - 1] == 'y' ? "%.*sies" : "%.*ss",
		 (int)(n && p->name[n - 1] == 'y' ? n - 1 : n), p->name);
	p->kind = (struct kube_kind){p->group, slash ? slash + 1 : api, p->plural, p->name,
				     json_get(m, "namespace") != NULL};
	p->ref = (struct kube_ref){&p->kind, json_get_text(m, "namespace"),
				   json_get_text(m, "name"), NULL};
}

static int read_all(const struct json_tree *values, const char *ns, struct objects *ret,
		    struct err *e)
{
	auto_buf struct buf text, remarks;
	int r;

	buf_init(&text, RENDER_MAX);
	buf_init(&remarks, RENDER_MAX);
	r = manifests_render(values, ns, &text, &remarks, e);
	return r < 0 ? r : objects_read(ret, "manifests", "", buf_span(&text), e);
}

static bool is_shared(const struct place *p)
{
	return strcmp(p->name, "customresourcedefinition") == 0 ||
	       strcmp(p->name, "namespace") == 0;
}

static int create(struct migrate_api *a, const struct json *v, struct err *e)
{
	struct err own = ERR_INIT;
	auto_buf struct buf b;
	struct json_out o;
	struct place p;
	int r;

	buf_init(&b, RENDER_MAX);
	jo_init(&o, &b, 0);
	jo_val(&o, v, false);
	place_of(v, &p);
	r = migrate_request(
		a, &(struct kube_request){.verb = KUBE_CREATE, .on = p.ref, .body = buf_span(&b)},
		NULL, &own);
	if (r == -EEXIST && is_shared(&p))
		return 0;
	if (r == -EEXIST)
		return migrate_request(a,
				       &(struct kube_request){.verb = KUBE_MERGE_PATCH,
							      .on = p.ref,
							      .body = buf_span(&b)},
				       NULL, e);
	if (r < 0 && e)
		*e = own;
	return r;
}

int migrate_objects_create(struct migrate_api *a, const struct json_tree *values, const char *ns,
			   struct err *e)
{
	auto_objects struct objects l = {0};
	int r = read_all(values, ns, &l, e);

	for (size_t i = 0; i < l.n && r == 0; i++)
		r = create(a, l.v[i].v, e);
	return r;
}

static int delete (struct migrate_api *a, const struct place *p, struct err *e)
{
	struct err own = ERR_INIT;
	int r = migrate_request(a, &(struct kube_request){.verb = KUBE_DELETE, .on = p->ref}, NULL,
				&own);

	if (r < 0 && r != -ENOENT && e)
		*e = own;
	return r == -ENOENT ? 0 : r;
}

int migrate_objects_delete(struct migrate_api *a, const struct json_tree *values, const char *ns,
			   struct err *e)
{
	auto_objects struct objects l = {0};
	struct place p;
	int r = read_all(values, ns, &l, e);

	for (size_t i = 0; i < l.n && r == 0; i++) {
		place_of(l.v[i].v, &p);
		if (!is_shared(&p))
			r = delete (a, &p, e);
	}
	p.kind = kube_daemonsets;
	p.ref = (struct kube_ref){&p.kind, ns, MIGRATE_UNINSTALL, NULL};
	return r < 0 ? r : delete (a, &p, e);
}

/* --- deploy/uninstall --- */

static void replace(struct buf *text, const char *find, const char *put)
{
	auto_buf struct buf b;
	const char *at, *from = text->p;

	buf_init(&b, RENDER_MAX);
	while ((at = strstr(from, find))) {
		buf_add(&b, from, (size_t)(at - from));
		buf_str(&b, put);
		from = at + strlen(find);
	}
	buf_str(&b, from);
	buf_reset(text);
	buf_add(text, b.p, b.len);
}

/* Gives the DaemonSet of deploy/uninstall the image and the directories of the agent. */
static void use_agents(struct buf *text, const struct objects *l)
{
	for (size_t i = 0; i < l->n; i++) {
		const struct json *spec = migrate_at(l->v[i].v, "spec", "template", "spec", NULL);
		struct json_walk w = json_walk_start(json_get(spec, "volumes"));
		const struct json *v;

		if (strcmp(l->v[i].kind, "DaemonSet") != 0 ||
		    strcmp(l->v[i].name, "unirail-agent") != 0)
			continue;
		auto_free char *image =
			xasprintf("image: %s\n",
				  json_get_text(json_at(json_get(spec, "containers"), 0), "image"));

		replace(text, "image: unirail:latest\n", image);
		while ((v = json_walk_next(&w, NULL))) {
			const char *path = json_get_text(json_get(v, "hostPath"), "path");
			auto_free char *line = xasprintf("          path: %s\n", path);

			if (strcmp(json_get_text(v, "name"), "cni-bin") == 0)
				replace(text, "          path: /opt/cni/bin\n", line);
			if (strcmp(json_get_text(v, "name"), "cni-conf") == 0) {
				auto_free char *mount = xasprintf("mountPath: %s\n", path);
				auto_free char *arg = xasprintf("--cni-conf-dir, %s,", path);

				replace(text, "mountPath: /etc/cni/net.d\n", mount);
				replace(text, "          path: /etc/cni/net.d\n", line);
				replace(text, "--cni-conf-dir, /etc/cni/net.d,", arg);
			}
		}
	}
}

int migrate_uninstall_create(struct migrate_api *a, const struct json_tree *values, const char *ns,
			     struct err *e)
{
	auto_embedded struct embedded files = {0};
	auto_objects struct objects l = {0}, own = {0};
	auto_free char *namespace = xasprintf("  namespace: %s\n", ns);
	auto_buf struct buf text;
	int r;

	buf_init(&text, RENDER_MAX);
	r = read_all(values, ns, &l, e);
	if (r < 0)
		return r;
	embedded_open(&files);
	buf_str(&text, embedded_text(&files, "uninstall/node.yaml"));
	use_agents(&text, &l);
	replace(&text, "  name: node\n", "  name: " MIGRATE_UNINSTALL "\n");
	replace(&text, "  namespace: unirail-uninstall\n", namespace);
	replace(&text, "--uninstall, --purge, ", "--uninstall, ");
	r = objects_read(&own, "uninstall", "", buf_span(&text), e);
	for (size_t i = 0; i < own.n && r == 0; i++)
		if (strcmp(own.v[i].kind, "DaemonSet") == 0)
			r = create(a, own.v[i].v, e);
	return r;
}
