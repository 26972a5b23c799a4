/* SPDX-License-Identifier: Apache-2.0 */
/* ib-sriov: the devices of a VF come home, from the pod or from where the kernel put them. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/loop.h"
#include "cni/attach/attach.h"
#include "cni/device/rdma_move.h"
#include "kern/sys/netns.h"

enum { COMES_HOME_MS = 3000, PAUSE_MS = 25 };

/* --- RDMA device --- */

static void pause_a_little(void)
{
	const struct timespec t = {.tv_nsec = PAUSE_MS * 1000000L};

	nanosleep(&t, NULL);
}

/* A namespace that was deleted is taken apart behind the back of who did it. */
bool ib_home_child(const struct root *root, const char *bdf, enum pci_child what, char *name)
{
	char **names = NULL;
	size_t n = 0;
	bool found;

	if (pci_children(root, bdf, what, &names, &n, NULL) < 0)
		return false;
	found = n > 0 && str_copy(name, PCI_NAME_MAX, names[0]);
	str_list_free(names, n);
	return found;
}

static bool wait_home(const struct root *root, const char *bdf, enum pci_child what, char *name)
{
	int64_t end = now_mono_ms() + COMES_HOME_MS;

	while (!ib_home_child(root, bdf, what, name)) {
		if (now_mono_ms() >= end)
			return false;
		pause_a_little();
	}
	return true;
}

int ib_home_not_yet(const struct vf_record *r, const char *what, struct err *e)
{
	return err_kind(e, ERR_AGAIN, -EBUSY,
			"%s of VF '%s' is neither in the pod nor on the node: something keeps the "
			"pod's network namespace",
			what, r->device);
}

int ib_home_rdma(const struct root *root, int pod, const struct vf_record *r, struct err *e)
{
	char name[PCI_NAME_MAX];
	struct err why = ERR_INIT;
	int code = 0;

	if (!*r->rdma)
		return 0;
	if (!rdma_move_name(root, r->device, name))
		str_copy(name, sizeof(name), r->rdma);
	if (pod >= 0 && !ib_home_child(root, r->device, PCI_RDMA, name))
		code = rdma_move_is_in(pod, name, e);
	if (code > 0)
		return rdma_move_home(pod, root, name, r->rdma, e);
	if (code < 0)
		return code;
	if (!wait_home(root, r->device, PCI_RDMA, name))
		return ib_home_not_yet(r, "the RDMA device", e);
	if (rdma_move_rename(name, r->rdma, &why) < 0)
		log_warn("an RDMA device keeps the name that a pod gave it", LOG_S("device", name),
			 LOG_S("was", r->rdma), LOG_S("error", why.text));
	return 0;
}

/* --- netdev --- */

static bool is_vfs(const struct link *l, const struct vf_record *r)
{
	if (*l->device)
		return strcmp(l->device, r->device) == 0;
	return r->ifname && strcmp(l->name, r->ifname) == 0 && *r->name &&
	       strcmp(l->alias, r->name) == 0;
}

bool ib_home_name_is_free(struct nl_wire *host, const char *name)
{
	struct link other;

	return *name && link_get(host, name, &other, NULL) < 0;
}

static int take_out(struct attach *a, struct nl_wire *w, const struct link *l,
		    const struct vf_record *r, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct link_change c = {.set = LINK_SET_NETNS};
	auto_fd int home = -1;
	int code = netns_current(&home, e);

	if (code < 0)
		return code;
	c.netns_fd = home;
	/* Its name may be taken on the node, and the one it has here as well: name it on the way. */
	if (ib_home_name_is_free(a->host, r->name)) {
		c.set |= LINK_SET_NAME;
		c.name = r->name;
	}
	link_set(b, l->index, l->name, &c);
	return nl_batch_commit(w, b, e);
}

int ib_home_netdev(struct attach *a, int pod, const struct vf_record *r, struct err *e)
{
	auto_free struct link *list = NULL;
	auto_nl struct nl_wire *w = NULL;
	char name[PCI_NAME_MAX];
	size_t n = 0;
	int code = pod >= 0 ? nl_open(&w, NL_ROUTE, pod, e) : 0;

	if (code >= 0 && w)
		code = link_list(w, &list, &n, e);
	if (code < 0)
		return code;
	for (size_t i = 0; i < n; i++)
		if (is_vfs(&list[i], r))
			return take_out(a, w, &list[i], r, e);
	if (!wait_home(&a->call->root, r->device, PCI_NETDEV, name))
		return ib_home_not_yet(r, "the netdev", e);
	return 0;
}
