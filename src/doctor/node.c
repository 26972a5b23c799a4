/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the Node object and the kubelet's devices with this host. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "doctor/checks.h"
#include "doctor/kubelet.h"

#define MOFED_WAIT "network.nvidia.com/operator.mofed.wait"

enum { WHERE_MAX = 160 };

/* --- the kubelet's resources --- */

/* Reports a PF of which some VFs with a driver are in a resource, and others in none. */
static void check_pf(struct doctor *d, const struct kubelet_devices *l, const struct pci_dev *pf)
{
	const struct host_facts *f = d->f;
	const struct kubelet_device *any = NULL;
	size_t in = 0, out = 0;

	for (size_t i = 0; i < f->n_pci; i++) {
		const struct kubelet_device *v;

		if (strcmp(f->pci[i].physfn, pf->bdf) != 0 || !f->pci[i].driver[0])
			continue;
		v = kubelet_find(l, f->pci[i].bdf);
		any = v ? v : any;
		in += v != NULL;
		out += v == NULL;
	}
	if (in && out)
		doctor_find(d, FINDING_REMARK, pf->bdf,
			    "'unirail device plan' prints a configuration of resources for this "
			    "host; check the selectors and restart the device plugin",
			    "%zu of the PF's %zu VFs are in no resource, %zu are in a resource "
			    "such as '%s' (VFs without a driver are not counted)",
			    out, in + out, in, any->resource);
}

void doctor_vf_resources(struct doctor *d)
{
	auto_kubelet_devices struct kubelet_devices l = {0};

	if (!d->f->n_pci || !kubelet_devices_read(d->f->root, &l))
		return;
	for (size_t i = 0; i < l.n; i++)
		if (pci_bdf_ok(l.v[i].id) && !host_pci(d->f, l.v[i].id))
			doctor_find(
				d, FINDING_PROBLEM, l.v[i].resource,
				"'unirail host vf PF --num-vfs N' creates VFs; then restart the "
				"device plugin",
				"the resource has device %s, which does not exist on this host",
				l.v[i].id);
	for (size_t i = 0; i < d->f->n_pci; i++)
		if (d->f->pci[i].is_pf && d->f->pci[i].num_vfs)
			check_pf(d, &l, &d->f->pci[i]);
}

/* --- the Node object --- */

static const struct json *node_of(const struct doctor *d, const char *part, const char *key)
{
	return d->f->node ? json_get(json_get(json_root(d->f->node), part), key) : NULL;
}

static const char *node_name(const struct doctor *d)
{
	const char *s = json_string(node_of(d, "metadata", "name"));

	return s ? s : "NODE";
}

/* Returns whether the name is that of an extended resource: "rdma/hca", but neither "cpu" nor
 * "requests.kubernetes.io/x". */
static bool is_extended(const char *name)
{
	const char *slash = strchr(name, '/');
	size_t n = slash ? (size_t)(slash - name) : 0, k = strlen("kubernetes.io");

	return slash && !(n >= k && !strncmp(slash - k, "kubernetes.io", k));
}

/* Writes the name as a key of a JSON pointer. */
static void put_pointer(struct buf *b, const char *name)
{
	for (; *name; name++)
		if (*name == '/')
			buf_str(b, "~1");
		else if (*name == '~')
			buf_str(b, "~0");
		else
			buf_char(b, *name);
}

static void stale(struct doctor *d, const char *resource, const char *amount)
{
	auto_buf struct buf b;

	buf_init(&b, 4096);
	buf_printf(&b,
		   "kubectl patch node %s --subresource=status --type=json -p '[{\"op\":"
		   "\"remove\",\"path\":\"/status/capacity/",
		   node_name(d));
	put_pointer(&b, resource);
	buf_str(&b, "\"}]', or install the device plugin again");
	doctor_find(d, strcmp(amount, "0") ? FINDING_PROBLEM : FINDING_REMARK, resource, b.p,
		    "the Node object has %s of this resource, but no device plugin of this node "
		    "serves it",
		    amount);
}

