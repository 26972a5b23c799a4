/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "host/steps/steps.h"

/* Kind persist: the systemd unit that applies the requested state at each boot, before the kubelet
 * starts. */

#define UNIT	  "unirail-host.service"
#define UNIT_FILE "/etc/systemd/system/" UNIT
#define UNIT_LINK "/etc/systemd/system/multi-user.target.wants/" UNIT

struct want {
	struct host_want head;
	const char *program;
};

static const struct opt keys[] = {
	{"program", 0, OPT_STR, "PATH",
	 "path of unirail on the host (default: /usr/local/bin/unirail)",
	 offsetof(struct want, program), 0, 0},
	{0},
};

struct found {
	struct host_file file;
	char *link;
	bool program;
};

static void init(void *want)
{
	((struct want *)want)->program = "/usr/local/bin/unirail";
}

static int check(void *want, struct err *e)
{
	const char *program = ((struct want *)want)->program;

	if (program[0] != '/' || strpbrk(program, " \t\"'%$\\"))
		return err_kind(
			e, ERR_CONF, -EINVAL,
			"program is '%s', expected an absolute path without blanks, quotes, '%%', "
			"'$' and backslashes",
			program);
	return 0;
}

static int observe(struct host *h, const struct host_wants *w, void **found, struct err *e)
{
	struct found *f = xcalloc(1, sizeof(*f));

	*found = f;
	f->link = host_link_read(h, UNIT_LINK);
	f->program = w->n && file_exists(&h->root, ((struct want *)w->v[0])->program);
	return host_file_read(h, UNIT_FILE, &f->file, e);
}

static void forget(void *found)
{
	struct found *f = found;

	if (f) {
		host_file_done(&f->file);
		free(f->link);
	}
	free(f);
}

static int decide(const struct host_wants *w, const void *found, struct host_plan *p, struct err *e)
{
	const struct found *f = found;
	const char *program = w->n ? ((const struct want *)w->v[0])->program : NULL;
	auto_free char *text = NULL;
	struct host_step *s;

	if (!program)
		return 0;
	if (!f->program)
		return err_kind(
			e, ERR_CONF, -ENOENT,
			"program '%s' does not exist on the host; install unirail there or set program",
			program);
	text = xasprintf(
		"# written by 'unirail host persist'\n"
		"[Unit]\n"
		"Description=Host preparation for RDMA\n"
		"After=systemd-udev-settle.service systemd-modules-load.service systemd-networkd.service "
		"NetworkManager.service openibd.service\n"
		"Before=kubelet.service k3s.service k3s-agent.service rke2-server.service rke2-agent.service\n"
		"\n"
		"[Service]\n"
		"Type=oneshot\n"
		"RemainAfterExit=yes\n"
		"ExecStart=%s host apply\n"
		"SuccessExitStatus=3\n"
		"\n"
		"[Install]\n"
		"WantedBy=multi-user.target\n",
		program);
	s = host_plan_file(p, "persist", "host", &f->file, text, 0644);
	if (s)
		s->effect = HOST_REBOOT;
	s = host_plan_link(p, "persist", "host", UNIT_LINK, f->link, "../" UNIT);
	if (s)
		host_step_command(s, "systemctl enable " UNIT);
	if (s)
		s->effect = HOST_REBOOT;
	return 0;
}

const struct host_kind host_persist = {
	.name = "persist",
	.section = "boot",
	.help = "the systemd unit that applies the requested state at each boot, before the kubelet",
	.flags = HOST_BARE,
	.keys = keys,
	.size = sizeof(struct want),
	.init = init,
	.check = check,
	.observe = observe,
	.forget = forget,
	.decide = decide,
};
