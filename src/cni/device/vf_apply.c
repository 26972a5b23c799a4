/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/device/vf_apply.h"
#include "cni/device/vf_plan.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/alloc.h"
#include "base/log.h"

enum { TRIES = 20, PAUSE_MS = 100 };

/* Attributes whose value must be read back as it was set. Not every driver reports rates and link
 * states. */
enum { READ_BACK = VF_ATTR_ALL & ~(VF_ATTR_RATE | VF_ATTR_LINK_STATE) };

static void wait_a_little(void)
{
	nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000L}, NULL);
}

static bool passes(int code)
{
	return code == -EBUSY || code == -EAGAIN || code == -ETIMEDOUT;
}

/* State of a job: want.set has the attributes that are still to be set. */
struct work {
	struct vf_job job;
	unsigned int attrs[VF_ATTRS_MAX];
	size_t first, n; /* position and number of the job's messages in the batch */
};

static void put_all(struct work *list, size_t n, struct nl_batch *b)
{
	for (size_t i = 0; i < n; i++) {
		list[i].first = nl_batch_len(b);
		list[i].n = vf_plan_batch(&list[i].job.want, &list[i].job.ref, b, list[i].attrs);
	}
}

/* If the driver refuses to clear the administrative MAC, requests the MAC job.instead and returns
 * true. */
static bool take_instead(struct work *w, unsigned int attr)
{
	struct vf_job *j = &w->job;

	if (attr != VF_ATTR_MAC || !j->instead.len || !mac_is_zero(&j->want.to.mac))
		return false;
	log_warn("driver refuses to clear a VF's administrative MAC, setting the MAC to which "
		 "the VF is restored instead",
		 LOG_S("pf", j->ref.pf), LOG_I("vf", j->ref.vf));
	j->want.to.mac = j->instead;
	j->instead.len = 0;
	return true;
}

/* Sets e to the error of the attribute `attr` and returns code. `first`: the failed message is the
 * batch's first failure, which e describes already. */
static int fatal(const struct work *w, unsigned int attr, int code, bool first, struct err *e)
{
	if (!first || !e)
		err_set(e, code, "set VF %u of '%s': %s: %s", w->job.ref.vf, w->job.ref.pf,
			vf_attr_name(attr), errno_text(code));
	if (code == -EOPNOTSUPP)
		return err_kind(e, ERR_UNSUPPORTED, code,
				"%s (the PF's driver does not support it: remove conf.%s)",
				e ? e->text : "", vf_attr_name(attr));
	/* igb and ixgbe refuse a rate limit without a carrier. */
	if (code == -EINVAL && attr == VF_ATTR_RATE && e)
		err_kind(e, e->kind, code,
			 "%s (more than the link's rate, or PF '%s' has no carrier)", e->text,
			 w->job.ref.pf);
	return code;
}

/* Returns 0 if all messages succeeded, 1 if some must be retried; -errno: a message of job *bad
 * failed and is not retried. */
static int judge(struct work *list, size_t n, const struct nl_batch *b, size_t *bad, struct err *e)
{
	bool first = true, again = false;

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < list[i].n; k++) {
			int code = nl_batch_result(b, list[i].first + k);

			if (code >= 0)
				continue;
			*bad = i;
			if (!passes(code) && !take_instead(&list[i], list[i].attrs[k]))
				return fatal(&list[i], list[i].attrs[k], code, first, e);
			first = false;
			again = true;
		}
	return again;
}

/* Reads the VFs back and leaves in want.set the attributes that did not take effect: of all
 * attributes if `busy`, otherwise of READ_BACK. Returns 1 if there are any, 0 if none; -errno on
 * failure. */
static int read_back(struct nl_wire *w, struct work *list, size_t n, bool busy, size_t *bad,
		     struct err *e)
{
	unsigned int left = 0;

	for (size_t i = 0; i < n; i++) {
		struct vf_attrs *want = &list[i].job.want;
		unsigned int watched = busy ? VF_ATTR_ALL : READ_BACK;
		struct vf_info now;
		int r;

		if (!want->set)
			continue;
		r = vf_get(w, list[i].job.ref.pf_index, list[i].job.ref.pf, list[i].job.ref.vf,
			   &now, e);
		if (r < 0) {
			*bad = i;
			return r;
		}
		if (now.spoofchk < 0)
			watched &= ~(unsigned int)VF_ATTR_SPOOFCHK;
		if (now.trust < 0)
			watched &= ~(unsigned int)VF_ATTR_TRUST;
		if (!now.has_guid)
			watched &= ~(unsigned int)VF_ATTR_GUID;
		want->set = vf_plan_missing(want, &now) & watched;
		if (want->set)
			*bad = i;
		left |= want->set;
	}
	return left != 0;
}

