/* SPDX-License-Identifier: Apache-2.0 */
/* host-device: home again. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "cni/attach/attach.h"
#include "kern/net/altname.h"
#include "kern/sys/netns.h"

/* --- alternative names that were in the way --- */

/* "<name at home>.altname.<alternative name>": what is in the way is as short as a link's name. */
static bool aside_name(const char *home, const char *altname, char ret[static ALTNAME_MAX])
{
	return snprintf(ret, ALTNAME_MAX, "%s.altname.%s", home, altname) < ALTNAME_MAX;
}

/* First the new one: a program that is killed in between leaves both. */
void host_device_put_aside(const struct link *l, const char *altname, struct nl_batch *b)
{
	char aside[ALTNAME_MAX];

	if (aside_name(l->name, altname, aside))
		altname_add(b, l->index, l->name, aside);
	altname_del(b, l->index, l->name, altname);
}

static bool has(char *const *names, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

static void warn_lost(const char *link, const char *altname, const char *why)
{
	log_warn("an alternative name of the device is lost", LOG_S("link", link),
		 LOG_S("altname", altname), LOG_S("why", why));
}

static void take_back_one(struct nl_wire *w, const struct link *l, const char *aside,
			  const char *altname, bool there)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct err why = ERR_INIT;

	if (!there)
		altname_add(b, l->index, l->name, altname);
	altname_del(b, l->index, l->name, aside);
	if (nl_batch_commit(w, b, &why) < 0)
		warn_lost(l->name, altname, why.text);
}

/* What was put aside, on a device that is home. A name that somebody else has by now is lost. */
static int take_back(struct nl_wire *w, const char *name, struct err *e)
{
	char prefix[ALTNAME_MAX], **names = NULL;
	struct link l;
	size_t n = 0, len;
	int r = link_get(w, name, &l, e);

	if (r >= 0)
		r = altname_list(w, l.index, &names, &n, e);
	if (r < 0)
		return r;
	(void)aside_name(l.name, "", prefix);
	len = strlen(prefix);
	for (size_t i = 0; i < n; i++)
		if (strncmp(names[i], prefix, len) == 0 && names[i][len])
			take_back_one(w, &l, names[i], names[i] + len,
				      has(names, n, names[i] + len));
	str_list_free(names, n);
	return 0;
}

/* --- the device --- */

/* From the pod to the node: l is a link of the pod. */
static int move_home(struct attach *a, const struct link *l, const char *name, const char *alias,
		     struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct link_change c = {
		.set = LINK_SET_NETNS | LINK_SET_NAME | LINK_SET_ALIAS,
		.name = name,
		.alias = alias,
	};
	auto_fd int home = -1;
	int r = netns_current(&home, e);

	if (r < 0)
		return r;
	c.netns_fd = home;
	link_set(b, l->index, l->name, &c);
	return nl_batch_commit(a->pod, b, e);
}

/* Whatever the message got done before it failed. */
static const struct link *in_pod(const struct attach *a, const struct rail *rail)
{
	for (size_t i = 0; i < a->n_pod_links; i++) {
		const struct link *l = &a->pod_links[i];

		if (strcmp(l->name, rail->ifname) == 0 && strcmp(l->alias, rail->master.name) == 0)
			return l;
		if (strcmp(l->name, rail->master.name) == 0 && mac_eq(&l->mac, &rail->master.mac))
			return l;
	}
	return NULL;
}

int host_device_undo(struct attach *a, const struct rail *rail, struct err *e)
{
	const struct link_change up = {.set = LINK_SET_UP};
	auto_batch struct nl_batch *b = nl_batch_new();
	const struct link *l;
	int r = attach_list_pod(a, e);

	if (r < 0)
		return r;
	l = in_pod(a, rail);
	if (l)
		r = move_home(a, l, rail->master.name, rail->master.alias, e);
	if (r >= 0)
		r = take_back(a->host, rail->master.name, e);
	if (r < 0 || !l)
		return r;
	if (link_is_up(&rail->master)) {
		link_set(b, 0, rail->master.name, &up);
		r = nl_batch_commit(a->host, b, e);
	}
	if (r >= 0)
		r = host_device_restore(a, rail->ifname, e);
	return r;
}

/* Half a way home, under the pod's name, would leave nobody who finds it. */
static int name_is_free(struct attach *a, const struct link *l, struct err *e)
{
	struct link other;

	if (link_get(a->host, l->alias, &other, NULL) < 0)
		return 0;
	return err_set(
		e, -EEXIST,
		"bring '%s' home as '%s': File exists (EEXIST): the node has another link of that name "
		"(rename that one, and this is tried again)",
		l->name, l->alias);
}

/* A name that needs the link to be down (before Linux 6.2). */
static int rename_home(struct attach *a, const struct link *l, struct err *e)
{
	const struct link_change down = {.set = LINK_SET_DOWN};
	const struct link_change name = {
		.set = LINK_SET_NAME | LINK_SET_ALIAS, .name = l->alias, .alias = ""};
	auto_batch struct nl_batch *b = nl_batch_new();

	if (link_is_up(l))
		link_set(b, l->index, l->name, &down);
	link_set(b, l->index, l->name, &name);
	return nl_batch_commit(a->host, b, e);
}

/* The pod's namespace went first, and the kernel saved the device from it; or a program that was
 * killed left alternative names aside, on its way in or home. */
int host_device_gc(struct attach *a, const struct rail *rail, struct err *e)
{
	const struct host_device_conf *c = &rail->conf.host_device;
	auto_host_device struct host_device_files f = {0};
	auto_free struct link *links = NULL;
	const struct link *l, *home;
	size_t n;
	int r;

	/* What is not there now cannot be mended. */
	if (host_device_read(&a->call->root, c, &f, NULL) < 0)
		return 0;
	r = link_list(a->host, &links, &n, e);
	if (r < 0)
		return r;
	l = host_device_stranded(c, &f, *rail->ifname ? rail->ifname : NULL, links, n);
	home = l ? NULL : host_device_pick(c, &f, links, n);
	if (l)
		r = rename_home(a, l, e);
	if (r >= 0 && (l || home))
		r = take_back(a->host, l ? l->alias : home->name, e);
	if (r >= 0 && *a->call->container_id)
		r = host_device_restore(a, rail->ifname, e);
	else if (r >= 0)
		host_device_restore_lost(a, rail);
	return r < 0 ? r : 0;
}

int host_device_del(struct attach *a, const struct rail *rail, struct err *e)
{
	const struct link *l = NULL;
	int r = a->pod ? attach_list_pod(a, e) : 0;

	if (r < 0)
		return r;
	if (a->pod)
		l = link_find(a->pod_links, a->n_pod_links, rail->ifname);
	if (!l)
		return host_device_gc(a, rail, e);
	if (!host_device_is_moved(l)) {
		/* The original fails here, and so does every DEL after an ADD that found the name
		 * taken. */
		log_warn("left alone: alias is not set, so it is no device of the node",
			 LOG_S("link", l->name));
		return 0;
	}
	r = name_is_free(a, l, e);
	if (r >= 0)
		r = move_home(a, l, l->alias, "", e);
	if (r >= 0)
		r = take_back(a->host, l->alias, e);
	if (r >= 0)
		r = host_device_restore(a, rail->ifname, e);
	return r;
}
