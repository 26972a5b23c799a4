/* SPDX-License-Identifier: Apache-2.0 */
/* Which networks Multus gave a pod, from its scratch file and libcni's cache. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "cni/multus/multus_private.h"

enum { FILE_MAX = 4 << 20 };

void multus_done(struct multus *m)
{
	for (size_t i = 0; i < m->n_files; i++) {
		free(m->files[i].path);
		free(m->files[i].name);
		libcni_cached_done(&m->files[i].cached);
	}
	for (size_t i = 0; i < m->n_nets; i++)
		free(m->nets[i].ifname);
	multus_delegates_free(m->delegates, m->n_delegates);
	free(m->files);
	free(m->nets);
	free(m->scratch);
	free(m->args);
}

static void read_scratch(struct multus *m)
{
	struct err why = ERR_INIT;
	auto_buf struct buf text;
	int r;

	buf_init(&text, FILE_MAX);
	r = file_read(&m->call->root, m->scratch, FILE_MAX, &text, &why);
	if (r == -ENOENT)
		return;
	m->found = true;
	if (r >= 0)
		r = multus_scratch_parse(buf_span(&text), &m->delegates, &m->n_delegates, &why);
	if (r < 0)
		log_warn("Multus' file cannot be read, only what libcni's cache tells of is "
			 "deleted",
			 LOG_S("file", m->scratch), LOG_S("error", why.text));
}

static void read_cache_file(struct multus *m, struct cache_file *f)
{
	struct err why = ERR_INIT;
	auto_buf struct buf text;
	int r;

	buf_init(&text, FILE_MAX);
	r = file_read(&m->call->root, f->path, FILE_MAX, &text, &why);
	if (r >= 0)
		r = libcni_cached_parse(buf_span(&text), &f->cached, &why);
	if (r < 0)
		log_warn("libcni's file cannot be read", LOG_S("file", f->path),
			 LOG_S("error", why.text));
}

/* "<network>-<containerID>-<interface>": ids may hold a '-', so the file has the last word. */
void multus_find_cache(struct multus *m)
{
	auto_free char *dir = xasprintf("%s/results", m->dir);
	auto_free char *middle = xasprintf("-%s-", m->call->container_id);
	char **names = NULL;
	size_t n = 0;

	if (dir_list(&m->call->root, dir, &names, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		struct cache_file *f;

		if (!strstr(names[i], middle))
			continue;
		f = &VEC_PUSH(m->files, m->n_files);
		f->name = xstrdup(names[i]);
		f->path = xasprintf("%s/%s", dir, names[i]);
		read_cache_file(m, f);
		/* Of another container, whose id ours is a part of. */
		f->taken = f->cached.container_id &&
			   strcmp(f->cached.container_id, m->call->container_id) != 0;
	}
	str_list_free(names, n);
}

const char *multus_conf_name(struct span conf, struct json_doc **keep)
{
	const char *name = NULL;

	if (conf.n && json_parse(keep, conf, MULTUS_CONF_MAX, NULL) >= 0)
		name = json_string(json_get_go(json_root(*keep), "name"));
	return name ? name : "";
}

static struct cache_file *file_of(struct multus *m, struct span conf, const char *ifname)
{
	auto_json struct json_doc *d = NULL;
	const char *network = multus_conf_name(conf, &d);
	auto_free char *name = xasprintf("%s-%s-%s", network, m->call->container_id, ifname);

	for (size_t i = 0; i < m->n_files; i++) {
		struct cache_file *f = &m->files[i];
		const char *its = f->cached.ifname;

		if (f->taken)
			continue;
		/* Without a configuration of its own the interface says whose it is. */
		if (strcmp(f->name, name) == 0 || (!conf.n && its && strcmp(its, ifname) == 0))
			return f;
	}
	return NULL;
}

static char *delegate_ifname(const struct multus *m, size_t i)
{
	if (m->delegates[i].ifname)
		return xstrdup(m->delegates[i].ifname);
	return i ? xasprintf("net%zu", i) : xstrdup(m->call->ifname);
}

static void list_delegates(struct multus *m)
{
	for (size_t i = 0; i < m->n_delegates; i++) {
		const struct multus_delegate *d = &m->delegates[i];
		struct network *net = &VEC_PUSH(m->nets, m->n_nets);

		net->name = d->name;
		net->ifname = delegate_ifname(m, i);
		net->conf = (struct span){d->conf, d->conf_len};
		net->device = d->device_id ? d->name : NULL;
		net->args = d->args;
		net->version = d->version;
		net->file = file_of(m, net->conf, net->ifname);
		if (!net->file)
			continue;
		net->file->taken = true;
		if (!net->conf.n)
			net->conf =
				(struct span){net->file->cached.conf, net->file->cached.conf_len};
	}
}

/* The pod's own interface first, as in an ADD, then net1, net2 ... net10. */
static int by_ifname(const char *a, const char *b, const char *first)
{
	size_t na = strlen(a), nb = strlen(b);
	bool fa = strcmp(a, first) == 0, fb = strcmp(b, first) == 0;

	if (fa != fb)
		return fa ? -1 : 1;
	return na == nb ? strcmp(a, b) : na < nb ? -1 : 1;
}

/* Those that no delegate has; a few, so they are put in their places one by one. */
static void list_others(struct multus *m)
{
	size_t from = m->n_nets;

	for (size_t i = 0; i < m->n_files; i++) {
		struct cache_file *f = &m->files[i];
		const struct libcni_cached *c = &f->cached;
		struct network net = {.name = c->network, .file = f};
		size_t k = m->n_nets;

		if (f->taken || !c->conf || !c->network || !c->ifname)
			continue;
		net.ifname = xstrdup(c->ifname);
		net.conf = (struct span){c->conf, c->conf_len};
		VEC_PUSH(m->nets, m->n_nets) = net;
		for (;
		     k > from && by_ifname(m->nets[k - 1].ifname, net.ifname, m->call->ifname) > 0;
		     k--)
			m->nets[k] = m->nets[k - 1];
		m->nets[k] = net;
	}
}

void multus_find_scratch(struct multus *m)
{
	m->scratch = xasprintf("%s/%s", m->dir, m->call->container_id);
	read_scratch(m);
}

bool multus_is_own(const struct multus *m)
{
	const char *keeper = m->n_delegates ? m->delegates[0].keeper : NULL;

	return keeper && strcmp(keeper, m->call->name) == 0;
}

void multus_find(struct multus *m)
{
	multus_find_scratch(m);
	multus_find_cache(m);
	list_delegates(m);
	list_others(m);
}
