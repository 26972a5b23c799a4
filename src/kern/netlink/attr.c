/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/netlink/attr.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static void need(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "unirail: netlink message: %s\n", what);
	abort();
}

struct nl_msg *msg_new(int type, int flags, const void *head, size_t head_len, size_t room)
{
	struct nl_msg *m = nlmsg_alloc_size(NLMSG_HDRLEN + NLMSG_ALIGN(head_len) + room);

	need(m != NULL, "out of memory");
	need(nlmsg_put(m, 0, 0, type, 0, NLM_F_REQUEST | flags) != NULL,
	     "no room for the message header");
	if (head_len)
		need(nlmsg_append(m, (void *)(uintptr_t)head, head_len, NLMSG_ALIGNTO) == 0,
		     "no room for the header of the family");
	return m;
}

void put(struct nl_msg *m, int type, const void *p, size_t n)
{
	need(n <= UINT16_MAX - NLA_HDRLEN && nla_put(m, type, (int)n, p) == 0,
	     "no room for an attribute");
}

void put_u8(struct nl_msg *m, int type, uint8_t v)
{
	put(m, type, &v, sizeof(v));
}

void put_u16(struct nl_msg *m, int type, uint16_t v)
{
	put(m, type, &v, sizeof(v));
}

void put_u32(struct nl_msg *m, int type, uint32_t v)
{
	put(m, type, &v, sizeof(v));
}

void put_be32(struct nl_msg *m, int type, uint32_t v)
{
	put_u32(m, type, htonl(v));
}

void put_str(struct nl_msg *m, int type, const char *s)
{
	put(m, type, s, strlen(s) + 1);
}

void put_ip(struct nl_msg *m, int type, const struct ipaddr *a)
{
	put(m, type, a->b, ip_size(a));
}

void put_mac(struct nl_msg *m, int type, const struct mac *a)
{
	put(m, type, a->b, a->len);
}

struct nlattr *nest(struct nl_msg *m, int type)
{
	struct nlattr *a = nla_nest_start(m, type);

	need(a != NULL, "no room for a nested attribute");
	return a;
}

void nest_end(struct nl_msg *m, struct nlattr *start)
{
	nla_nest_end(m, start);
}

static bool holds(const struct nlattr *a, size_t n)
{
	return a && nla_len(a) >= (int)n;
}

uint8_t get_u8(const struct nlattr *a, uint8_t none)
{
	return holds(a, sizeof(uint8_t)) ? nla_get_u8(a) : none;
}

uint16_t get_u16(const struct nlattr *a, uint16_t none)
{
	return holds(a, sizeof(uint16_t)) ? nla_get_u16(a) : none;
}

uint32_t get_u32(const struct nlattr *a, uint32_t none)
{
	return holds(a, sizeof(uint32_t)) ? nla_get_u32(a) : none;
}

void get_str(const struct nlattr *a, char *ret, size_t size)
{
	size_t n = a ? strnlen(nla_data(a), (size_t)nla_len(a)) : 0;

	if (n >= size)
		n = size - 1;
	if (n)
		memcpy(ret, nla_data(a), n);
	ret[n] = '\0';
}

bool get_ip(const struct nlattr *a, uint8_t family, struct ipaddr *ret)
{
	struct ipaddr ip = {.family = family};

	*ret = (struct ipaddr){0};
	if (!a || !family || nla_len(a) != (int)ip_size(&ip))
		return false;
	memcpy(ip.b, nla_data(a), ip_size(&ip));
	*ret = ip;
	return true;
}

void get_mac(const struct nlattr *a, struct mac *ret)
{
	*ret = (struct mac){0};
	if (!a || nla_len(a) > MAC_MAX)
		return;
	ret->len = (uint8_t)nla_len(a);
	memcpy(ret->b, nla_data(a), ret->len);
}

static void parse(const struct nlattr *first, int len, struct nlattr **tb, int max)
{
	/* nla_parse() clears tb. It fails only if an attribute violates a policy. No policy is
	 * passed: each reader checks the length of its attribute. */
	nla_parse(tb, max, (struct nlattr *)(uintptr_t)first, len, NULL);
}

int msg_attrs(const struct nlmsghdr *h, size_t head_len, struct nlattr **tb, int max)
{
	if (!nlmsg_valid_hdr(h, (int)head_len))
		return -EBADMSG;
	parse(nlmsg_attrdata(h, (int)head_len), nlmsg_attrlen(h, (int)head_len), tb, max);
	return 0;
}

void nested_attrs(const struct nlattr *a, struct nlattr **tb, int max)
{
	if (a)
		parse(nla_data(a), nla_len(a), tb, max);
	else
		memset(tb, 0, sizeof(*tb) * (size_t)(max + 1));
}

uint8_t family_of(int af)
{
	return af == AF_INET ? 4 : af == AF_INET6 ? 6 : 0;
}

uint8_t af_of(int family)
{
	return family == 4 ? AF_INET : family == 6 ? AF_INET6 : AF_UNSPEC;
}
