/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/resources: configurations on recorded hosts. NAME.json is the case, NAME.expected the
 * expected text: resources with the number and the first six of their devices, the response to
 * Allocate for the first two devices of each, and the messages. With the environment variable
 * EXPECTED=write the test writes the expected files again; review them before the commit.
 */
#include "host_lab.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "device/resource/allocate.h"
#include "device/resource/plan.h"
#include "wire/json/json.h"

enum { TEXT_MAX = 1 << 20, SHOWN_MAX = 6, HOSTS_MAX = 16, CASES_MIN = 60 };

#define CASES TEST_DATA "resources/"

static struct lab_host {
	char name[64];
	struct host_lab lab;
} hosts[HOSTS_MAX];
static size_t n_hosts;

static const struct root *host(const char *name)
{
	for (size_t i = 0; i < n_hosts; i++)
		if (strcmp(hosts[i].name, name) == 0)
			return &hosts[i].lab.root;
	assert_true(n_hosts < HOSTS_MAX);
	str_copy(hosts[n_hosts].name, sizeof(hosts[0].name), name);
	host_unpack(&hosts[n_hosts].lab, name);
	return &hosts[n_hosts++].lab.root;
}

static void read_text(const char *path, struct buf *b)
{
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);

	buf_init(b, TEXT_MAX);
	if (fd < 0)
		fail_msg("%s is missing: EXPECTED=write writes it", path);
	ASSERT_EQ(fd_read_all(fd, TEXT_MAX, b, NULL), 0);
}

static void put_devices(const struct resource *r, struct json_out *o)
{
	struct resource_id id;
	size_t n = resource_ids(r);

	jo_kint(o, "count", (int64_t)n);
	jo_key(o, "devices");
	jo_arr(o);
	for (size_t i = 0; i < n && i < SHOWN_MAX; i++) {
		auto_buf struct buf b;

		resource_id_at(r, i, &id);
		ASSERT_EQ(resource_id_number(r, id.id), i);
		buf_init(&b, 256);
		buf_str(&b, id.id);
		for (size_t k = 0; k < id.n_numa; k++)
			buf_printf(&b, "%s%d", k ? "," : " numa ", id.numa[k]);
		buf_printf(&b, "%s%s", id.unhealthy ? " unhealthy: " : "",
			   id.unhealthy ? id.unhealthy : "");
		jo_str(o, b.p);
	}
	jo_end_arr(o);
}

static void put_allocated(const struct answer *a, struct json_out *o)
{
	jo_obj(o);
	jo_key(o, "envs");
	jo_obj(o);
	for (size_t i = 0; i < a->n_envs; i++)
		jo_kstr(o, a->envs[i].key, a->envs[i].value);
	jo_end_obj(o);
	jo_key(o, "devices");
	jo_arr(o);
	for (size_t i = 0; i < a->n_nodes; i++) {
		const struct answer_node *n = &a->nodes[i];
		auto_free char *line =
			strcmp(n->host, n->container) == 0
				? xasprintf("%s %s", n->host, n->permissions)
				: xasprintf("%s -> %s %s", n->host, n->container, n->permissions);

		jo_str(o, line);
	}
	jo_end_arr(o);
	if (a->n_cdi) {
		jo_key(o, "cdi");
		jo_arr(o);
		for (size_t i = 0; i < a->n_cdi; i++)
			jo_str(o, a->cdi[i]);
		jo_end_arr(o);
	}
	jo_key(o, "files");
	jo_obj(o);
	for (size_t i = 0; i < a->n_files; i++)
		jo_kstr(o, a->files[i].path, a->files[i].text);
	jo_end_obj(o);
	jo_end_obj(o);
}

/* Requests the second device before the first, since the kubelet may use any order. */
static void put_answer(const struct resources *s, const struct resource *r, bool cdi,
		       struct json_out *o)
{
	auto_answer struct answer a = {0};
	struct resource_id ids[2];
	const char *asked[2];
	struct err e = ERR_INIT;
	size_t n = resource_ids(r) < 2 ? resource_ids(r) : 2;

	for (size_t i = 0; i < n; i++) {
		resource_id_at(r, n - 1 - i, &ids[i]);
		asked[i] = ids[i].id;
	}
	if (!n)
		return;
	ASSERT_OK(resource_allocate(s, r, asked, n, cdi, &a, &e), &e);
	jo_key(o, "answer");
	put_allocated(&a, o);
	if (!cdi)
		return;
	auto_buf struct buf spec;
	auto_free char *path = resource_cdi_path(r->conf);

	buf_init(&spec, TEXT_MAX);
	resource_cdi_write(s, r, NULL, &spec);
	jo_kstr(o, "cdiPath", path);
	jo_kstr(o, "cdiSpec", spec.p);
}

static void put_all(const struct resources *s, const struct resource_messages *messages, bool cdi,
		    struct buf *b)
{
	struct json_out o;

