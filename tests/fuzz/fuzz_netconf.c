/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CNI protocol and the configurations of the plugins in plugins[]. Lines: "PLUGIN VERB",
 * container id, interface, CNI_ARGS; the rest is stdin. Each plugin's verbs are replaced by
 * functions that read and validate its configuration (netconf_*.c), so that no call reaches the
 * kernel, a program or a file.
 */
#include "netconf.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "cni/protocol/cni_call.h"
#include "files.h"

enum { OUT_MAX = 16 << 20, ENV = 8 };

static const struct {
	const char *name;
	netconf_read *read;
} plugins[] = {
	{"macvlan", netconf_macvlan},
	{"ipvlan", netconf_ipvlan},
	{"vlan", netconf_vlan},
	{"host-device", netconf_host_device},
	{"coordinator", netconf_coordinator},
	{"unirail-cni", netconf_multi},
	{"host-local", netconf_host_local},
	{"static", netconf_static},
	{"spiderpool", netconf_spiderpool},
	{"whereabouts", netconf_whereabouts},
	{"tuning", netconf_tuning},
	{"sbr", netconf_sbr},
	{"ifacer", netconf_ifacer},
	{"sriov", netconf_sriov},
	{"ipoib", netconf_ipoib},
	{"ib-sriov", netconf_ib_sriov},
};

static netconf_read *reads; /* of the current plugin */

static int add(struct cni_call *c, struct cni_result *out, struct err *e)
{
	return reads(c, out, e);
}

static int check(struct cni_call *c, struct err *e)
{
	auto_result struct cni_result out = {0};

	return reads(c, &out, e);
}

static struct cni_plugin pick(struct span name)
{
	size_t which = name.n ? (unsigned char)name.p[name.n - 1] % ARRAY_LEN(plugins) : 0;

	for (size_t i = 0; i < ARRAY_LEN(plugins); i++)
		if (span_eq(name, plugins[i].name))
			which = i;
	reads = plugins[which].read;
	/* The plugin has no .about, which would be printed to stderr. */
	return (struct cni_plugin){.name = plugins[which].name,
				   .add = add,
				   .check = check,
				   .del = check,
				   .gc = check,
				   .status = check};
}

static char *var(const char *name, struct span value)
{
	auto_free char *text = text_of(value);

	return xasprintf("%s=%s", name, text);
}

/* CNI_NETNS_OVERRIDE is set, so that the protocol does not open the namespace to compare it with
 * that of this process. */
static void make_env(struct feed *f, struct span verb, char *env[static ENV])
{
	size_t n = 0;

	env[n++] = var("CNI_COMMAND", verb);
	env[n++] = var("CNI_CONTAINERID", feed_line(f));
	env[n++] = var("CNI_IFNAME", feed_line(f));
	env[n++] = var("CNI_ARGS", feed_line(f));
	env[n++] = var("CNI_PATH", span_of("/opt/cni/bin"));
	env[n++] = var("CNI_NETNS", span_of("/run/netns/not-there"));
	env[n++] = var("CNI_NETNS_OVERRIDE", span_of("1"));
	env[n] = NULL;
}

/* The output for the runtime is JSON; a failure has a code and a message. */
static void check_answer(int status, const struct buf *out, const char *verb)
{
	auto_json struct json_doc *d = NULL;
	int64_t code = 0;

	must(status == 0 || status == 1);
	must(!out->over);
	if (status == 0 && out->len == 0)
		return;
	if (json_parse(&d, buf_span(out), OUT_MAX, NULL) < 0)
		fuzz_fail(out->p, status, "is JSON");
	must(json_kind(json_root(d)) == JSON_OBJECT);
	if (status == 0) {
		must(json_get(json_root(d), "cniVersion"));
		must(!strcmp(verb, "ADD") || !strcmp(verb, "VERSION"));
		return;
	}
	must(json_int(json_get(json_root(d), "code"), &code) == 0 && code > 0);
	must(json_string(json_get(json_root(d), "msg")) &&
	     *json_string(json_get(json_root(d), "msg")));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = {data, size};
	struct span verb = feed_line(&f), name;
	struct cni_plugin p;
	struct buf out;
	char *env[ENV];

	log_threshold = LOG_NONE;
	if (!span_cut(&verb, ' ', &name))
		name = span_of("");
	p = pick(name);
	make_env(&f, verb.p ? verb : span_of(""), env);
	buf_init(&out, OUT_MAX);
	check_answer(cni_run_with(&p, env, feed_rest(&f), &out), &out,
		     cni_env_get(env, "CNI_COMMAND"));
	buf_done(&out);
	for (size_t i = 0; env[i]; i++)
		free(env[i]);
	files_clear();
	return 0;
}