static int did_not_take(const struct work *w, const struct err *busy, struct err *e)
{
	if (busy->code)
		return err_kind(e, ERR_AGAIN, -EBUSY, "%s (retried for %d s)", busy->text,
				TRIES * PAUSE_MS / 1000);
	if (w->job.want.set & VF_ATTR_MAC)
		return err_kind(e, ERR_AGAIN, -EAGAIN,
				"hardware mac address is different from requested one (VF %u of "
				"'%s', %d s after it was set)",
				w->job.ref.vf, w->job.ref.pf, TRIES * PAUSE_MS / 1000);
	return err_kind(e, ERR_AGAIN, -EAGAIN,
			"VF %u of '%s': the driver accepted %s but did not apply it within %d s",
			w->job.ref.vf, w->job.ref.pf, vf_attr_name(w->job.want.set),
			TRIES * PAUSE_MS / 1000);
}

static int apply(struct nl_wire *w, struct work *list, size_t n, size_t *bad, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct err busy = ERR_INIT;

	for (int i = 0; i < TRIES; i++) {
		int again, left;

		if (i)
			wait_a_little();
		err_clear(&busy);
		nl_batch_reset(b);
		put_all(list, n, b);
		if (!nl_batch_len(b))
			return 0;
		nl_batch_commit(w, b, &busy);
		again = judge(list, n, b, bad, &busy);
		if (again < 0) {
			if (e)
				*e = busy;
			return again;
		}
		left = read_back(w, list, n, again > 0, bad, e);
		if (left <= 0)
			return left;
	}
	return did_not_take(&list[*bad], &busy, e);
}

int vf_apply(struct nl_wire *w, const struct vf_job *jobs, size_t n, size_t *bad, struct err *e)
{
	auto_free struct work *list = xcalloc(n, sizeof(*list));
	size_t at = 0;
	int r;

	for (size_t i = 0; i < n; i++)
		list[i].job = jobs[i];
	r = n ? apply(w, list, n, &at, e) : 0;
	if (r < 0 && bad)
		*bad = at;
	return r;
}

/* --- the VF's own MAC --- */

static int set_mac(struct nl_wire *w, const struct link *l, const struct mac *mac, struct err *e)
{
	const struct link_change c = {.set = LINK_SET_MAC, .mac = *mac};
	auto_batch struct nl_batch *b = nl_batch_new();

	link_set(b, l->index, l->name, &c);
	return nl_batch_commit(w, b, e);
}

/* Sets the VF's link up and down, which resets the VF: only then do some drivers (igbvf) read the
 * MAC that was set on the PF. Ignores a failure to set the link up. */
static void reset(struct nl_wire *w, const struct link *l)
{
	const struct link_change up = {.set = LINK_SET_UP}, down = {.set = LINK_SET_DOWN};
	auto_batch struct nl_batch *b = nl_batch_new();

	link_set(b, l->index, l->name, &up);
	link_set(b, l->index, l->name, &down);
	nl_batch_commit(w, b, NULL);
}

static bool is_final(int code)
{
	return code == -EOPNOTSUPP || code == -EPERM || code == -EINVAL || code == -ENODEV;
}

int vf_apply_link_mac(struct nl_wire *w, int index, const struct mac *mac, struct err *e)
{
	struct err reason = ERR_INIT;
	char text[MAC_TEXT_MAX], other[MAC_TEXT_MAX];
	struct link l = {0};
	int r;

	for (int i = 0; i < TRIES; i++) {
		if (i > 1)
			wait_a_little();
		r = link_get_index(w, index, &l, e);
		if (r < 0 || mac_eq(&l.mac, mac))
			return r < 0 ? r : 0;
		err_clear(&reason);
		r = set_mac(w, &l, mac, &reason);
		if (is_final(r)) {
			if (e)
				*e = reason;
			return r;
		}
		if (r < 0 && i == 0)
			reset(w, &l);
	}
	return err_kind(
		e, ERR_AGAIN, -EAGAIN,
		"effective mac address is different from requested one ('%s' has %s, expected "
		"%s%s%s)",
		l.name, mac_str(&l.mac, other), mac_str(mac, text), reason.code ? "; " : "",
		reason.text);
}

const char *vf_attr_name(unsigned int attr)
{
	static const char *const names[] = {"vlan",	"mac",	 "min_tx_rate/max_tx_rate",
					    "spoofchk", "trust", "link_state",
					    "guid"};
	unsigned int i = 0;

	while (i + 1 < sizeof(names) / sizeof(names[0]) && !(attr & 1U << i))
		i++;
	return names[i];
}

/* A VF without a VLAN counts as a VF with VLAN 0 and protocol 802.1Q, whatever protocol the
 * driver reports. */