void doctor_node_resources(struct doctor *d)
{
	auto_kubelet_devices struct kubelet_devices l = {0};
	struct json_walk w = json_walk_start(node_of(d, "status", "capacity"));
	const struct json *v;
	const char *name;

	if (!d->f->node || !kubelet_devices_read(d->f->root, &l))
		return;
	while ((v = json_walk_next(&w, &name)))
		if (is_extended(name) && json_string(v) && !json_get(l.registered, name))
			stale(d, name, json_string(v));
}

/* NVIDIA's network operator sets the label MOFED_WAIT to "true" until its driver container is
 * ready, and schedules its device plugins and CNIs only on nodes with the value "false". */
void doctor_node_drivers(struct doctor *d)
{
	const char *wait = json_string(json_get(node_of(d, "metadata", "labels"), MOFED_WAIT));
	struct json_walk w = json_walk_start(node_of(d, "spec", "taints"));
	const struct json *taint;
	auto_buf struct buf b = {0};

	if (!wait || strcmp(wait, "true") != 0)
		return;
	buf_init(&b, 4096);
	while ((taint = json_walk_next(&w, NULL))) {
		const char *key = json_string(json_get(taint, "key"));
		const char *effect = json_string(json_get(taint, "effect"));

		if (key && effect && strcmp(effect, "PreferNoSchedule") != 0)
			buf_printf(&b, "%s%s:%s", b.len ? ", " : "", key, effect);
	}
	auto_free char *remedy =
		xasprintf("unirail needs no driver container: 'kubectl label node %s " MOFED_WAIT
			  "=false --overwrite'%s",
			  node_name(d),
			  b.len ? ", or give the driver's pods tolerations of these taints" : "");

	doctor_find(d, FINDING_PROBLEM, MOFED_WAIT, remedy,
		    "the network operator keeps its device plugins and CNIs off this node until "
		    "its driver container is ready%s%s",
		    b.len ? ", and taints may keep that container off: " : "", b.len ? b.p : "");
}

static const struct link *rail_with(const struct host_facts *f, const struct ipaddr *ip)
{
	const struct link *l;
	size_t at = 0;

	while ((l = doctor_next_rail(f, &at)))
		for (size_t i = 0; i < f->n_addrs; i++)
			if (f->addrs[i].index == l->index && ip_eq(&f->addrs[i].net.ip, ip))
				return l;
	return NULL;
}

/* Calico, Flannel and k3s write the address that they chose into an annotation of the Node. */
void doctor_node_address(struct doctor *d)
{
	static const struct {
		const char *key, *cni, *setting;
	} annotations[] = {
		{"projectcalico.org/IPv4Address", "Calico",
		 "IP_AUTODETECTION_METHOD=interface=..."},
		{"projectcalico.org/IPv6Address", "Calico",
		 "IP6_AUTODETECTION_METHOD=interface=..."},
		{"flannel.alpha.coreos.com/public-ip", "Flannel", "--iface"},
		{"k3s.io/internal-ip", "k3s", "--node-ip"},
	};
	const struct json *all = node_of(d, "metadata", "annotations");

	for (size_t i = 0; i < ARRAY_LEN(annotations); i++) {
		const char *text = json_string(json_get(all, annotations[i].key));
		struct span s = span_of(text ? text : ""), word;
		const struct link *l;
		struct ipaddr ip;
		char remedy[WHERE_MAX];

		span_cut(&s, '/', &word);
		if (ip_parse(word, &ip) < 0)
			continue;
		l = rail_with(d->f, &ip);
		if (!l)
			continue;
		snprintf(remedy, sizeof(remedy),
			 "set %s of %s to the node's own interface or address",
			 annotations[i].setting, annotations[i].cni);
		doctor_find(
			d, FINDING_PROBLEM, l->name, remedy,
			"%s uses this rail's address %s as the node's: pod traffic takes the rail, and stops when the rail fails",
			annotations[i].cni, text);
	}
}
