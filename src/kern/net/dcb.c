/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/net/dcb.h"

#include <errno.h>
#include <string.h>

#include <linux/dcbnl.h>
#include <linux/if.h>
#include <linux/rtnetlink.h>

#include "kern/netlink/attr.h"

_Static_assert(sizeof(struct ieee_ets) == 59 && sizeof(struct ieee_pfc) == 136 &&
		       sizeof(struct dcbnl_buffer) == 44 && sizeof(struct dcb_entry) == 4,
	       "expected the sizes of the kernel's structures");

/* APPS_MAX: limit of entries in one request, two for each DSCP; APPS_ROOM: bytes of their
 * attributes. */
enum { APPS_MAX = 2 * DCB_DSCPS, APPS_ROOM = APPS_MAX * 8 };

static struct nl_msg *request(int type, uint8_t cmd, int flags, const char *ifname)
{
	struct dcbmsg head = {.cmd = cmd};
	struct nl_msg *m = msg_new(type, flags, &head, sizeof(head), MSG_ROOM + APPS_ROOM);

	put_str(m, DCB_ATTR_IFNAME, ifname);
	return m;
}

static int check_name(const char *ifname, struct err *e)
{
	if (ifname[0] && strlen(ifname) < IFNAMSIZ)
		return 0;
	return err_kind(e, ERR_CONF, -EINVAL,
			"invalid interface name '%.40s': expected 1 to 15 bytes", ifname);
}

/* --- read of DCB settings --- */

/* Returns false if the attribute is missing or shorter than the structure. Newer kernels may append members. */
static bool get_struct(const struct nlattr *a, void *ret, size_t n)
{
	if (!a || (size_t)nla_len(a) < n)
		return false;
	memcpy(ret, nla_data(a), n);
	return true;
}

static bool read_ets(const struct nlattr *a, struct dcb_ets *ret)
{
	struct ieee_ets v;

	if (!get_struct(a, &v, sizeof(v)))
		return false;
	ret->willing = v.willing;
	ret->max_tcs = v.ets_cap;
	ret->cbs = v.cbs;
	memcpy(ret->tx_bw, v.tc_tx_bw, sizeof(ret->tx_bw));
	memcpy(ret->rx_bw, v.tc_rx_bw, sizeof(ret->rx_bw));
	memcpy(ret->tsa, v.tc_tsa, sizeof(ret->tsa));
	memcpy(ret->prio_tc, v.prio_tc, sizeof(ret->prio_tc));
	return true;
}

static bool read_pfc(const struct nlattr *a, struct dcb_pfc *ret)
{
	struct ieee_pfc v;

	if (!get_struct(a, &v, sizeof(v)))
		return false;
	ret->max_tcs = v.pfc_cap;
	ret->enabled = v.pfc_en;
	ret->mbc = v.mbc;
	ret->delay = v.delay;
	memcpy(ret->sent, v.requests, sizeof(ret->sent));
	memcpy(ret->received, v.indications, sizeof(ret->received));
	return true;
}

static bool read_buffers(const struct nlattr *a, struct dcb_buffers *ret)
{
	struct dcbnl_buffer v;

	if (!get_struct(a, &v, sizeof(v)))
		return false;
	memcpy(ret->prio_buffer, v.prio2buffer, sizeof(ret->prio_buffer));
	memcpy(ret->size, v.buffer_size, sizeof(ret->size));
	ret->total = v.total_size;
	return true;
}

/* Calls `take` for each entry of a DCB application table. */
static void read_apps(const struct nlattr *table, void (*take)(struct dcb *, struct dcb_entry),
		      struct dcb *d)
{
	struct nlattr *a;
	int rest;

	if (!table)
		return;
	nla_for_each_nested(a, table, rest)
	{
		struct dcb_entry app;

		if (get_struct(a, &app, sizeof(app)))
			take(d, app);
	}
}

/* Uses the higher priority if a DSCP has two entries, like drivers
 * (dcb_ieee_getapp_dscp_prio_mask_map()). */
static void take_app(struct dcb *d, struct dcb_entry app)
{
	if (app.selector == DCB_SEL_DSCP && app.protocol < DCB_DSCPS && app.priority < DCB_PRIOS &&
	    d->dscp_prio[app.protocol] < (int8_t)app.priority)
		d->dscp_prio[app.protocol] = (int8_t)app.priority;
}

static void take_peer_app(struct dcb *d, struct dcb_entry app)
{
	if (d->n_peer_apps < DCB_PEER_APPS_MAX)
		d->peer_apps[d->n_peer_apps++] = app;
}

