/* SPDX-License-Identifier: Apache-2.0 */
#include "kern_lab.h"

#include <errno.h>

#include "base/alloc.h"
#include "kern/net/altname.h"

static void test_alternative_names_are_added_and_deleted(void **state)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct kern_lab l;
	char **names = NULL;
	size_t n;
	int index;

	(void)state;
	kern_open(&l);
	index = kern_veth(&l, "net1", "peer");
	OK(altname_list(l.w, index, &names, &n, &e));
	ASSERT_EQ(n, 0);
	altname_add(b, index, "net1", "enp59s0f0v3-with-a-long-name");
	altname_add(b, index, "net1", "ens1f0v3");
	kern_commit(&l, b);
	OK(altname_list(l.w, index, &names, &n, &e));
	ASSERT_EQ(n, 2);
	ASSERT_STR_EQ(names[0], "enp59s0f0v3-with-a-long-name");
	str_list_free(names, n);
	altname_add(b, index, "net1", "peer");
	ASSERT_EQ(nl_batch_commit(l.w, b, &e), -EEXIST);
	nl_batch_reset(b);
	altname_del(b, index, "net1", "ens1f0v3");
	altname_del(b, index, "net1", "ens1f0v3");
	kern_commit(&l, b);
	altname_add(b, index, "net1", "");
	FAILS(nl_batch_commit(l.w, b, &e), -EINVAL,
	      "add alternative name '' of link 'net1': Invalid argument (EINVAL): expected 1 to 127 bytes");
	kern_close(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_alternative_names_are_added_and_deleted),
	};

	return T_RUN(tests, NULL, NULL);
}
