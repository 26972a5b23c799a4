/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BASE_IP_H
#define UNIRAIL_BASE_IP_H

/*
 * IP and MAC addresses as values. Text forms are those of Go (net.IP.String, lower-case RFC 5952
 * IPv6), because state files and results must be equal to those of the Go programs.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

enum { IP_TEXT_MAX = 64, MAC_MAX = 32, MAC_TEXT_MAX = 3 * MAC_MAX };

struct ipaddr {
	uint8_t family; /* 4 or 6; 0: no address */
	uint8_t b[16];	/* network order; IPv4 uses the first 4 */
};

struct ipnet {
	struct ipaddr ip; /* may have host bits */
	uint8_t len;
};

struct mac {
	uint8_t len; /* 6: Ethernet, 8: EUI-64 or GUID, 20: IPoIB, 0: no address */
	uint8_t b[MAC_MAX];
};

/* Parsers return 0 or -EINVAL; on failure *ret is unchanged. Like Go, they refuse IPv4 octets with
 * leading zeros, and convert an IPv4-mapped IPv6 address to IPv4 (net.ParseIP then To4). */
int ip_parse(struct span s, struct ipaddr *ret);
/* "4", "v4" or "IPv4" gives 4; "6", "v6" or "IPv6" gives 6; in upper or lower case */
int ip_family_parse(struct span s, uint8_t *ret);
int ipnet_parse(struct span s, struct ipnet *ret);	 /* CIDR; host bits are not cleared */
int ipnet_parse_loose(struct span s, struct ipnet *ret); /* CIDR, or a bare address (/32, /128) */
/* as net.ParseMAC: 6, 8 or 20 bytes; separator ':', '-' or '.' */
int mac_parse(struct span s, struct mac *ret);

const char *ip_str(const struct ipaddr *a, char buf[static IP_TEXT_MAX]);
const char *ipnet_str(const struct ipnet *n, char buf[static IP_TEXT_MAX]);
const char *mac_str(const struct mac *m, char buf[static MAC_TEXT_MAX]);

unsigned int ip_bits(const struct ipaddr *a); /* 32 or 128 */
unsigned int ip_size(const struct ipaddr *a); /* 4 or 16 bytes */
bool ip_eq(const struct ipaddr *a, const struct ipaddr *b);
/* compares the families, then the addresses as numbers */
int ip_cmp(const struct ipaddr *a, const struct ipaddr *b);
int ip_order(const void *a, const void *b); /* ip_cmp() for qsort() and bsearch() */
bool mac_eq(const struct mac *a, const struct mac *b);
int mac_cmp(const struct mac *a, const struct mac *b); /* compares the length, then the bytes */
bool mac_is_zero(const struct mac *a);
bool ip_is_unspecified(const struct ipaddr *a);
bool ip_is_link_local(const struct ipaddr *a); /* 169.254/16, fe80::/10 */
bool ip_is_multicast(const struct ipaddr *a);
bool ip_is_loopback(const struct ipaddr *a);

bool ipnet_contains(const struct ipnet *n, const struct ipaddr *a);
bool ipnet_eq(const struct ipnet *a, const struct ipnet *b);
bool ipnet_overlaps(const struct ipnet *a, const struct ipnet *b);
bool ipnet_has_host_bits(const struct ipnet *n);
struct ipnet ipnet_network(const struct ipnet *n); /* returns the network with host bits cleared */
struct ipaddr ipnet_first(const struct ipnet *n);
struct ipaddr ipnet_last(const struct ipnet *n);
/* returns the address with its full length: a/32 or a/128 */
struct ipnet ipnet_host(const struct ipaddr *a);
bool ipnet_is_default(const struct ipnet *n); /* 0.0.0.0/0 or ::/0 */

/* 128-bit arithmetic on addresses; callers must not mix families. */
__extension__ typedef unsigned __int128 u128;
u128 ip_num(const struct ipaddr *a);
struct ipaddr ip_from_num(uint8_t family, u128 n);
/* Computes a + n; returns false if the result exceeds the family's address space. */
bool ip_add(const struct ipaddr *a, u128 n, struct ipaddr *ret);

#endif