static void read_trust(const struct nlattr *table, struct dcb *d)
{
	struct nlattr *a;
	int rest;

	if (!table)
		return;
	nla_for_each_nested(a, table, rest) if (d->n_trust < DCB_TRUST_MAX)
		d->trust[d->n_trust++] = get_u8(a, 0);
}

static int take_reply(void *msg, void *arg)
{
	struct nlattr *tb[DCB_ATTR_MAX + 1], *ieee[DCB_ATTR_IEEE_MAX + 1];
	struct dcb *d = arg;
	int r = msg_attrs(msg, sizeof(struct dcbmsg), tb, DCB_ATTR_MAX);

	if (r < 0)
		return r;
	nested_attrs(tb[DCB_ATTR_IEEE], ieee, DCB_ATTR_IEEE_MAX);
	d->has_ets = read_ets(ieee[DCB_ATTR_IEEE_ETS], &d->ets);
	d->has_pfc = read_pfc(ieee[DCB_ATTR_IEEE_PFC], &d->pfc);
	d->has_buffers = read_buffers(ieee[DCB_ATTR_DCB_BUFFER], &d->buffers);
	d->has_peer_ets = read_ets(ieee[DCB_ATTR_IEEE_PEER_ETS], &d->peer_ets);
	d->has_peer_pfc = read_pfc(ieee[DCB_ATTR_IEEE_PEER_PFC], &d->peer_pfc);
	read_apps(ieee[DCB_ATTR_IEEE_APP_TABLE], take_app, d);
	read_apps(ieee[DCB_ATTR_IEEE_PEER_APP], take_peer_app, d);
	read_trust(ieee[DCB_ATTR_DCB_APP_TRUST_TABLE], d);
	d->has_dcbx = tb[DCB_ATTR_DCBX] != NULL;
	d->dcbx = get_u8(tb[DCB_ATTR_DCBX], 0);
	return 0;
}

bool dcb_trusts_dscp(const struct dcb *d)
{
	if (d->n_trust)
		return d->trust[0] == DCB_SEL_DSCP;
	for (size_t i = 0; i < DCB_DSCPS; i++)
		if (d->dscp_prio[i] >= 0)
			return true;
	return false;
}

static int no_dcb(const char *ifname, const char *action, struct err *e)
{
	return err_kind(e, ERR_UNAVAILABLE, -EOPNOTSUPP,
			"%s DCB of '%s': Operation not supported (EOPNOTSUPP): the driver or "
			"firmware does not support it on this interface; a VF uses the "
			"settings of its PF",
			action, ifname);
}

int dcb_get(struct nl_wire *w, const char *ifname, struct dcb *ret, struct err *e)
{
	struct dcb d;
	int r = check_name(ifname, e);

	if (r < 0)
		return r;
	memset(&d, 0, sizeof(d));
	memset(d.dscp_prio, -1, sizeof(d.dscp_prio));
	r = nl_request(w, request(RTM_GETDCB, DCB_CMD_IEEE_GET, 0, ifname), take_reply, NULL, &d,
		       e);
	if (r == -EOPNOTSUPP)
		return no_dcb(ifname, "read", e);
	if (r < 0)
		return err_wrap(e, r, "read DCB of '%s'", ifname);
	*ret = d;
	return 0;
}

/* --- change of DCB settings --- */

/* An IEEE_SET or IEEE_DEL request, to which the functions below add attributes. */
struct change {
	struct nl_msg *m;
	struct nlattr *ieee;
};

static struct change begin(uint8_t cmd, const char *ifname)
{
	struct nl_msg *m = request(RTM_SETDCB, cmd, NLM_F_ACK, ifname);

	return (struct change){m, nest(m, DCB_ATTR_IEEE)};
}

static int commit(struct nl_wire *w, struct change *c, const char *ifname, const char *what,
		  struct err *e)
{
	int r;

	nest_end(c->m, c->ieee);
	r = nl_request(w, c->m, NULL, NULL, NULL, e);
	if (r == -EOPNOTSUPP)
		return no_dcb(ifname, "set", e);
	return r < 0 ? err_wrap(e, r, "set %s of '%s'", what, ifname) : 0;
}

static int set_one(struct nl_wire *w, const char *ifname, int type, const void *v, size_t n,
		   const char *what, struct err *e)
{
	struct change c;
	int r = check_name(ifname, e);

	if (r < 0)
		return r;
	c = begin(DCB_CMD_IEEE_SET, ifname);
	put(c.m, type, v, n);
	return commit(w, &c, ifname, what, e);
}