	jo_init(&o, b, 2);
	jo_obj(&o);
	jo_key(&o, "resources");
	jo_obj(&o);
	for (size_t i = 0; i < s->n; i++) {
		jo_key(&o, s->v[i].conf->full);
		jo_obj(&o);
		put_devices(&s->v[i], &o);
		put_answer(s, &s->v[i], cdi, &o);
		jo_end_obj(&o);
	}
	jo_end_obj(&o);
	jo_key(&o, "messages");
	jo_arr(&o);
	for (size_t i = 0; i < messages->n; i++) {
		auto_free char *line = xasprintf(
			"%s: %s", messages->v[i].level == MESSAGE_ERROR ? "error" : "warning",
			messages->v[i].text);

		jo_str(&o, line);
	}
	jo_end_arr(&o);
	jo_end_obj(&o);
	buf_char(b, '\n');
}

static void add_config(const struct json *v, const struct resource_defaults *d,
		       struct resource_config *c, struct resource_messages *messages)
{
	auto_buf struct buf b;
	struct err e = ERR_INIT;
	struct json_out o;

	buf_init(&b, TEXT_MAX);
	jo_init(&o, &b, 0);
	/* A configuration that is a string is used as raw text, which need not be valid JSON. */
	if (json_string(v))
		buf_str(&b, json_string(v));
	else
		jo_val(&o, v, false);
	if (resource_config_add(c, buf_span(&b), "config.json", d, messages, &e) < 0)
		resource_report(messages, MESSAGE_ERROR, NULL, "%s", e.text);
}

static void run(const struct json *in, struct buf *out)
{
	auto_node_devices struct node_devices node = {0};
	auto_resource_config struct resource_config c = RESOURCE_CONFIG_INIT;
	auto_resource_messages struct resource_messages messages = {0};
	auto_resources struct resources s = {0};
	const struct resource_defaults d = {json_string(json_get(in, "prefix"))};
	const char *mode = json_string(json_get(in, "mode"));
	struct json_walk w = json_walk_start(json_get(in, "configs"));
	const struct json *v;
	struct err e = ERR_INIT;

	ASSERT_OK(node_devices_read(host(json_string(json_get(in, "host"))), &node, &e), &e);
	node.mode = mode && strcmp(mode, "exclusive") == 0 ? NODE_RDMA_EXCLUSIVE : NODE_RDMA_SHARED;
	for (size_t i = 0; i < node.n; i++)
		if (json_get(json_get(in, "unhealthy"), node.v[i].id))
			node.v[i].unhealthy =
				json_string(json_get(json_get(in, "unhealthy"), node.v[i].id));
	if (json_get(in, "config"))
		add_config(json_get(in, "config"), &d, &c, &messages);
	else if (!json_get(in, "configs"))
		ASSERT_EQ(resource_plan(&node, &c, &messages, &e), 0);
	while ((v = json_walk_next(&w, NULL)))
		add_config(v, &d, &c, &messages);
	resources_decide(&c, &node, &s, &messages);
	put_all(&s, &messages, json_bool(json_get(in, "cdi")), out);
}

static void one(const char *name)
{
	auto_free char *in_path = xasprintf(CASES "%s.json", name);
	auto_free char *out_path = xasprintf(CASES "%s.expected", name);
	auto_buf struct buf in, got, expected;
	auto_json struct json_doc *doc = NULL;
	struct err e = ERR_INIT;

	read_text(in_path, &in);
	if (json_parse(&doc, buf_span(&in), TEXT_MAX, &e) < 0)
		fail_msg("%s: %s", in_path, e.text);
	buf_init(&got, TEXT_MAX);
	run(json_root(doc), &got);
	if (getenv("EXPECTED")) {
		auto_fd int fd = open(out_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

		ASSERT_EQ(fd_write_all(fd, got.p, got.len, NULL), 0);
	}
	read_text(out_path, &expected);
	if (strcmp(got.p, expected.p) != 0)
		fail_msg("%s: expected\n%s\ngot\n%s", name, expected.p, got.p);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static void test_resources_of_every_case_match_the_expected_file(void **state)
{
	struct dirent **list = NULL;
	int n = scandir(CASES, &list, NULL, by_name), count = 0;

	(void)state;
	for (int i = 0; i < n; i++) {
		char *dot = strrchr(list[i]->d_name, '.');

		if (dot && strcmp(dot, ".json") == 0) {
			*dot = '\0';
			one(list[i]->d_name);
			count++;
		}
		free(list[i]);
	}
	free(list);
	assert_true(count >= CASES_MIN);
	for (size_t i = 0; i < n_hosts; i++)
		host_remove(&hosts[i].lab);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_resources_of_every_case_match_the_expected_file)};

	return T_RUN(tests, NULL, NULL);
}
