/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/net/altname.h"

#include <errno.h>
#include <string.h>

#include "kern/net/uapi_link.h"
#include <linux/rtnetlink.h>

#include "base/buf.h"
#include "base/file.h"
#include "kern/netlink/attr.h"

struct names {
	char **v;
	size_t n;
};

static int collect(void *msg, void *arg)
{
	const struct nlmsghdr *h = msg;
	struct nlattr *tb[IFLA_MAX + 1], *a;
	struct names *names = arg;
	char name[ALTNAME_MAX];
	int rest, r;

	if (h->nlmsg_type != RTM_NEWLINK)
		return 0;
	r = msg_attrs(h, sizeof(struct ifinfomsg), tb, IFLA_MAX);
	if (r < 0 || !tb[IFLA_PROP_LIST])
		return r < 0 ? r : 0;
	nla_for_each_nested(a, tb[IFLA_PROP_LIST], rest)
	{
		if (nla_type(a) != IFLA_ALT_IFNAME)
			continue;
		get_str(a, name, sizeof(name));
		VEC_PUSH(names->v, names->n) = xstrdup(name);
	}
	return 0;
}

static void forget(void *arg)
{
	struct names *names = arg;

	str_list_free(names->v, names->n);
	*names = (struct names){0};
}

int altname_list(struct nl_wire *w, int index, char ***names, size_t *n, struct err *e)
{
	struct ifinfomsg head = {.ifi_index = index};
	struct nl_msg *m = msg_new(RTM_GETLINK, 0, &head, sizeof(head), MSG_ROOM);
	struct names found = {0};
	int r;

	put_u32(m, IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
	r = nl_request(w, m, collect, forget, &found, e);
	if (r < 0) {
		forget(&found);
		return err_wrap(e, r, "list alternative names of link %d", index);
	}
	*names = found.v;
	*n = found.n;
	return 0;
}

static size_t change(struct nl_batch *b, int type, int nl_flags, unsigned int flags, int index,
		     const char *what, const char *name, const char *altname)
{
	struct ifinfomsg head = {.ifi_index = index};
	struct nlattr *list;
	struct nl_msg *m;

	if (!altname[0] || strlen(altname) >= ALTNAME_MAX)
		return nl_batch_refuse(b, -EINVAL, "expected 1 to 127 bytes",
				       "%s alternative name '%s' of link '%s'", what, altname,
				       name);
	m = msg_new(type, nl_flags, &head, sizeof(head), MSG_ROOM);
	list = nest(m, IFLA_PROP_LIST);
	put_str(m, IFLA_ALT_IFNAME, altname);
	nest_end(m, list);
	return nl_batch_add(b, m, flags, "%s alternative name '%s' of link '%s'", what, altname,
			    name);
}

size_t altname_add(struct nl_batch *b, int index, const char *name, const char *altname)
{
	return change(b, RTM_NEWLINKPROP, NLM_F_CREATE | NLM_F_EXCL | NLM_F_APPEND, 0, index, "add",
		      name, altname);
}

size_t altname_del(struct nl_batch *b, int index, const char *name, const char *altname)
{
	return change(b, RTM_DELLINKPROP, 0, NL_OK_ABSENT, index, "delete", name, altname);
}
