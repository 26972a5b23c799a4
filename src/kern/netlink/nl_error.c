/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/netlink/nl_priv.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "kern/netlink/attr.h"

/* The kernel's words go into one line of ours. */
static void one_line(char *s)
{
	size_t n = strlen(s);

	for (char *p = s; *p; p++) {
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			*p = ' ';
	}
	while (n > 0 && (s[n - 1] == ' ' || s[n - 1] == '.'))
		s[--n] = '\0';
}

static void ext_ack(const struct nlmsghdr *h, size_t skip, struct nl_error *ret)
{
	struct nlattr *tb[NLMSGERR_ATTR_MAX + 1];

	if (!(h->nlmsg_flags & NLM_F_ACK_TLVS) || msg_attrs(h, skip, tb, NLMSGERR_ATTR_MAX) < 0)
		return;
	get_str(tb[NLMSGERR_ATTR_MSG], ret->text, sizeof(ret->text));
	one_line(ret->text);
}

/* Without NLM_F_CAPPED the whole request stands between the code and the attributes. */
static size_t error_head(const struct nlmsghdr *h, const struct nlmsgerr *err)
{
	size_t n = sizeof(*err);

	if (!(h->nlmsg_flags & NLM_F_CAPPED) && err->msg.nlmsg_len > NLMSG_HDRLEN)
		n += err->msg.nlmsg_len - NLMSG_HDRLEN;
	return n < (size_t)nlmsg_datalen(h) ? n : (size_t)nlmsg_datalen(h);
}

int nl_error_parse(const struct nlmsghdr *h, struct nl_error *ret)
{
	bool done = h->nlmsg_type == NLMSG_DONE;
	int code = 0;

	*ret = (struct nl_error){0};
	if (done && nlmsg_datalen(h) < (int)sizeof(code))
		return 0; /* old kernels and RDMA netlink send an empty one */
	if (!done && nlmsg_datalen(h) < (int)sizeof(struct nlmsgerr))
		return -EBADMSG;
	memcpy(&code, nlmsg_data(h), sizeof(code));
	ret->code = code < 0 && code >= -4095 ? code : code ? -EBADMSG : 0;
	ext_ack(h, done ? sizeof(code) : error_head(h, nlmsg_data(h)), ret);
	return 0;
}

/* What people grep for, and what to do about it. */
static const struct meaning {
	int code;
	enum err_kind kind;
	const char *text;
} meanings[] = {
	{-EPERM, ERR_UNAVAILABLE, "needs CAP_NET_ADMIN: run as root"},
	{-EBUSY, ERR_AGAIN, NULL},
	{-EAGAIN, ERR_AGAIN, NULL},
	{-EINTR, ERR_AGAIN, "the list kept changing while it was read"},
	{-ENOBUFS, ERR_AGAIN, "the kernel's answer was lost, so the outcome is unknown"},
	{-ETIMEDOUT, ERR_AGAIN, "no answer from the kernel"},
	{-EBADMSG, ERR_OTHER, "malformed answer from the kernel"},
	{-EMSGSIZE, ERR_OTHER, "does not fit a netlink message"},
	{-EOPNOTSUPP, ERR_UNAVAILABLE, NULL},
	{-EAFNOSUPPORT, ERR_UNAVAILABLE, "this kernel lacks the address family"},
	{-EPROTONOSUPPORT, ERR_UNAVAILABLE, "this kernel lacks the netlink protocol"},
};

static const struct meaning *meaning_of(int code)
{
	static const struct meaning none = {0, ERR_OTHER, NULL};

	for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++) {
		if (meanings[i].code == code)
			return &meanings[i];
	}
	return &none;
}

static const char *remedy(const struct nl_error *why)
{
	/* rtnetlink's answer to a kind nobody registered, after it tried to load the module */
	if (why->code == -EOPNOTSUPP && !strcasecmp(why->text, "unknown device type"))
		return ": load the kernel module of this kind";
	return "";
}

int nl_error_set(struct err *e, const struct nl_error *why)
{
	const struct meaning *m = meaning_of(why->code);
	const char *words = m->text ? m->text : "";

	return err_kind(e, m->kind, why->code, "%s%s%s%s%s%s", errno_text(why->code),
			*words ? ": " : "", words, why->text[0] ? ": " : "", why->text,
			remedy(why));
}
