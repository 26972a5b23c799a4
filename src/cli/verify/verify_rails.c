/* SPDX-License-Identifier: Apache-2.0 */
/* Every rail of this namespace against the same rail of the peer. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/verify/verify.h"

enum { FAR_MAX = 1024, CONNECT_MS = 10000 };

static bool same_subnet(const struct ipnet *a, const struct ipnet *b)
{
	struct ipnet x = ipnet_network(a), y = ipnet_network(b);

	return ipnet_eq(&x, &y);
}

/* 3: subnet and interface name, 2: subnet, 1: name, 0: neither. */
static int nearness(const struct verify_rail *near, const struct verify_far *far)
{
	if (far->net.ip.family != near->net.ip.family)
		return 0;
	return 2 * same_subnet(&far->net, &near->net) + !strcmp(far->ifname, near->ifname);
}

void verify_match(const struct verify_rail *near, size_t n, const struct verify_far *far,
		  size_t n_far, int *ret)
{
	for (size_t i = 0; i < n; i++) {
		int best = 0;

		ret[i] = -1;
		for (size_t k = 0; k < n_far; k++) {
			int is = nearness(&near[i], &far[k]);

			if (is <= best)
				continue;
			best = is;
			ret[i] = (int)k;
		}
	}
}

static int ask_far(const struct verify_place *to, struct verify_far **ret, size_t *n, struct err *e)
{
	auto_verify_conn struct verify_conn c = VERIFY_CONN_INIT;
	auto_free struct verify_far *list = NULL;
	struct verify_msg m = {.verb = VERIFY_RAILS};
	int r = verify_connect(&c, to, CONNECT_MS, e);

	if (r == 0)
		r = verify_put(&c, &m, e);
	while (r == 0) {
		r = verify_get(&c, &m, VERIFY_TIMEOUT_MS, e);
		if (r < 0 || m.verb != VERIFY_RAIL)
			break;
		if (*n == FAR_MAX)
			return err_set(e, -EMSGSIZE, "the peer has more than %d rails", FAR_MAX);
		struct verify_far *far = &VEC_PUSH(list, *n);

		str_copy(far->ifname, sizeof(far->ifname), m.ifname);
		str_copy(far->device, sizeof(far->device), m.device);
		far->net = m.net;
	}
	if (r < 0)
		return r;
	if (m.verb != VERIFY_DONE)
		return err_set(e, -EPROTO, "the peer said '%s', wants 'done'",
			       verify_verb_name(m.verb));
	*ret = take(list);
	return 0;
}

static void run_one(const struct verify_facts *f, const struct verify_place *to,
		    const struct verify_test *t, const struct verify_rail *near,
		    const struct verify_far *far, struct verify_result *ret)
{
	struct verify_test one = *t;

	*ret = (struct verify_result){.net = near->net, .gid_index = near->gid_index};
	str_copy(ret->ifname, sizeof(ret->ifname), near->ifname);
	str_copy(ret->device, sizeof(ret->device), near->dev->name);
	if (!far) {
		err_set(&ret->err, -ENOENT,
			"the peer has no RDMA address in this subnet, and none on an interface of "
			"this name");
		return;
	}
	ret->peer_net = far->net;
	str_copy(ret->peer_ifname, sizeof(ret->peer_ifname), far->ifname);
	str_copy(ret->peer_device, sizeof(ret->peer_device), far->device);
	one.at = far->net.ip;
	verify_run(f, to, &one, ret, NULL);
}

int verify_run_all(const struct verify_facts *f, const struct verify_place *to,
		   const struct verify_test *t, struct verify_result **ret, size_t *n,
		   struct err *e)
{
	auto_free struct verify_rail *near = NULL;
	auto_free struct verify_far *far = NULL;
	auto_free int *match = NULL;
	size_t n_near, n_far = 0;
	int r;

	verify_rails(f, &near, &n_near);
	if (!n_near) {
		const struct ipaddr any = {.family = 4};
		struct verify_rail rail;

		r = f->n_devs ? 0 : verify_pick(f, &any, &t->choice, &rail, e);
		return r < 0 ? r
			     : err_kind(e, ERR_UNAVAILABLE, -ENODEV,
					"no address of this network namespace has an RDMA device "
					"behind it; see 'unirail rdma dev'");
	}
	r = ask_far(to, &far, &n_far, e);
	if (r < 0)
		return r;
	match = xcalloc(n_near, sizeof(*match));
	verify_match(near, n_near, far, n_far, match);
	*ret = xcalloc(n_near, sizeof(**ret));
	*n = n_near;
	for (size_t i = 0; i < n_near; i++)
		run_one(f, to, t, &near[i], match[i] < 0 ? NULL : &far[match[i]], &(*ret)[i]);
	return 0;
}
