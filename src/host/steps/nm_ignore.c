/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "host/steps/steps.h"

/* Kind nm-ignore: interfaces that NetworkManager must not manage, such as veths of pods and
 * interfaces that ifacer creates. */

#define NM_FILE "/etc/NetworkManager/conf.d/90-unirail.conf"

enum { TEXT_MAX = 16 << 10 };

struct want {
	struct host_want head;
	const char *interfaces;
};

static const struct opt keys[] = {
	{"interfaces", 0, OPT_STR, "PATTERN,...", "names or patterns with '*', for instance veth*",
	 offsetof(struct want, interfaces), 0, 0},
	{0},
};

struct found {
	bool exists; /* NetworkManager is on the host */
	struct host_file file;
};

static int check(void *want, struct err *e)
{
	const struct want *w = want;

	if (!w->interfaces)
		return err_kind(e, ERR_CONF, -EINVAL,
				"no interfaces: set names or patterns, for instance veth*");
	if (strpbrk(w->interfaces, ";=[]\" \t"))
		return err_kind(e, ERR_CONF, -EINVAL,
				"interfaces is '%s', expected names or patterns separated by "
				"commas, without blanks, double quotes, ';', '=' and brackets",
				w->interfaces);
	return 0;
}

static int observe(struct host *h, const struct host_wants *w, void **found, struct err *e)
{
	struct found *f = xcalloc(1, sizeof(*f));

	(void)w;
	*found = f;
	f->exists = file_exists(&h->root, "/etc/NetworkManager");
	return host_file_read(h, NM_FILE, &f->file, e);
}

static void forget(void *found)
{
	struct found *f = found;

	if (f)
		host_file_done(&f->file);
	free(f);
}

static int decide(const struct host_wants *w, const void *found, struct host_plan *p, struct err *e)
{
	const struct found *f = found;
	struct span rest, one;
	auto_buf struct buf b;

	(void)e;
	buf_init(&b, TEXT_MAX);
	if (!w->n || !f->exists)
		return 0;
	rest = span_of(((const struct want *)w->v[0])->interfaces);
	buf_str(&b, "# written by 'unirail host nm-ignore'\n[keyfile]\nunmanaged-devices+=");
	for (bool first = true; span_cut(&rest, ',', &one); first = false)
		buf_printf(&b, "%sinterface-name:%.*s", first ? "" : ";", (int)one.n, one.p);
	buf_char(&b, '\n');
	if (host_plan_file(p, "nm-ignore", "host", &f->file, b.p, 0644))
		host_plan_remark(
			p, "nm-ignore", "host",
			"NetworkManager reads the file at its next start, or now with 'nmcli "
			"general reload conf'");
	return 0;
}

const struct host_kind host_nm_ignore = {
	.name = "nm-ignore",
	.section = "networkmanager",
	.help = "interfaces that NetworkManager ignores",
	.keys = keys,
	.size = sizeof(struct want),
	.check = check,
	.observe = observe,
	.forget = forget,
	.decide = decide,
};
