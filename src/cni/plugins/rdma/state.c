/* SPDX-License-Identifier: Apache-2.0 */
/* The record of the moved device, in a file for DEL, CHECK and GC. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cni/plugins/rdma/rdma_plugin.h"

#define STATE_LOCK RDMA_STATE_DIR "/.lock"

enum {
	STATE_MAX = 64 << 10,
	STATE_MODE = 0600,
	STATE_DIR_MODE = 0700,
	STATE_LOCK_MS = 30000,
};

struct raw {
	const char *version, *device, *host_name, *in_pod, *network, *container, *ifname, *netns;
};

static const struct json_field fields[] = {
	JSON_FIELD("version", J_STR, struct raw, version),
	JSON_FIELD("deviceID", J_STR, struct raw, device),
	JSON_FIELD("sandboxRdmaDevName", J_STR, struct raw, host_name),
	JSON_FIELD("containerRdmaDevName", J_STR, struct raw, in_pod),
	JSON_FIELD("network", J_STR, struct raw, network),
	JSON_FIELD("containerID", J_STR, struct raw, container),
	JSON_FIELD("ifname", J_STR, struct raw, ifname),
	JSON_FIELD("netns", J_STR, struct raw, netns),
	{0},
};
static const struct json_table table = {fields, JSON_GO, sizeof(struct raw)};

void rdma_state_print(const struct rdma_state *s, struct buf *b)
{
	struct json_out o;

	jo_init(&o, b, 0);
	jo_obj(&o);
	jo_kstr(&o, "version", "1.0");
	jo_kstr(&o, "deviceID", s->device);
	jo_kstr(&o, "sandboxRdmaDevName", s->host_name);
	jo_kstr(&o, "containerRdmaDevName", s->in_pod);
	if (s->network[0]) {
		jo_kstr(&o, "network", s->network);
		jo_kstr(&o, "containerID", s->container);
		jo_kstr(&o, "ifname", s->ifname);
		jo_kstr(&o, "netns", s->netns);
	}
	jo_end_obj(&o);
}

static bool copy(char *to, size_t size, const char *from)
{
	return str_copy(to, size, from ? from : "");
}

int rdma_state_parse(struct span text, struct rdma_state *ret, struct err *e)
{
	auto_json struct json_doc *d = NULL;
	struct rdma_state s = {.device = ""};
	struct raw raw = {0};

	if (json_parse(&d, text, STATE_MAX, e) < 0 ||
	    json_read(d, json_root(d), &table, &raw, "state", e) < 0)
		return -EINVAL;
	if (!raw.host_name || !rdma_name_ok(raw.host_name))
		return err_set(e, -EINVAL,
			       "state.sandboxRdmaDevName is '%s', expected a device's name",
			       raw.host_name ? raw.host_name : "");
	if (!raw.in_pod || !*raw.in_pod)
		raw.in_pod = raw.host_name;
	if (!copy(s.device, sizeof(s.device), raw.device) ||
	    !copy(s.host_name, sizeof(s.host_name), raw.host_name) ||
	    !copy(s.in_pod, sizeof(s.in_pod), raw.in_pod) ||
	    !copy(s.network, sizeof(s.network), raw.network) ||
	    !copy(s.container, sizeof(s.container), raw.container) ||
	    !copy(s.ifname, sizeof(s.ifname), raw.ifname) ||
	    !copy(s.netns, sizeof(s.netns), raw.netns))
		return err_set(e, -EINVAL,
			       "the name of a device, network, container, interface "
			       "or network namespace in the state file is too long");
	*ret = s;
	return 0;
}

char *rdma_state_path(const char *network, const char *container, const char *ifname)
{
	return xasprintf(RDMA_STATE_DIR "/%s-%s-%s", network, container, ifname);
}

int rdma_state_load(const struct root *r, const char *path, struct rdma_state *ret, struct err *e)
{
	auto_buf struct buf text;
	int code;

	buf_init(&text, STATE_MAX + 1);
	code = file_read(r, path, STATE_MAX, &text, e);
	if (code >= 0)
		code = rdma_state_parse(buf_span(&text), ret, e);
	return code < 0 ? err_wrap(e, code, "read '%s'", path) : 0;
}

int rdma_state_save(const struct root *r, const char *path, const struct rdma_state *s,
		    struct err *e)
{
	auto_buf struct buf text;
	auto_fd int lock = -1;
	int code = dir_make(r, RDMA_STATE_DIR, STATE_DIR_MODE, e);

	buf_init(&text, STATE_MAX);
	rdma_state_print(s, &text);
	if (code >= 0)
		code = lock_take(r, STATE_LOCK, STATE_LOCK_MS, &lock, e);
	if (code >= 0)
		code = file_replace(r, path, buf_span(&text), STATE_MODE, e);
	if (code >= 0)
		return 0;
	err_default_kind(e, ERR_IO);
	return err_wrap(e, code, "save the state of RDMA device '%s'", s->host_name);
}

void rdma_state_sweep(const struct root *r)
{
	auto_fd int lock = -1;

	if (lock_take(r, STATE_LOCK, 0, &lock, NULL) >= 0)
		file_sweep_dir(r, RDMA_STATE_DIR);
}

static bool find(const struct root *r, const char *device, const char *but, struct rdma_state *ret)
{
	char **names = NULL;
	bool found = false;
	size_t n = 0;

	if (dir_list(r, RDMA_STATE_DIR, &names, &n, NULL) < 0)
		return false;
	for (size_t i = 0; i < n && !found; i++) {
		auto_free char *path = xasprintf(RDMA_STATE_DIR "/%s", names[i]);
		struct rdma_state s;

		if (names[i][0] == '.' || strcmp(path, but) == 0 ||
		    rdma_state_load(r, path, &s, NULL) < 0 || strcmp(s.device, device) != 0)
			continue;
		*ret = s;
		found = true;
	}
	str_list_free(names, n);
	return found;
}

int rdma_state_held(const struct root *r, const char *device, const char *but, struct err *e)
{
	struct rdma_state s;

	if (e && find(r, device, but, &s) && s.container[0])
		err_kind(e, e->kind, -EBUSY,
			 "%s (given to container '%s', interface '%s', network namespace '%s')",
			 e->text, s.container, s.ifname, s.netns);
	return -EBUSY;
}

bool rdma_state_is_stale(const struct cni_call *c, const char *name, const struct rdma_state *s)
{
	size_t n = strlen(c->name);

	if (s->network[0])
		return strcmp(s->network, c->name) == 0 &&
		       !cni_is_valid(c, s->container, s->ifname);
	return strncmp(name, c->name, n) == 0 && name[n] == '-' &&
	       cni_file_is_stale(c, name + n + 1);
}
