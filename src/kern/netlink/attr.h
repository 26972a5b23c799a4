/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_NETLINK_ATTR_H
#define UNIRAIL_KERN_NETLINK_ATTR_H

/*
 * Functions for netlink messages and attributes on top of libnl's, only for the .c files of kern/.
 *
 * Writers do not fail: callers limit the length of strings, and create the message with enough
 * room; a writer without enough room aborts the process. Readers accept an attribute that is
 * missing (NULL) or too short: they then return `none`, "" or a struct of zeros.
 */

#include <netlink/attr.h>
#include <netlink/msg.h>

#include "base/ip.h"

/* bytes for attributes; enough for every message without a long list */
enum { MSG_ROOM = 1024 };

/* Creates a message. flags: NLM_F_*; head: header that follows the nlmsghdr (struct ifinfomsg,
 * rtmsg ...); room: bytes for attributes. */
struct nl_msg *msg_new(int type, int flags, const void *head, size_t head_len, size_t room);

void put(struct nl_msg *m, int type, const void *p, size_t n);
void put_u8(struct nl_msg *m, int type, uint8_t v);
void put_u16(struct nl_msg *m, int type, uint16_t v);
void put_u32(struct nl_msg *m, int type, uint32_t v);
void put_be32(struct nl_msg *m, int type, uint32_t v);
void put_str(struct nl_msg *m, int type, const char *s);
void put_ip(struct nl_msg *m, int type, const struct ipaddr *a);
void put_mac(struct nl_msg *m, int type, const struct mac *a);
struct nlattr *nest(struct nl_msg *m, int type);
void nest_end(struct nl_msg *m, struct nlattr *start);

uint8_t get_u8(const struct nlattr *a, uint8_t none);
uint16_t get_u16(const struct nlattr *a, uint16_t none);
uint32_t get_u32(const struct nlattr *a, uint32_t none);
/* Copies a string, truncated to `size` - 1 bytes; "" if the attribute is missing. */
void get_str(const struct nlattr *a, char *ret, size_t size);
/* Reads an address of family 4 or 6. Returns false, and family 0, if the attribute is missing or
 * has another length. */
bool get_ip(const struct nlattr *a, uint8_t family, struct ipaddr *ret);
void get_mac(const struct nlattr *a, struct mac *ret);

/* Fills tb[0..max] with a message's attributes; -EBADMSG: the header of the message is
 * truncated. */
int msg_attrs(const struct nlmsghdr *h, size_t head_len, struct nlattr **tb, int max);
/* Fills tb[0..max] with the attributes nested in `a`; if `a` is NULL, with NULL pointers. */
void nested_attrs(const struct nlattr *a, struct nlattr **tb, int max);

uint8_t family_of(int af); /* converts AF_INET to 4, AF_INET6 to 6, any other family to 0 */
uint8_t af_of(int family); /* the inverse; 0 -> AF_UNSPEC */

#endif
