/* SPDX-License-Identifier: Apache-2.0 */
#include "fwctl_lab.h"

static uint32_t get(const void *v, size_t dword)
{
	const unsigned char *p = (const unsigned char *)v + 4 * dword;

	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void set(void *v, size_t dword, uint32_t value)
{
	unsigned char *p = (unsigned char *)v + 4 * dword;

	for (int i = 0; i < 4; i++)
		p[i] = (unsigned char)(value >> (24 - 8 * i));
}

static int access_reg(struct fwctl_card *c, unsigned int scope, const void *in, size_t n, void *out)
{
	uint32_t type = get(in, 5), head = get(in, 4), port = type >> 16 & 0xff;
	bool read = (get(in, 1) & 0xffff) == 1;

	ASSERT_EQ(n, 32);
	ASSERT_EQ(get(in, 2), 0x9024);
	ASSERT_EQ(type >> 24, 1);
	ASSERT_EQ(type & 0xffff, 18);
	ASSERT_EQ(head & 0x1ff, 4);
	ASSERT_EQ(scope, read ? 1 : 0);
	if (!c->has_item || port > 2) {
		set(out, 0, 0x03000000);
		set(out, 1, 0xbad0cab1);
		return 0;
	}
	if (!read) {
		c->writes++;
		/* a write must have the version (3) that the answer to a read has */
		ASSERT_EQ(head >> 12 & 0xf, 3);
		if (!c->forgets_write)
			c->stored[port] = get(in, 7);
		return 0;
	}
	set(out, 4, 3 << 12 | 4);
	set(out, 5, type);
	set(out, 7, head >> 22 & 1 ? c->running[port] : c->stored[port]);
	return 0;
}

static int cong(struct fwctl_card *c, unsigned int scope, const void *in, void *out)
{
	bool query = get(in, 0) >> 16 == 0x822;
	bool *list = (get(in, 2) & 0xf) == 1 ? c->rp : c->np;
	uint32_t prio = get(in, 2) >> 4;

	ASSERT_EQ(scope, query ? 1 : 0);
	assert_true(prio < 8);
	if (query)
		set(out, 3, list[prio] ? UINT32_C(1) << 31 : 0);
	else
		list[prio] = get(in, 3) >> 31;
	return 0;
}

int fwctl_card_rpc(struct fwctl *f, unsigned int scope, const void *in, size_t n_in, void *out,
		   size_t n_out)
{
	struct fwctl_card *c = f->arg;

	assert_true(n_in >= 16 && n_out >= 16);
	if (c->fail)
		return -c->fail;
	return get(in, 0) >> 16 == 0x805 ? access_reg(c, scope, in, n_in, out)
					 : cong(c, scope, in, out);
}

struct fwctl fwctl_card_open(struct fwctl_card *c)
{
	return (struct fwctl){
		.fd = -1, .rpc = fwctl_card_rpc, .arg = c, .name = "0000:3b:00.0 (fwctl0)"};
}
