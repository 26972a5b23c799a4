/* SPDX-License-Identifier: Apache-2.0 */
/* The kind link-type, executed as on a running host: two ports of an emulated card
 * (fwctl_lab.h). This file defines its own ioctl(), which answers the requests to /dev/fwctl. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fwctl_lab.h"
#include "host_lab.h"
#include "base/alloc.h"
#include "host/apply.h"
#include "host/kinds.h"

#define BDF	"0000:3b:00.0"
#define NIC	"/sys/bus/pci/devices/" BDF
#define BOOT_ID "/proc/sys/kernel/random/boot_id"

static struct err e;
static struct fwctl_card card;

/* struct fwctl_rpc of Linux 6.15. */
struct rpc {
	uint32_t size, scope, in_len, out_len;
	uint64_t in, out;
};

#ifdef __GLIBC__
int ioctl(int fd, unsigned long request, ...)
#else
int ioctl(int fd, int request, ...)
#endif
{
	struct fwctl f = {.fd = fd, .arg = &card};
	struct rpc *r;
	va_list args;
	void *arg;
	int code;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	if ((unsigned int)request != _IO(0x9A, 1))
		return (int)syscall(SYS_ioctl, fd, request, arg);
	r = arg;
	ASSERT_EQ(r->size, sizeof(*r));
	code = fwctl_card_rpc(&f, r->scope, (const void *)(uintptr_t)r->in, r->in_len,
			      (void *)(uintptr_t)r->out, r->out_len);
	errno = -code;
	return code < 0 ? -1 : 0;
}

/* A running host with one InfiniBand card that has two ports. */
static void host_make(struct host_lab *lab, struct host *h, bool fwctl)
{
	static const struct {
		const char *path, *text;
	} files[] = {
		{NIC "/vendor", "0x15b3"},
		{NIC "/device", "0x101b"},
		{NIC "/class", "0x020700"},
		{NIC "/infiniband/mlx5_0/node_type", "1: CA"},
		{NIC "/net/ibs1/mtu", "2044"},
		{"/sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand"},
		{"/etc/unirail/host.conf", ""},
	};
	struct root kernel;
	char id[64];

	host_empty(lab);
	ASSERT_EQ(root_open(&kernel, NULL, NULL), 0);
	ASSERT_EQ(file_read_line(&kernel, BOOT_ID, id, sizeof(id), NULL), 0);
	root_close(&kernel);
	host_write(lab, BOOT_ID, id);
	for (size_t i = 0; i < ARRAY_LEN(files); i++)
		host_write(lab, files[i].path, files[i].text);
	if (fwctl) {
		host_write(lab, NIC "/fwctl/fwctl0/dev", "10:0");
		host_write(lab, "/dev/fwctl/fwctl0", "");
	}
	ASSERT_EQ(host_open(h, lab->dir, &e), 0);
	assert_true(h->kernel);
	card = (struct fwctl_card){.stored = {0, 0xa5a5a505, 0x04},
				   .running = {0, 0xa5a5a505, 0x04},
				   .has_item = true};
}

static int plan(struct host *h, const char *type, struct host_plan *p)
{
	auto_host_conf struct host_conf c;
	auto_free char *line = xasprintf("[link-type]\nall = %s\n", type);
	struct root root = h->root;
	int r;

	host_conf_init(&c);
	r = file_replace(&root, "/etc/unirail/host.conf", span_of(line), 0644, &e);
	if (r == 0)
		r = host_conf_read(&c, &root, "/etc/unirail/host.conf", &e);
	return r < 0 ? r : host_plan_make(h, &c, NULL, p, &e);
}

static int apply(struct host *h, const struct host_plan *p, struct host_outcome *o)
{
	auto_host_journal struct host_journal j = HOST_JOURNAL_INIT;
	int r = host_journal_open(&j, &h->root, HOST_STATE_DIR, true, &e);

	return r < 0 ? r : host_apply(h, p, &j, NULL, o, &e);
}

static int undo(struct host *h, struct host_outcome *o)
{
	auto_host_journal struct host_journal j = HOST_JOURNAL_INIT;
	int r = host_journal_open(&j, &h->root, HOST_STATE_DIR, true, &e);

	return r < 0 ? r : host_undo(h, &j, NULL, NULL, o, &e);
}

