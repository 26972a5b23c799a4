/* SPDX-License-Identifier: Apache-2.0 */
/* What each network's plugins see of the call, and the rails and NICs made from their objects. */
#include <string.h>

#include "base/cleanup.h"
#include "cni/multi/all_in_one.h"

enum { ARGS_MAX = 1 << 16 };

char *aio_later_args(const char *text)
{
	static const char *const first_only[] = {"MAC=", "IP=", "GATEWAY="};
	struct span rest = span_of(text), pair;
	struct buf b;

	buf_init(&b, strlen(text) + 1);
	while (span_cut(&rest, ';', &pair)) {
		bool drop = false;

		for (size_t i = 0; i < ARRAY_LEN(first_only); i++)
			drop |= span_has_prefix(pair, first_only[i]);
		if (drop)
			continue;
		if (b.len)
			buf_char(&b, ';');
		buf_add(&b, pair.p, pair.n);
	}
	return buf_take(&b);
}

const struct cni_call *aio_call(const struct aio *x, size_t i)
{
	return &x->nets[i].call;
}

/* Whose "ipam" it is: the plugin's own, or the defaults'. */
struct cni_ipam_call aio_ipam_call(const struct aio *x, size_t i)
{
	const struct aio_net *net = &x->nets[i];
	const struct json *conf = net->main.conf;

	if (json_kind(json_get_go(conf, "ipam")) == JSON_NULL)
		conf = x->defaults;
	return (struct cni_ipam_call){
		.call = aio_call(x, i),
		.doc = x->call->doc,
		.conf = conf && *cni_ipam_type(conf) ? conf : NULL,
		.name = net->name,
		.ifname = net->ifname,
		.version = net->call.version,
		.nad = net->nad && strchr(net->nad, '/') ? net->nad : NULL,
		.own_args = net->own_args,
	};
}

static struct rail_source source_of(const struct aio *x, const struct aio_net *net)
{
	return (struct rail_source){
		.doc = x->call->doc, .defaults = x->defaults, .conf = net->main.conf};
}

static struct rail *add_rail(struct aio *x, size_t i)
{
	struct rail *rail = &x->rails[x->n_rails++];

	*rail = (struct rail){
		.kind = x->nets[i].kind,
		.label = x->nets[i].label,
		.ifname = x->nets[i].ifname,
		.ipam = aio_ipam_call(x, i),
	};
	return rail;
}

void aio_read_rails(struct aio *x)
{
	x->rails = xcalloc(x->n_nets, sizeof(*x->rails));
	for (size_t i = 0; i < x->n_nets; i++) {
		const struct rail_source s = source_of(x, &x->nets[i]);

		if (x->nets[i].kind)
			attach_read_conf(add_rail(x, i), &s);
	}
}

/* CNI_ARGS is the first network's, or its own. */
static int read_rail(struct aio *x, size_t i, struct err *e)
{
	struct rail_source s = source_of(x, &x->nets[i]);
	struct rail *rail = add_rail(x, i);
	struct cni_args args = {0};
	auto_buf struct buf keep;
	int r;

	buf_init(&keep, ARGS_MAX);
	r = cni_args_parse(x->nets[i].call.args_text, &args, &keep, e);
	if (r < 0)
		return r;
	s.args_mac = args.mac;
	return rail->kind->read(&s, &rail->conf, e);
}

static int read_net(struct aio *x, size_t i, struct err *e)
{
	struct aio_net *net = &x->nets[i];
	struct co_nic *nic = &x->nics[i];
	int r = 0;

	*nic = (struct co_nic){.ifname = net->ifname,
			       .network = net->name,
			       .label = net->label,
			       .prev = &net->call.prev};
	if (net->kind)
		r = read_rail(x, i, e);
	if (r >= 0 && net->co) {
		r = co_conf_read(x->call->doc, net->co, &net->co_conf, e);
		nic->conf = &net->co_conf;
		x->n_co++;
	}
	return r < 0 ? err_wrap(e, r, "%s", net->label) : 0;
}

int aio_read_plugins(struct aio *x, struct err *e)
{
	auto_buf struct buf keep;
	struct cni_args args = {0};
	int r;

	buf_init(&keep, ARGS_MAX);
	r = cni_args_parse(x->call->args_text, &args, &keep, e);
	if (r < 0)
		return r;
	x->rails = xcalloc(x->n_nets, sizeof(*x->rails));
	x->nics = xcalloc(x->n_nets, sizeof(*x->nics));
	for (size_t i = 0; r >= 0 && i < x->n_nets; i++)
		r = read_net(x, i, e);
	return r;
}
