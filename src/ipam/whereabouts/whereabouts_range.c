/* SPDX-License-Identifier: Apache-2.0 */
/* whereabouts' ranges: "10.0.0.0/24", "10.0.0.5-10.0.0.9/24", and what is left out of them. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "ipam/whereabouts/whereabouts.h"

#define bad(e, ...) err_kind(e, ERR_CONF, -EINVAL, __VA_ARGS__)

enum { SLOPPY_MAX = 128 }; /* longer than any address, some zeros included */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Where the dotted part of an address begins; s.n when there is none. */
static size_t dotted_at(struct span s)
{
	size_t at = 0;

	if (s.n == 0 || !memchr(s.p, '.', s.n))
		return s.n;
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] == ':')
			at = i + 1;
	return at;
}

/* Without the zeros in front of an octet; hex groups keep theirs. */
static int without_zeros(struct span s, char ret[static SLOPPY_MAX], struct span *out)
{
	size_t dotted = dotted_at(s), n = 0;
	bool begins = true; /* of an octet */

	for (size_t i = 0; i < s.n; i++) {
		if (i >= dotted && begins && s.p[i] == '0' && i + 1 < s.n && is_digit(s.p[i + 1]))
			continue;
		if (n == SLOPPY_MAX)
			return -EINVAL;
		begins = i < dotted || s.p[i] == '.';
		ret[n++] = s.p[i];
	}
	*out = (struct span){ret, n};
	return 0;
}

int whereabouts_ip_parse(struct span s, struct ipaddr *ret)
{
	char text[SLOPPY_MAX];
	struct span clean;

	return without_zeros(s, text, &clean) < 0 ? -EINVAL : ip_parse(clean, ret);
}

int whereabouts_net_parse(struct span s, struct ipnet *ret)
{
	char text[SLOPPY_MAX];
	struct span clean;

	return without_zeros(s, text, &clean) < 0 ? -EINVAL : ipnet_parse(clean, ret);
}

static bool given(const char *s)
{
	return s && *s;
}

static int outside(const char *which, const struct whereabouts_range *r, const struct ipaddr *a,
		   struct err *e)
{
	char net[IP_TEXT_MAX], ip[IP_TEXT_MAX];

	return bad(e, "invalid range %s for CIDR %s: %s", which, ipnet_str(&r->net, net),
		   ip_str(a, ip));
}

static void warn_outside(const char *which, const char *text, const struct whereabouts_range *r)
{
	char key[sizeof("range_start")], net[IP_TEXT_MAX];

	snprintf(key, sizeof(key), "range_%s", which);
	log_warn("address is outside the range and is ignored", LOG_S("key", key),
		 LOG_S("address", text), LOG_S("range", ipnet_str(&r->net, net)));
}

/* "FIRST-LAST/LEN"; family 0 in *first and *last means that it is a plain CIDR. */
static int parse_range(const char *text, struct whereabouts_range *r, struct err *e)
{
	struct span rest = span_of(text), first;
	struct ipnet net;

	span_cut(&rest, '-', &first);
	if (!rest.p) {
		if (whereabouts_net_parse(first, &net) < 0)
			return bad(e, "invalid CIDR %s: invalid CIDR address: %s", text, text);
		r->net = ipnet_network(&net);
		return 0;
	}
	if (whereabouts_ip_parse(first, &r->first) < 0)
		return bad(e, "invalid range start IP: %.*s", (int)first.n, first.p);
	if (whereabouts_net_parse(rest, &net) < 0)
		return bad(e,
			   "invalid CIDR (do you have the 'range' parameter set for Whereabouts?) "
			   "'%s': invalid CIDR address: %s",
			   rest.p, rest.p);
	r->net = ipnet_network(&net);
	r->last = net.ip;
	return ipnet_contains(&r->net, &r->first) ? 0 : outside("start", r, &r->first, e);
}

/*
 * range_start or range_end, where the range's text does not give it. One outside the network is
 * ignored with a warning, as the original ignores it: such configurations serve in clusters.
 */
static int parse_bound(const char *which, const char *text, const struct whereabouts_range *r,
		       struct ipaddr *ret, struct err *e)
{
	struct ipaddr a;