int dcb_set_pfc(struct nl_wire *w, const char *ifname, const struct dcb_pfc *pfc, struct err *e)
{
	struct ieee_pfc v;

	memset(&v, 0, sizeof(v));
	v.pfc_cap = pfc->max_tcs;
	v.pfc_en = pfc->enabled;
	v.mbc = pfc->mbc;
	v.delay = pfc->delay;
	return set_one(w, ifname, DCB_ATTR_IEEE_PFC, &v, sizeof(v), "PFC", e);
}

int dcb_set_ets(struct nl_wire *w, const char *ifname, const struct dcb_ets *ets, struct err *e)
{
	struct ieee_ets v;

	memset(&v, 0, sizeof(v));
	v.willing = ets->willing;
	v.ets_cap = ets->max_tcs;
	v.cbs = ets->cbs;
	memcpy(v.tc_tx_bw, ets->tx_bw, sizeof(v.tc_tx_bw));
	memcpy(v.tc_rx_bw, ets->tx_bw, sizeof(v.tc_rx_bw));
	memcpy(v.tc_tsa, ets->tsa, sizeof(v.tc_tsa));
	memcpy(v.prio_tc, ets->prio_tc, sizeof(v.prio_tc));
	return set_one(w, ifname, DCB_ATTR_IEEE_ETS, &v, sizeof(v), "ETS", e);
}

int dcb_set_buffers(struct nl_wire *w, const char *ifname, const struct dcb_buffers *b,
		    struct err *e)
{
	struct dcbnl_buffer v;

	memset(&v, 0, sizeof(v));
	memcpy(v.prio2buffer, b->prio_buffer, sizeof(v.prio2buffer));
	memcpy(v.buffer_size, b->size, sizeof(v.buffer_size));
	return set_one(w, ifname, DCB_ATTR_DCB_BUFFER, &v, sizeof(v), "buffers", e);
}

static int change_apps(struct nl_wire *w, uint8_t cmd, const char *ifname,
		       const struct dcb_entry *v, size_t n, struct err *e)
{
	struct nlattr *table;
	struct change c;
	int r = check_name(ifname, e);

	if (r < 0 || !n)
		return r;
	if (n > APPS_MAX)
		return err_set(e, -E2BIG,
			       "change the DCB APP table of '%s': %zu entries, expected at most %d",
			       ifname, n, APPS_MAX);
	c = begin(cmd, ifname);
	table = nest(c.m, DCB_ATTR_IEEE_APP_TABLE);
	for (size_t i = 0; i < n; i++)
		put(c.m, v[i].selector == DCB_SEL_PCP ? DCB_ATTR_DCB_APP : DCB_ATTR_IEEE_APP, &v[i],
		    sizeof(v[i]));
	nest_end(c.m, table);
	return commit(w, &c, ifname, "priorities by DSCP", e);
}

int dcb_add_apps(struct nl_wire *w, const char *ifname, const struct dcb_entry *v, size_t n,
		 struct err *e)
{
	return change_apps(w, DCB_CMD_IEEE_SET, ifname, v, n, e);
}

int dcb_del_apps(struct nl_wire *w, const char *ifname, const struct dcb_entry *v, size_t n,
		 struct err *e)
{
	return change_apps(w, DCB_CMD_IEEE_DEL, ifname, v, n, e);
}

/* Reads the driver's result in the reply: 0, or 1 for a mode that it refuses. */
static int take_dcbx(void *msg, void *arg)
{
	struct nlattr *tb[DCB_ATTR_MAX + 1];
	int r = msg_attrs(msg, sizeof(struct dcbmsg), tb, DCB_ATTR_MAX);

	if (r == 0)
		*(uint8_t *)arg = get_u8(tb[DCB_ATTR_DCBX], 0);
	return r;
}

int dcb_set_dcbx(struct nl_wire *w, const char *ifname, uint8_t mode, struct err *e)
{
	struct nl_msg *m;
	uint8_t refused = 0;
	int r = check_name(ifname, e);

	if (r < 0)
		return r;
	m = request(RTM_SETDCB, DCB_CMD_SDCBX, NLM_F_ACK, ifname);
	put_u8(m, DCB_ATTR_DCBX, mode);
	r = nl_request(w, m, take_dcbx, NULL, &refused, e);
	if (r == -EOPNOTSUPP)
		return no_dcb(ifname, "set", e);
	if (r < 0)
		return err_wrap(e, r, "set the DCBX mode of '%s'", ifname);
	if (refused)
		return err_set(e, -EINVAL, "set the DCBX mode of '%s' to %u: the driver refuses it",
			       ifname, mode);
	return 0;
}
