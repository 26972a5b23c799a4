/* SPDX-License-Identifier: Apache-2.0 */
/* A tenant's definition on the node: which plugins there are to execute. */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "spec/definition.h"
#include "cni/protocol/delegate.h"
#include "cni/ipam/ipam_plugins.h"
#include "cni/plugins/meta.h"
#include "cni/cluster/pod_net.h"

/* Root's, and nobody else may write it. */
static bool only_root_writes(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && st.st_uid == 0 && !(st.st_mode & (S_IWGRP | S_IWOTH));
}

static bool is_built_in(const char *type)
{
	return rail_kind_find(type) || meta_find(type) || strcmp(type, "coordinator") == 0 ||
	       cni_ipam_is_built_in(type);
}

static int check_installed(void *arg, const char *type, struct err *e)
{
	const char *search = arg;
	auto_free char *folder = NULL;
	auto_buf struct buf path;
	int r;

	buf_init(&path, PATH_MAX);
	if (is_built_in(type))
		return 0;
	r = cni_delegate_find(type, search, &path, e);
	if (r < 0)
		return r;
	folder = xstrdup(path.p);
	*strrchr(folder, '/') = '\0';
	if (only_root_writes(path.p) && only_root_writes(*folder ? folder : "/"))
		return 0;
	return err_kind(
		e, ERR_CONF, -EPERM,
		"'%s' can be changed by others than root (chown root and chmod go-w it and its "
		"folder, or trust the namespace: annotation " DEFINITION_TRUST "=true)",
		path.p);
}

int pod_net_check(const struct pod_nets *p, struct pod_net *net, struct json_doc **keep,
		  struct err *e)
{
	auto_free char *search =
		xasprintf("%s%s%s", p->bin_dir, *p->call->path ? ":" : "", p->call->path);
	const struct definition_rules rules = {check_installed, search, true};
	int r;

	*keep = NULL;
	if (net->trusted || json_kind(net->config) == JSON_NULL)
		return 0;
	r = definition_check(net->config, &rules, e);
	if (r >= 0)
		r = definition_drop_logs(net->config, keep, e);
	if (r < 0)
		return err_wrap(e, r, "network '%s'", pod_net_label(net));
	if (*keep) {
		log_warn("the log files that a definition names are not written: " DEFINITION_TRUST
			 "=true on its namespace allows them",
			 LOG_S("definition", pod_net_label(net)));
		net->config = json_root(*keep);
	}
	return 0;
}
