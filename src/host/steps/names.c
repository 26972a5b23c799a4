/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "host/steps/steps.h"
#include "kern/pci/pci.h"

/* Kind names: names of interfaces by PCI address, each in a .link file, which udev applies when the
 * device appears. */

struct found {
	const struct host_net *net;
	bool *exists; /* whether the PCI device of each line exists */
	struct host_file *files;
	size_t n;
};

static int check(void *want, struct err *e)
{
	const struct host_want *w = want;

	for (size_t i = 0; i < w->n_pairs; i++) {
		const struct host_pair *one = &w->pairs[i];

		if (!link_name_ok(one->key))
			return err_kind(
				e, ERR_CONF, -EINVAL,
				"invalid interface name '%s': expected 1 to 15 bytes without '/', ':' or whitespace",
				one->key);
		if (!pci_bdf_ok(one->value))
			return err_kind(
				e, ERR_CONF, -EINVAL,
				"%s: '%s' is not a PCI address in lower case, for instance 0000:3b:00.0",
				one->key, one->value);
		for (size_t k = 0; k < i; k++)
			if (strcmp(w->pairs[k].value, one->value) == 0)
				return err_kind(e, ERR_CONF, -EINVAL,
						"PCI device %s has two names, '%s' and '%s'",
						one->value, w->pairs[k].key, one->key);
	}
	return 0;
}

static int observe(struct host *h, const struct host_wants *w, void **found, struct err *e)
{
	struct found *f = xcalloc(1, sizeof(*f));
	const struct host_want *one = w->n ? w->v[0] : NULL;
	int r = host_net_read(h, &f->net, e);

	*found = f;
	f->n = one ? one->n_pairs : 0;
	f->exists = xcalloc(f->n, sizeof(*f->exists));
	f->files = xcalloc(f->n, sizeof(*f->files));
	for (size_t i = 0; i < f->n && r >= 0; i++) {
		auto_free char *file =
			xasprintf("/etc/systemd/network/70-unirail-%s.link", one->pairs[i].key);
		auto_free char *device = xasprintf("/sys/bus/pci/devices/%s", one->pairs[i].value);

		f->exists[i] = file_exists(&h->root, device);
		r = host_file_read(h, file, &f->files[i], e);
	}
	return r;
}

static void forget(void *found)
{
	struct found *f = found;

	for (size_t i = 0; f && i < f->n; i++)
		host_file_done(&f->files[i]);
	if (f) {
		free(f->files);
		free(f->exists);
	}
	free(f);
}

static const char *name_now(const struct host_net *n, const char *bdf)
{
	for (size_t i = 0; i < n->n_links; i++)
		if (strcmp(n->links[i].device, bdf) == 0)
			return n->links[i].name;
	return NULL;
}

static int decide(const struct host_wants *w, const void *found, struct host_plan *p, struct err *e)
{
	const struct found *f = found;
	bool first = true;

	for (size_t i = 0; i < f->n; i++) {
		const struct host_pair *one = &w->v[0]->pairs[i];
		const char *now = name_now(f->net, one->value);
		const struct link *other = host_link(f->net, one->key);
		auto_free char *text = NULL;
		struct host_step *s;

		if (!f->exists[i])
			return err_kind(e, ERR_CONF, -ENODEV, "%s: PCI device %s does not exist",
					one->key, one->value);
		if (other && strcmp(other->device, one->value) != 0)
			return err_kind(e, ERR_CONF, -EEXIST, "name '%s' is taken by %s", one->key,
					other->device[0] ? other->device
							 : "a device without PCI address");
		text = xasprintf(
			"# written by 'unirail host names'\n[Match]\nPath=pci-%s\n\n[Link]\nName=%s\n",
			one->value, one->key);
		s = host_plan_file(p, "names", one->value, &f->files[i], text, 0644);
		if (!s)
			continue;
		s->effect = now && strcmp(now, one->key) == 0 ? HOST_NOW : HOST_REBOOT;
		if (first && s->effect == HOST_REBOOT) {
			host_plan_remark(
				p, "names", one->value,
				"the initramfs may contain link files: rebuild it before the next boot");
			first = false;
		}
	}
	return 0;
}

const struct host_kind host_names = {
	.name = "names",
	.section = "names",
	.help = "stable names of interfaces by PCI address, NAME=0000:3b:00.0",
	.flags = HOST_PAIRS,
	.size = sizeof(struct host_want),
	.check = check,
	.observe = observe,
	.forget = forget,
	.decide = decide,
};
