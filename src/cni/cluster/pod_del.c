/* SPDX-License-Identifier: Apache-2.0 */
/* DEL and CHECK of the networks that a pod has in the cluster, from what was noted of it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "cni/multi/all_in_one.h"
#include "cni/protocol/cni_call.h"
#include "cni/multus/multus_del.h"
#include "cni/cluster/pod_agent.h"
#include "cni/cluster/pod_note.h"
#include "cni/cluster/pod_verbs.h"
#include "ipam/ipam.h"

static void forget_devinfo(const struct aio *x)
{
	for (size_t i = 0; i < x->n_nets; i++) {
		const struct aio_net *net = &x->nets[i];
		auto_free char *path = NULL;

		if (!net->device)
			continue;
		path = pod_net_devinfo(net->nad ? net->nad : net->name, x->call->container_id,
				       net->ifname);
		pod_devinfo_remove(&x->call->root, path);
	}
}

int pod_note_del(struct pod_note *note, struct err *e)
{
	auto_aio struct aio x = {0};
	int r = aio_read(&note->call, &x, e);

	if (r < 0)
		return r;
	pod_note_results(note, &x);
	forget_devinfo(&x);
	return aio_del(&x, e);
}

/*
 * Nothing is noted: nothing was attached, or it is deleted already. Addresses may be held all the
 * same, when somebody removed the note by hand; nobody else would look for them.
 */
static void del_addresses(const struct cni_call *c, const struct pod_conf *conf)
{
	const struct ipam_paths paths = {0};
	auto_ipam struct ipam *store = NULL;
	struct err why = ERR_INIT;
	int r;

	if (conf->agent && file_exists(&c->root, conf->agent) &&
	    pod_agent_release(c, conf, &why) >= 0)
		return;
	err_clear(&why);
	if (!file_exists(&c->root, IPAM_STATE_DIR "/journal"))
		return;
	r = ipam_open(&store, &c->root, &paths, &why);
	if (r >= 0)
		r = ipam_release(store, c->container_id, NULL, &why);
	if (r < 0)
		log_warn("addresses are not given back", LOG_S("error", why.text));
}

/* As Multus: its plugins are looked for in binDir first. */
static int del_others(const struct cni_call *c, const struct pod_conf *conf, struct err *e)
{
	auto_free char *path = xasprintf("%s%s%s", conf->bin_dir, *c->path ? ":" : "", c->path);
	struct cni_call call = *c;

	call.path = path;
	return multus_del_in(&call, conf->cni_dir, e);
}

static bool is_half(const char *name, const char *middle)
{
	size_t n = strlen(name);

	return *name == '.' && n > 4 && strcmp(name + n - 4, ".tmp") == 0 && strstr(name, middle);
}

/* Notes that an ADD was killed over. Nobody else writes those of this container now. */
static void sweep(const struct cni_call *c, const char *dir, const char *middle)
{
	char **names = NULL;
	size_t n = 0;

	if (dir_list(&c->root, dir, &names, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		auto_free char *path = xasprintf("%s/%s", dir, names[i]);

		if (is_half(names[i], middle))
			file_remove(&c->root, path, NULL);
	}
	str_list_free(names, n);
}

static void sweep_notes(const struct cni_call *c, const struct pod_conf *conf)
{
	auto_free char *results = xasprintf("%s/results", conf->cni_dir);
	auto_free char *scratch = xasprintf(".%s.", c->container_id);
	auto_free char *cached = xasprintf("-%s-", c->container_id);

	sweep(c, conf->cni_dir, scratch);
	sweep(c, results, cached);
}

int pod_del(struct cni_call *c, bool multus, struct err *e)
{
	auto_pod_note struct pod_note note = {0};
	struct pod_conf conf;
	enum pod_note_kind kind;
	int r;

	pod_conf_or_default(c, multus, &conf);
	sweep_notes(c, &conf);
	kind = pod_note_read(c, conf.cni_dir, conf.bin_dir, &note);
	if (kind == POD_NOTE_OURS)
		return pod_note_del(&note, e);
	r = del_others(c, &conf, e);
	if (r == 0 && kind == POD_NOTE_NONE)
		del_addresses(c, &conf);
	return r < 0 ? r : 0;
}

int pod_check(struct cni_call *c, bool multus, struct err *e)
{
	auto_pod_note struct pod_note note = {0};
	auto_aio struct aio x = {0};
	struct pod_conf conf;
	enum pod_note_kind kind;
	int r = pod_conf_read(c, multus, &conf, e);

	if (r < 0)
		return r;
	kind = pod_note_read(c, conf.cni_dir, conf.bin_dir, &note);
	if (kind == POD_NOTE_OTHER)
		return 0; /* Multus would not look either */
	if (kind == POD_NOTE_NONE)
		return err_kind(
			e, ERR_OTHER, -ENOENT,
			"nothing is noted of container '%s' in '%s' (conf.cniDir): it is not "
			"attached",
			c->container_id, conf.cni_dir);
	r = aio_read(&note.call, &x, e);
	if (r < 0)
		return r;
	pod_note_results(&note, &x);
	r = aio_read_plugins(&x, e);
	return r < 0 ? r : aio_check(&x, e);
}
