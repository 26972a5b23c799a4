/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/probe/probe.h"

#include <errno.h>

void probe_words(const struct probe *p, struct err *e)
{
	char ip[IP_TEXT_MAX], gw[IP_TEXT_MAX], mac[MAC_TEXT_MAX];

	switch (p->state) {
	case PROBE_CONFLICT:
		ip_str(&p->ip, ip);
		err_kind(
			e, ERR_AGAIN, -EADDRINUSE,
			"rail %s: ip conflict: pod's interface %s with an conflicting ip %s, %s is "
			"located at %s",
			p->ifname, p->ifname, ip, ip,
			p->other.len ? mac_str(&p->other, mac) : "an unknown link address");
		break;
	case PROBE_UNREACHABLE:
		err_kind(e, ERR_AGAIN, -EHOSTUNREACH, "rail %s: gateway %s is unreachable",
			 p->ifname, ip_str(&p->gateway, gw));
		break;
	case PROBE_FAILED:
		if (e)
			*e = p->why;
		err_wrap(e, p->why.code, "rail %s", p->ifname);
		break;
	case PROBE_NONE:
	case PROBE_OK: break;
	}
}
