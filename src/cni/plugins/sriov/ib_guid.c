/* SPDX-License-Identifier: Apache-2.0 */
/* GUIDs of VFs that nobody gave one. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/num.h"
#include "cni/plugins/sriov/ib_sriov.h"
#include "wire/tls/digest.h"

enum { IPOIB_ADDRESS = 20 };

bool ib_guid_valid(uint64_t guid)
{
	return guid && guid != UINT64_MAX;
}

uint64_t ib_guid_of_link(const struct mac *mac)
{
	uint64_t guid = 0;

	if (mac->len != IPOIB_ADDRESS)
		return 0;
	for (size_t i = IPOIB_ADDRESS - 8; i < IPOIB_ADDRESS; i++)
		guid = guid << 8 | mac->b[i];
	return guid;
}

int ib_guid_pool_parse(const char *text, struct ib_guid_pool *ret, struct err *e)
{
	struct span rest = span_of(text), first = {0}, last = {0};
	struct ib_guid_pool p;

	if (span_cut(&rest, '-', &first) && span_cut(&rest, '-', &last) && !rest.p &&
	    vf_guid_parse(first, &p.first) == 0 && vf_guid_parse(last, &p.last) == 0 &&
	    p.first <= p.last && p.last != UINT64_MAX) {
		*ret = p;
		return 0;
	}
	return err_kind(e, ERR_CONF, -EINVAL,
			"conf.guidPool is '%s', wants a range of GUIDs such as "
			"02:00:00:00:00:00:01:00-02:00:00:00:00:00:01:ff",
			text);
}

int ib_guid_from_pool(const struct ib_guid_pool *p, uint64_t n, uint64_t *ret, struct err *e)
{
	if (n > p->last - p->first)
		return err_kind(e, ERR_UNAVAILABLE, -ERANGE,
				"conf.guidPool has %llu GUIDs, and this is VF %llu of the node "
				"(counting those that its HCAs could have, from 0): make it larger",
				(unsigned long long)(p->last - p->first + 1),
				(unsigned long long)n);
	*ret = p->first + n;
	return 0;
}

/* EUI-64: the second lowest bit of the first byte says that nobody but us gave it. */
uint64_t ib_guid_derive(const char *pf, uint32_t vf)
{
	auto_free char *text = xasprintf("unirail VF GUID %s %u", pf, vf);
	char hex[DIGEST_HEX];
	uint64_t guid = 0;

	digest_sha256(span_of(text), hex);
	hex[16] = '\0';
	(void)num_hex(span_of(hex), UINT64_MAX, &guid);
	return (guid & ~(3ULL << 56)) | 2ULL << 56;
}

int ib_guid_place(const struct root *r, const char *pf, uint32_t vf, uint64_t *ret, struct err *e)
{
	auto_free struct pci_dev *list = NULL;
	struct pci_dev self;
	uint64_t before = 0;
	size_t n = 0;
	int code = pci_read(r, pf, &self, e);

	if (code >= 0)
		code = pci_list(r, &list, &n, e);
	if (code < 0)
		return code;
	for (size_t i = 0; i < n && strcmp(list[i].bdf, pf) != 0; i++)
		if (list[i].is_pf && list[i].class >> 8 == self.class >> 8)
			before += list[i].total_vfs;
	*ret = before + vf;
	return 0;
}