static struct vf_vlan vlan_of(const struct vf_info *v)
{
	struct vf_vlan vlan = v->vlans[0];

	if (!vlan.id && !vlan.qos)
		vlan.proto = VF_VLAN_8021Q;
	return vlan;
}

static bool vlan_eq(const struct vf_info *a, const struct vf_info *b)
{
	struct vf_vlan x = vlan_of(a), y = vlan_of(b);

	return x.id == y.id && x.qos == y.qos && x.proto == y.proto;
}

unsigned int vf_plan_missing(const struct vf_attrs *want, const struct vf_info *now)
{
	const struct vf_info *to = &want->to;
	unsigned int differs = 0;

	if (!vlan_eq(to, now))
		differs |= VF_ATTR_VLAN;
	if (!mac_eq(&to->mac, &now->mac))
		differs |= VF_ATTR_MAC;
	if (to->min_rate != now->min_rate || to->max_rate != now->max_rate)
		differs |= VF_ATTR_RATE;
	if (to->spoofchk != now->spoofchk)
		differs |= VF_ATTR_SPOOFCHK;
	if (to->trust != now->trust)
		differs |= VF_ATTR_TRUST;
	if (to->link_state != now->link_state)
		differs |= VF_ATTR_LINK_STATE;
	if (to->node_guid != now->node_guid || to->port_guid != now->port_guid)
		differs |= VF_ATTR_GUID;
	return want->set & differs;
}

struct vf_attrs vf_plan_restore(const struct vf_info *was, const struct vf_info *now,
				unsigned int requested)
{
	struct vf_attrs back = {.set = VF_ATTR_ALL, .to = *was};

	if (!was->mac.len)
		back.set &= ~(unsigned int)VF_ATTR_MAC;
	if (!was->has_guid)
		back.set &= ~(unsigned int)VF_ATTR_GUID;
	if (was->spoofchk < 0) {
		back.to.spoofchk = 1;
		back.set &= ~(unsigned int)VF_ATTR_SPOOFCHK | requested;
	}
	if (was->trust < 0) {
		back.to.trust = 0;
		back.set &= ~(unsigned int)VF_ATTR_TRUST | requested;
	}
	back.set = vf_plan_missing(&back, now);
	/* An attribute that was reported before the ADD and is not reported now is restored only if
	 * the ADD changed it. */
	if (now->spoofchk < 0)
		back.set &= ~(unsigned int)VF_ATTR_SPOOFCHK | requested;
	if (now->trust < 0)
		back.set &= ~(unsigned int)VF_ATTR_TRUST | requested;
	return back;
}

struct vf_info vf_plan_guess(const struct vf_info *now, const struct vf_info *sibling,
			     const struct mac *mac)
{
	struct vf_info was = {.vf = now->vf, .mac = {.len = now->mac.len}, .spoofchk = 1};

	if (sibling) {
		was = *sibling;
		was.vf = now->vf;
		was.mac = (struct mac){.len = now->mac.len};
	}
	if (sibling && !mac_is_zero(&sibling->mac))
		was.mac = *mac;
	if (now->spoofchk < 0)
		was.spoofchk = -1;
	if (now->trust < 0)
		was.trust = -1;
	was.has_guid = false;
	return was;
}

static void put_one(struct nl_batch *b, const struct vf_ref *ref, const struct vf_info *to,
		    unsigned int attr)
{
	struct vf_vlan vlan = vlan_of(to);

	switch (attr) {
	case VF_ATTR_VLAN: vf_set_vlan(b, ref, &vlan); break;
	case VF_ATTR_MAC: vf_set_mac(b, ref, &to->mac); break;
	case VF_ATTR_RATE: vf_set_rate(b, ref, to->min_rate, to->max_rate); break;
	case VF_ATTR_SPOOFCHK: vf_set_spoofchk(b, ref, to->spoofchk > 0); break;
	case VF_ATTR_TRUST: vf_set_trust(b, ref, to->trust > 0); break;
	case VF_ATTR_LINK_STATE:
		vf_set_link_state(b, ref, (enum vf_link_state)to->link_state);
		break;
	default: vf_set_node_guid(b, ref, to->node_guid); vf_set_port_guid(b, ref, to->port_guid);
	}
}

size_t vf_plan_batch(const struct vf_attrs *want, const struct vf_ref *ref, struct nl_batch *b,
		     unsigned int attrs[static VF_ATTRS_MAX])
{
	size_t start = nl_batch_len(b), n = 0;

	for (unsigned int attr = 1; attr & VF_ATTR_ALL; attr <<= 1) {
		if (!(want->set & attr))
			continue;
		put_one(b, ref, &want->to, attr);
		while (start + n < nl_batch_len(b))
			attrs[n++] = attr;
	}
	return n;
}
