/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/ipam/spiderpool/spiderpool.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/num.h"

#define FIELD(key, kind, member, ...)                                                              \
	{                                                                                          \
		key, kind, .offset = offsetof(struct spiderpool_conf, member), __VA_ARGS__         \
	}
#define HAS(member) .has = offsetof(struct spiderpool_conf, member)

enum { TRIES_MAX = 20, INTERVAL_MAX_MS = 10 * 1000, TOTAL_MAX_MS = 60 * 1000 };

static const struct json_field detect_fields[] = {
	FIELD("tries", J_INT, tries, .min = 1, .max = TRIES_MAX),
	FIELD("interval_ms", J_INT, interval_ms, .min = 10, .max = INTERVAL_MAX_MS),
	FIELD("total_ms", J_INT, total_ms, .min = 100, .max = TOTAL_MAX_MS),
	FIELD("carrier_ms", J_INT, carrier_ms, .min = 100, .max = TOTAL_MAX_MS),
	{0}};
static const struct json_table detect_table = {detect_fields, JSON_GO, 0};

static const struct json_field fields[] = {
	FIELD("log_level", J_STR, log_level),
	FIELD("log_file_path", J_STR, log_file_path),
	FIELD("log_file_max_size", J_VAL, log_size),
	FIELD("log_file_max_age", J_VAL, log_age),
	FIELD("log_file_max_count", J_VAL, log_count),
	FIELD("default_ipv4_ippool", J_STRS, pools4),
	FIELD("default_ipv6_ippool", J_STRS, pools6),
	FIELD("clean_gateway", J_BOOL, clean_gateway),
	FIELD("match_master_subnet", J_BOOL, match_subnet),
	FIELD("ipam_unix_socket_path", J_STR, socket),
	FIELD("server_state_dir", J_STR, server_state),
	FIELD("pool_dir", J_STR, pool_dir),
	FIELD("state_dir", J_STR, state_dir),
	FIELD("hostlocal_dir", J_STR, hostlocal_dir),
	FIELD("node_name", J_STR, node),
	FIELD("sticky", J_BOOL, sticky),
	FIELD("enable_ip_conflict_detection", J_BOOL, conflict, HAS(has_conflict)),
	FIELD("enable_gateway_detection", J_BOOL, gateway, HAS(has_gateway)),
	{"detect", J_OBJ, .sub = &detect_table},
	{0}};
static const struct json_table table = {fields, JSON_GO, 0};

static int check_dir(const char *key, const char *path, struct err *e)
{
	if (!path || !*path || *path == '/')
		return 0;
	return err_kind(e, ERR_CONF, -EINVAL, "conf.ipam.%s is '%s', wants an absolute path", key,
			path);
}

/* A number, or its digits as a string as the original's documentation has it. */
static int log_number(const char *key, const struct json *v, int64_t otherwise, int64_t *ret,
		      struct err *e)
{
	const char *text = json_string(v);
	int64_t n = 0;

	if (json_kind(v) != JSON_NULL && json_int(v, &n) < 0 &&
	    (!text || num_i64(span_of(text), INT32_MIN, INT32_MAX, &n) < 0))
		return err_kind(e, ERR_CONF, -EINVAL, "conf.ipam.%s wants a whole number", key);
	*ret = n < 0 ? otherwise : n;
	return 0;
}

int spiderpool_conf_log(const struct spiderpool_conf *c, struct log_conf *ret, struct err *e)
{
	struct log_conf l = {.level = LOG_INFO, .format = LOG_JSON};
	int64_t mb, count, age;
	int n;

	if (c->log_level && *c->log_level && log_level_parse(c->log_level, &l.level) < 0)
		return err_kind(e, ERR_CONF, -EINVAL, "unsupported log level %s", c->log_level);
	n = log_number("log_file_max_size", c->log_size, 100, &mb, e);
	if (n == 0)
		n = log_number("log_file_max_age", c->log_age, 30, &age, e);
	if (n == 0)
		n = log_number("log_file_max_count", c->log_count, 10, &count, e);
	if (n < 0)
		return n;
	l.path = c->log_file_path;
	l.max_bytes = (mb ? mb : 100) << 20;
	l.max_files = count > 0 && count < 1000 ? (int)count : 10;
	*ret = l;
	return 0;
}

int spiderpool_conf_read(const struct cni_ipam_call *call, struct spiderpool_conf *ret,
			 struct err *e)
{
	struct spiderpool_conf c = {0};
	struct log_conf unused;
	int r = json_read(call->doc, json_get_go(call->conf, "ipam"), &table, &c, "conf.ipam", e);

	if (r == 0)
		r = check_dir("pool_dir", c.pool_dir, e);
	if (r == 0)
		r = check_dir("ipam_unix_socket_path", c.socket, e);
	if (r == 0)
		r = check_dir("server_state_dir", c.server_state, e);
	if (r == 0)
		r = check_dir("state_dir", c.state_dir, e);
	if (r == 0)
		r = check_dir("hostlocal_dir", c.hostlocal_dir, e);
	if (r == 0)
		r = spiderpool_conf_log(&c, &unused, e);
	if (r == 0)
		*ret = c;
	return r;
}

void spiderpool_conf_store(const struct cni_ipam_call *call, struct spiderpool_conf *ret)
{
	struct err e = ERR_INIT;

	*ret = (struct spiderpool_conf){0};
	if (spiderpool_conf_read(call, ret, &e) == 0)
		return;
	log_warn("configuration is not valid, the default address store is used",
		 LOG_S("error", e.text));
	*ret = (struct spiderpool_conf){0};
}
