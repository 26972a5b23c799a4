/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/protocol/ipam_call.h"

#include <errno.h>
#include <stdint.h>

struct cni_ipam_call cni_ipam_call_of(const struct cni_call *c)
{
	return (struct cni_ipam_call){
		.call = c,
		.doc = c->doc,
		.conf = c->conf,
		.type = cni_ipam_type(c->conf),
		.name = c->name,
		.ifname = c->ifname,
		.version = c->version,
	};
}

#define FIELD(key, kind, member, ...)                                                              \
	JSON_FIELD(key, kind, struct ipam_request, member, ##__VA_ARGS__)

static const struct json_field runtime_fields[] = {
	FIELD("ips", J_STRS, runtime_ips, JSON_DOC(NULL, "requested addresses")),
	FIELD("ipRanges", J_VAL, ip_ranges,
	      JSON_DOC(NULL, "list of lists of ranges, in the form of host-local's key ranges")),
	{0}};
static const struct json_field cni_fields[] = {FIELD("ips", J_STRS, args_ips,
						     JSON_DOC(NULL, "requested addresses")),
					       {0}};
static const struct json_table runtime_table = {runtime_fields, JSON_GO, 0};
static const struct json_table cni_table = {cni_fields, JSON_GO, 0};

/* No offset: the sub-objects fill the same struct ipam_request. */
static const struct json_field args_fields[] = {
	{"cni", J_OBJ, .sub = &cni_table,
	 JSON_DOC(NULL, "from cni-args in the pod's network annotation")},
	{0}};
static const struct json_table args_table = {args_fields, JSON_GO, 0};
static const struct json_field fields[] = {
	FIELD("ipam", J_VAL, ipam, JSON_DOC(NULL, "this plugin's keys")),
	{"runtimeConfig", J_OBJ, .sub = &runtime_table, JSON_DOC(NULL, "from the runtime")},
	{"args", J_OBJ, .sub = &args_table, JSON_DOC(NULL, "from the pod's network annotation")},
	{0}};
const struct json_table ipam_request_table = {fields, JSON_GO, 0};

int ipam_request_read(const struct cni_ipam_call *call, struct ipam_request *ret, struct err *e)
{
	int r;

	*ret = (struct ipam_request){0};
	buf_init(&ret->keep, SIZE_MAX / 2);
	r = json_read(call->doc, call->conf, &ipam_request_table, ret, "conf", e);
	if (r < 0)
		return r;
	if (!ret->ipam)
		return err_kind(e, ERR_CONF, -EINVAL, "IPAM config missing 'ipam' key");
	return cni_args_parse(call->call->args_text, &ret->args, &ret->keep, e);
}

void ipam_request_done(struct ipam_request *r)
{
	buf_done(&r->keep);
}

int ipam_check_families(const struct cni_ipam_call *call, size_t n4, size_t n6, struct err *e)
{
	if (call->version >= CNI_0_3_0 || (n4 <= 1 && n6 <= 1))
		return 0;
	return err_kind(e, ERR_CONF, -EINVAL,
			"CNI version %s does not support more than 1 address per family",
			cni_version_str(call->version));
}

const char *cni_ipam_type(const struct json *conf)
{
	const char *type = json_string(json_get_go(json_get_go(conf, "ipam"), "type"));

	return type ? type : "";
}
