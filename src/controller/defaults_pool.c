/* SPDX-License-Identifier: Apache-2.0 */
/* A subnet and a pool by settings. What is not valid in them the API server says, or our admission. */
#include <ctype.h>
#include <string.h>

#include "base/cleanup.h"
#include "controller/defaults.h"
#include "kube/kinds.h"

static bool is_between(char c)
{
	return c && (strchr(",\"'[]", c) || isspace((unsigned char)c));
}

/* "10.6.0.2-10.6.0.9,10.6.0.20", or as Helm writes a list: ["10.6.0.2-10.6.0.9","10.6.0.20"] */
static void put_ranges(struct json_out *o, const char *text)
{
	jo_key(o, "ips");
	jo_arr(o);
	while (text && *text) {
		size_t n = 0;

		while (text[n] && !is_between(text[n]))
			n++;
		if (n > 0) {
			auto_free char *range = span_dup((struct span){text, n});

			jo_str(o, range);
		}
		text += n + (text[n] != '\0');
	}
	jo_end_arr(o);
}

static void put(struct buf *b, const struct defaults_pool *p, const char *kind, const char *name,
		bool is_default)
{
	struct json_out o;

	jo_init(&o, b, 0);
	jo_obj(&o);
	jo_kstr(&o, "apiVersion", SPIDERPOOL_API);
	jo_kstr(&o, "kind", kind);
	jo_key(&o, "metadata");
	jo_obj(&o);
	jo_kstr(&o, "name", name);
	jo_end_obj(&o);
	jo_key(&o, "spec");
	jo_obj(&o);
	jo_kstr(&o, "subnet", p->cidr ? p->cidr : "");
	put_ranges(&o, p->ips);
	if (p->gateway)
		jo_kstr(&o, "gateway", p->gateway);
	if (is_default)
		jo_kbool(&o, "default", true);
	jo_end_obj(&o);
	jo_end_obj(&o);
}

void defaults_subnet(struct buf *b, const struct defaults_pool *p)
{
	put(b, p, "SpiderSubnet", p->subnet, false);
}

void defaults_pool(struct buf *b, const struct defaults_pool *p)
{
	put(b, p, "SpiderIPPool", p->name, true);
}
