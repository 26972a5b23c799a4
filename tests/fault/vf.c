/* SPDX-License-Identifier: Apache-2.0 */
/* A VF of a real driver: "pf0" and "vf0" (the names that tests/vm uses) are moved from the
 * initial namespace to the node for the scene, unless the initial namespace itself is the node. */
#include "fault.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if_arp.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "kern/net/link.h"
#include "kern/sys/netns.h"
#include "kern/net/vf.h"

enum { COMES_MS = 30000, OPER_UP = 6 };

/* Waits for the link: when a namespace is deleted, the kernel moves the VF in it back to the
 * initial namespace with a delay. */
static int index_of(struct nl_wire *w, const char *name)
{
	struct link k;

	for (int waited = 0; link_get(w, name, &k, NULL) < 0; waited += 10) {
		if (waited > COMES_MS)
			die("no link '%s': run this scene in tests/vm, which has a PF and a VF",
			    name);
		usleep(10000);
	}
	return k.index;
}

static void change(struct nl_wire *w, const char *name, const struct link_change *c)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct err e = ERR_INIT;

	link_set(b, index_of(w, name), name, c);
	if (nl_batch_commit(w, b, &e) < 0)
		die("%s", e.text);
}

static void move(const char *name, int from, int to)
{
	auto_nl struct nl_wire *w = NULL;
	struct link_change c = {.set = LINK_SET_NETNS, .netns_fd = to};
	struct err e = ERR_INIT;

	if (nl_open(&w, NL_ROUTE, from, &e) < 0)
		die("%s", e.text);
	change(w, name, &c);
}

static int first_ns(void)
{
	struct err e = ERR_INIT;
	int fd;

	if (netns_open("/proc/1/ns/net", &fd, &e) < 0)
		die("%s", e.text);
	return fd;
}

static void wait_for_carrier(struct nl_wire *w, const char *name)
{
	struct link k = {0};

	for (int waited = 0; k.operstate != OPER_UP; waited += 10) {
		if (waited > COMES_MS || link_get(w, name, &k, NULL) < 0)
			die("link '%s' does not come up", name);
		usleep(10000);
	}
}

/* Sets the VF up, since its driver reports its MAC to the PF only then. Sets it down again,
 * since the kernel sets down a link that it moves to another namespace. */
static void warm_up(struct nl_wire *w)
{
	struct link_change up = {.set = LINK_SET_UP}, down = {.set = LINK_SET_DOWN};

	change(w, "pf0", &up);
	wait_for_carrier(w, "pf0");
	change(w, "vf0", &up);
	wait_for_carrier(w, "vf0");
	change(w, "vf0", &down);
}

static bool is_ethernet(struct nl_wire *w)
{
	struct link k;

	return link_get_index(w, index_of(w, "vf0"), &k, NULL) >= 0 && k.arptype == ARPHRD_ETHER;
}

void vf_borrow(struct lab *l)
{
	auto_nl struct nl_wire *w = lab_wire(&l->node);
	auto_fd int first = first_ns();

	l->vfs = true;
	if (l->first) {
		if (!is_ethernet(w))
			return;
		warm_up(w);
		move("vf0", l->node.fd, l->fabric.fd);
		move("vf0", l->fabric.fd, l->node.fd);
		return;
	}
	move("pf0", first, l->node.fd);
	move("vf0", first, l->node.fd);
	warm_up(w);
	move("vf0", l->node.fd, first);
	move("vf0", first, l->node.fd);
}

/*
 * The driver igbvf reports as permanent the MAC that the VF had at the driver's last reset: setting
 * the link up and down causes a reset. A link that was up has a queueing discipline until the link
 * is moved to another namespace, so the VF is moved to the fabric and back.
 */
void vf_reset(const struct lab *l)
{
	struct link_change up = {.set = LINK_SET_UP}, down = {.set = LINK_SET_DOWN};
	auto_nl struct nl_wire *w = NULL;
	struct link k;

	if (!l->vfs)
		return;
	w = lab_wire(&l->node);
	if (link_get(w, "vf0", &k, NULL) < 0 || k.arptype != ARPHRD_ETHER || link_is_up(&k))
		return;
	change(w, "vf0", &up);
	change(w, "vf0", &down);
	move("vf0", l->node.fd, l->fabric.fd);
	move("vf0", l->fabric.fd, l->node.fd);
}

void vf_return(struct lab *l)
{
	auto_fd int first = first_ns();

	l->vfs = false;
	if (l->first)
		return;
	move("vf0", l->node.fd, first);
	move("pf0", l->node.fd, first);
}

static void dump_one(const struct vf_info *v, struct buf *b)
{
	char mac[MAC_TEXT_MAX];

	buf_printf(b, "VF %u mac %s rate %u %u spoofchk %d trust %d state %u guid %llx %llx", v->vf,
		   mac_str(&v->mac, mac), v->min_rate, v->max_rate, v->spoofchk, v->trust,
		   v->link_state, (unsigned long long)v->node_guid,
		   (unsigned long long)v->port_guid);
	for (size_t i = 0; i < v->n_vlans; i++)
		buf_printf(b, " vlan %u qos %u proto %x", v->vlans[i].id, v->vlans[i].qos,
			   v->vlans[i].proto);
	buf_char(b, '\n');
}

void vf_dump(const struct lab *l, struct buf *b)
{
	auto_nl struct nl_wire *w = NULL;
	auto_free struct vf_info *v = NULL;
	struct err e = ERR_INIT;
	size_t n;

	if (!l->vfs)
		return;
	w = lab_wire(&l->node);
	if (vf_list(w, index_of(w, "pf0"), "pf0", &v, &n, &e) < 0)
		die("%s", e.text);
	for (size_t i = 0; i < n; i++)
		dump_one(&v[i], b);
}