static void test_link_type_is_changed_by_fwctl(void **state)
{
	auto_host_plan struct host_plan p = {0}, again = {0};
	const struct host_kind *k = host_kind_find("link-type");
	struct host_outcome o;
	struct host_lab lab;
	struct host h;

	(void)state;
	host_make(&lab, &h, true);
	ASSERT_EQ(plan(&h, "roce", &p), 0);
	ASSERT_EQ(p.n, 2);
	ASSERT_STR_EQ(p.v[0].current, "LINK_TYPE_P1 IB(1)");
	ASSERT_STR_EQ(p.v[0].desired, "LINK_TYPE_P1 ETH(2)");
	ASSERT_EQ(p.v[0].effect, HOST_POWER_CYCLE);
	ASSERT_EQ(k->in_effect(&h, &p.v[0].action, &e), 0);
	ASSERT_EQ(k->in_effect(&h, &p.v[0].undo, &e), 1);
	ASSERT_EQ(apply(&h, &p, &o), 0);
	ASSERT_EQ(o.done, 2);
	ASSERT_EQ(card.writes, 2);
	/* only the two bits of the link type change */
	ASSERT_EQ(card.stored[1], 0xa5a5a509);
	ASSERT_EQ(card.stored[2], 0x08);
	ASSERT_EQ(k->in_effect(&h, &p.v[0].action, &e), 1);
	/*
	 * The value is stored but not in use yet: the plan has no step, and a remark for each port
	 * names the two remedies: a reset of the firmware or a power cycle.
	 */
	ASSERT_EQ(plan(&h, "roce", &again), 0);
	ASSERT_EQ(again.n, 0);
	ASSERT_EQ(again.n_remarks, 2);
	assert_non_null(strstr(again.remarks[0].text, "IB(1) is in use: reset the firmware"));
	ASSERT_EQ(undo(&h, &o), 0);
	ASSERT_EQ(o.done, 2);
	ASSERT_EQ(card.stored[1], 0xa5a5a505);
	ASSERT_EQ(card.stored[2], 0x04);
	host_close(&h);
	host_remove(&lab);
}

/* If the firmware acknowledges a write but does not store the value, the step fails. After undo
 * the firmware still has the previous value. */
static void test_lost_firmware_write_is_a_failure(void **state)
{
	auto_host_plan struct host_plan p = {0};
	struct host_outcome o;
	struct host_lab lab;
	struct host h;

	(void)state;
	host_make(&lab, &h, true);
	ASSERT_EQ(plan(&h, "roce", &p), 0);
	card.forgets_write = true;
	ASSERT_EQ(apply(&h, &p, &o), -EIO);
	assert_non_null(strstr(e.text, "LINK_TYPE_P1"));
	ASSERT_EQ(o.done, 0);
	ASSERT_EQ(o.left, 2);
	card.forgets_write = false;
	ASSERT_EQ(undo(&h, &o), 0);
	ASSERT_EQ(card.stored[1], 0xa5a5a505);
	host_close(&h);
	host_remove(&lab);
}

/*
 * The process is killed before the journal marks the step as done: undo reverts the write if it was
 * executed, and otherwise does nothing.
 */
static void test_undo_after_a_kill_reverts_only_an_executed_write(void **state)
{
	auto_host_plan struct host_plan p = {0};
	const struct host_kind *k = host_kind_find("link-type");
	struct host_outcome o;
	struct host_lab lab;
	struct host h;

	(void)state;
	host_make(&lab, &h, true);
	ASSERT_EQ(plan(&h, "roce", &p), 0);
	for (int carried_out = 0; carried_out < 2; carried_out++) {
		auto_host_journal struct host_journal j = HOST_JOURNAL_INIT;
		size_t index;

		ASSERT_EQ(host_journal_open(&j, &h.root, HOST_STATE_DIR, true, &e), 0);
		ASSERT_EQ(host_journal_intent(&j, &p.v[0], &index, &e), 0);
		if (carried_out)
			ASSERT_EQ(k->act(&h, &p.v[0].action, &e), 0);
		host_journal_close(&j);
		ASSERT_EQ(undo(&h, &o), 0);
		ASSERT_EQ(o.done, carried_out);
		ASSERT_EQ(card.stored[1], 0xa5a5a505);
	}
	host_close(&h);
	host_remove(&lab);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_link_type_is_changed_by_fwctl),
		cmocka_unit_test(test_lost_firmware_write_is_a_failure),
		cmocka_unit_test(test_undo_after_a_kill_reverts_only_an_executed_write),
	};

	return T_RUN(tests, NULL, NULL);
}
