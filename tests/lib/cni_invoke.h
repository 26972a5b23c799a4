/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_TESTS_CNI_INVOKE_H
#define UNIRAIL_TESTS_CNI_INVOKE_H

/*
 * Runs a CNI plugin within the test's process, with the environment and input that a runtime
 * passes.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cni/protocol/cni.h"

struct invocation {
	const struct cni_plugin *plugin;
	/* args NULL: CNI_ARGS is empty; ifname NULL: eth0; id NULL: c1 */
	const char *command, *args, *ifname, *id;
	const char *netns; /* NULL: path of a namespace that does not exist */
	const char *root;  /* NULL: "/" */
	const char *conf;
};

struct answer {
	int status;
	struct buf out; /* without white space between JSON tokens */
};

static inline void answer_done(struct answer *a)
{
	buf_done(&a->out);
}
#define auto_answer __attribute__((cleanup(answer_done)))

/* Removes white space between the tokens of JSON; other text stays unchanged. */
static inline void compact_json(struct buf *b)
{
	auto_json struct json_doc *d = NULL;
	auto_free char *text = buf_take(b);
	struct json_out o;

	if (json_parse(&d, span_of(text), 1 << 20, NULL) < 0) {
		buf_str(b, text);
		return;
	}
	jo_init(&o, b, 0);
	jo_val(&o, json_root(d), false);
}

static inline struct answer invoke_env(const struct cni_plugin *p, char *const env[],
				       const char *conf)
{
	struct answer a;

	buf_init(&a.out, 1 << 20);
	a.status = cni_run_with(p, env, span_of(conf), &a.out);
	compact_json(&a.out);
	return a;
}

static inline struct answer invoke(const struct invocation *v)
{
	const char *const values[][2] = {
		{"CNI_COMMAND", v->command},
		{"CNI_CONTAINERID", v->id ? v->id : "c1"},
		{"CNI_NETNS", v->netns ? v->netns : "/run/netns/not-there"},
		{"CNI_IFNAME", v->ifname ? v->ifname : "eth0"},
		{"CNI_PATH", "/opt/cni/bin"},
		{"CNI_ARGS", v->args ? v->args : ""},
		{"UNIRAIL_ROOT", v->root ? v->root : ""},
	};
	char *env[ARRAY_LEN(values) + 1] = {0};
	struct answer a;

	for (size_t i = 0; i < ARRAY_LEN(values); i++)
		env[i] = xasprintf("%s=%s", values[i][0], values[i][1]);
	a = invoke_env(v->plugin, env, v->conf);
	for (size_t i = 0; i < ARRAY_LEN(values); i++)
		free(env[i]);
	return a;
}

/* Fails the test unless the plugin exits with this status and prints this output, from which white
 * space between JSON tokens was removed. */
static inline void expect(const struct invocation *v, int status, const char *out)
{
	auto_answer struct answer a = invoke(v);

	if (a.status != status || strcmp(a.out.p, out) != 0)
		fail_msg("%s %s\nstatus %d, output\n%s\ninstead of\n%s", v->command, v->conf,
			 a.status, a.out.p, out);
}

#endif