	if (ret->family || !given(text))
		return 0;
	if (whereabouts_ip_parse(span_of(text), &a) < 0)
		return bad(e, "range_%s is \"%s\", wants an IP address", which, text);
	if (!ipnet_contains(&r->net, &a)) {
		warn_outside(which, text, r);
		return 0;
	}
	*ret = a;
	return 0;
}

/* Within the network's own first and last usable address, which are also the default. */
static int clamp(struct whereabouts_range *r, struct err *e)
{
	struct ipaddr low = ipnet_first(&r->net), high = ipnet_last(&r->net), odd = {0};
	char a[IP_TEXT_MAX], net[IP_TEXT_MAX];

	low = ip_from_num(low.family, ip_num(&low) + 1);
	high = ip_from_num(high.family, ip_num(&high) - 1);
	if (r->first.family && ip_cmp(&r->first, &high) > 0)
		odd = r->first;
	if (r->last.family && ip_cmp(&r->last, &low) < 0)
		odd = r->last;
	if (odd.family)
		return bad(e, "range of %s: nothing can be given out from %s on%s",
			   ipnet_str(&r->net, net), ip_str(&odd, a),
			   ip_cmp(&odd, &low) < 0 ? " down" : "");
	if (!r->first.family || ip_cmp(&r->first, &low) < 0)
		r->first = low;
	if (!r->last.family || ip_cmp(&r->last, &high) > 0)
		r->last = high;
	return 0;
}

static int set_bounds(struct whereabouts_range *r, struct err *e)
{
	char a[IP_TEXT_MAX], b[IP_TEXT_MAX];

	if (r->net.len > ip_bits(&r->net.ip) - 2)
		return bad(e,
			   "net mask is too short, subnet %s has no usable IP addresses, it is too "
			   "small",
			   ipnet_str(&r->net, a));
	if (r->first.family && r->last.family && ip_cmp(&r->first, &r->last) > 0)
		return bad(e, "range start %s is after range end %s", ip_str(&r->first, a),
			   ip_str(&r->last, b));
	return clamp(r, e);
}

/* A network, or one address. */
static int exclude(const struct whereabouts_range *r, const char *text, struct ip_set *out,
		   struct err *e)
{
	struct span s = span_of(text);
	struct ipnet net;

	if (whereabouts_net_parse(s, &net) < 0) {
		if (whereabouts_ip_parse(s, &net.ip) < 0)
			return bad(
				e,
				"could not parse exclude range, err: \"invalid CIDR address: %s\"",
				text);
		net = ipnet_host(&net.ip);
	}
	if (net.ip.family == r->net.ip.family)
		ip_set_collect(out, &(struct ip_range){ipnet_first(&net), ipnet_last(&net)});
	return 0;
}

static int make(const struct whereabouts_text *t, struct whereabouts_range *r, struct err *e)
{
	struct ip_set out = {0};
	int n = parse_range(given(t->range) ? t->range : "", r, e);

	if (n == 0)
		n = parse_bound("start", t->start, r, &r->first, e);
	if (n == 0)
		n = parse_bound("end", t->end, r, &r->last, e);
	if (n == 0)
		n = set_bounds(r, e);
	if (n < 0)
		return n;
	ip_set_add(&r->usable, &(struct ip_range){r->first, r->last});
	for (size_t i = 0; i < t->n_exclude && n == 0; i++) {
		n = exclude(r, t->exclude[i], &out, e);
		if (n < 0)
			err_wrap(e, n, "exclude[%zu]", i);
	}
	ip_set_merge(&out);
	ip_set_minus(&r->usable, &out);
	ip_set_done(&out);
	return n;
}

int whereabouts_range_make(const struct whereabouts_text *t, const char *place,
			   struct whereabouts_range *ret, struct err *e)
{
	struct whereabouts_range r = {.exclude = t->exclude, .n_exclude = t->n_exclude};
	int n = make(t, &r, e);

	if (n < 0) {
		whereabouts_range_done(&r);
		return err_wrap(e, n, "%s", place);
	}
	*ret = r;
	return 0;
}

void whereabouts_range_done(struct whereabouts_range *r)
{
	ip_set_done(&r->usable);
}
