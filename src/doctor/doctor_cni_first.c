/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the container runtime uses the CNI configuration that makes it call unirail-cni. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "host/cni_config.h"
#include "doctor/doctor.h"

/* The file that a runtime comes to first. */
static const struct cni_config_file *first_of(const struct cni_config_files *l)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].kind != CNI_CONFIG_EMPTY && l->v[i].kind != CNI_CONFIG_IGNORED)
			return &l->v[i];
	return NULL;
}

static const struct cni_config_file *find(const struct cni_config_files *l,
					  enum cni_config_kind kind)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].kind == kind)
			return &l->v[i];
	return NULL;
}

/* Whether its first plugin is a link to unirail. */
static bool calls_ours(const struct doctor *d, const struct cni_config_file *f)
{
	const struct json *conf = f->doc ? json_root(f->doc) : NULL,
			  *list = json_get_go(conf, "plugins");
	const struct json *plugin = json_len(list) ? json_at(list, 0) : conf;
	const char *type = json_string(json_get_go(plugin, "type")), *base;
	char target[PATH_MAX];
	auto_free char *path = NULL;

	if (!type || strchr(type, '/'))
		return false;
	path = xasprintf("%s/%s", d->cni_bin, type);
	if (link_read(d->f->root, path, target, sizeof(target), NULL) < 0)
		return false;
	base = strrchr(target, '/');
	return strcmp(base ? base + 1 : target, "unirail") == 0;
}

static void other_is_first(struct doctor *d, const struct cni_config_file *first, const char *ours)
{
	auto_free char *where = xasprintf("%s/%s", d->cni_conf, first->name);

	if (first->kind == CNI_CONFIG_INVALID)
		doctor_find(d, FINDING_PROBLEM, where, "mend or remove the file",
			    "the container runtime comes to this file before '%s', and it is not "
			    "valid: %s",
			    ours, first->why);
	else
		doctor_find(d, FINDING_PROBLEM, where,
			    "remove the file with what writes it, or give unirail's a name that "
			    "sorts before it (the agent's setting cni-conf-name)",
			    "the container runtime uses this file, not '%s': pods get no rails",
			    ours);
}

void doctor_cni_first(struct doctor *d)
{
	auto_free char *link = xasprintf("%s/unirail-cni", d->cni_bin);
	const struct cni_config_file *first, *ours, *renamed;
	auto_cni_config struct cni_config_files files = {0};

	if (cni_config_read(d->f->root, d->cni_conf, &files, NULL) < 0)
		return;
	first = first_of(&files);
	renamed = find(&files, CNI_CONFIG_IGNORED);
	ours = find(&files, CNI_CONFIG_GENERATED);
	if (!ours)
		ours = find(&files, CNI_CONFIG_WRITTEN);
	if (!first || first->kind == CNI_CONFIG_GENERATED || first->kind == CNI_CONFIG_WRITTEN ||
	    calls_ours(d, first))
		return;
	if (ours) {
		other_is_first(d, first, ours->name);
	} else if (renamed) {
		auto_free char *where = xasprintf("%s/%s", d->cni_conf, renamed->name);

		doctor_find(d, FINDING_PROBLEM, where, "install Cilium with cni.exclusive=false",
			    "Cilium has renamed unirail's CNI configuration: pods get no rails");
	} else if (file_exists(d->f->root, link)) {
		doctor_find(d, FINDING_NOTE, d->cni_conf,
			    "'unirail install --cni-conf-dir' beside an agent, or a configuration "
			    "written by hand",
			    "no CNI configuration calls unirail-cni, '%s' is used: pods get no "
			    "rails",
			    first->name);
	}
}
