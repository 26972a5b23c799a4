/* SPDX-License-Identifier: Apache-2.0 */
/* CNI calls as a container runtime makes them, and their outcome. */
#include "fault.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "wire/json/json.h"

enum { CONF_MAX = 1 << 20 };

const struct pod pod_here = {"0123456789abcdef", "/run/netns/pod", "pod"};
const struct pod pod_other = {"fedcba9876543210", "/run/netns/other", "other"};

const char *const verb_names[] = {"add", "del", "check", "gc", "run", "lost", NULL};
static const char *const commands[] = {"ADD", "DEL", "CHECK", "GC"};

int verb_parse(const char *word, enum verb *ret)
{
	for (int v = 0; verb_names[v]; v++)
		if (strcmp(word, verb_names[v]) == 0) {
			*ret = (enum verb)v;
			return 0;
		}
	return -EINVAL;
}

/* Adds a key before the last brace. */
static void add_key(struct buf *conf, const char *key, const char *value)
{
	auto_free char *text = buf_take(conf);

	buf_printf(conf, "%.*s,\"%s\":%s}", (int)(strrchr(text, '}') - text), text, key, value);
}

static void make_conf(const struct step *st, enum verb v, const struct pod *p, const char *prev,
		      struct buf *b)
{
	const struct pod *valid = p == &pod_here ? &pod_other : &pod_here;
	auto_free char *list =
		xasprintf("[{\"containerID\":\"%s\",\"ifname\":\"%s\"}]", valid->id, st->ifname);
	const char *name;

	buf_init(b, CONF_MAX);
	buf_str(b, st->conf);
	name = strstr(b->p, "IFNAME");
	if (name) {
		auto_free char *text = buf_take(b);

		name = strstr(text, "IFNAME");
		buf_printf(b, "%.*s%s%s", (int)(name - text), text, st->ifname, name + 6);
	}
	if (prev)
		add_key(b, "prevResult", prev);
	if (v == V_GC)
		add_key(b, "cni.dev/valid-attachments", list);
}

void call_plugin(const struct lab *l, const struct step *st, enum verb v, const struct pod *p,
		 const char *prev, struct shot *s, struct outcome *o)
{
	auto_free char *args = xasprintf(
		"CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAMESPACE=team;K8S_POD_NAME=%s;K8S_POD_UID=uid-%s;"
		"K8S_POD_INFRA_CONTAINER_ID=%s",
		p->name, p->name, p->id);
	auto_free char *command = xasprintf("CNI_COMMAND=%s", commands[v]);
	auto_free char *id = xasprintf("CNI_CONTAINERID=%s", p->id);
	auto_free char *netns = xasprintf("CNI_NETNS=%s", p->netns);
	auto_free char *ifname = xasprintf("CNI_IFNAME=%s", st->ifname);
	char *env[] = {command, id, netns, ifname, args, "CNI_PATH=/opt/cni/bin", NULL};
	char *argv[] = {(char *)st->plugin, NULL};
	auto_buf struct buf conf;

	make_conf(st, v, p, prev, &conf);
	run(&(struct command){l->dir, "/bin/unirail", argv, env, buf_span(&conf)}, s, o);
}

void call_command(const struct lab *l, char *const *argv, struct shot *s, struct outcome *o)
{
	char *env[] = {NULL};

	run(&(struct command){l->dir, "/bin/unirail", argv, env, span_of("")}, s, o);
}

char *error_text(const struct outcome *o)
{
	auto_json struct json_doc *d = NULL;
	const struct json *msg, *details;

	if (json_parse(&d, buf_span(&o->out), CONF_MAX, NULL) < 0)
		return NULL;
	msg = json_get(json_root(d), "msg");
	details = json_get(json_root(d), "details");
	if (!msg || !json_string(msg) || !*json_string(msg))
		return NULL;
	return xasprintf("%s%s%s", json_string(msg), details ? ": " : "",
			 details && json_string(details) ? json_string(details) : "");
}

static bool has_result(const struct outcome *o)
{
	auto_json struct json_doc *d = NULL;

	return json_parse(&d, buf_span(&o->out), CONF_MAX, NULL) == 0 &&
	       json_get(json_root(d), "cniVersion");
}

/* Returns whether stderr begins with an error message of unirail and has a newline. */
static bool has_line(const struct outcome *o)
{
	return strncmp(o->err.p ? o->err.p : "", "unirail ", 8) == 0 && strchr(o->err.p, '\n');
}

enum end end_of(const struct outcome *o, enum verb v, const struct shot *s)
{
	auto_free char *text = NULL;

	if (o->late)
		return END_LATE;
	if (o->sig)
		return s && s->hit && s->act == ACT_KILL && o->sig == SIGKILL ? END_KILLED
									      : END_CRASH;
	if (o->status == 0)
		return v != V_ADD || has_result(o) ? END_FINE : END_MUTE;
	if (v == V_COMMAND)
		return o->status == 1 && has_line(o) ? END_REFUSED : END_MUTE;
	text = error_text(o);
	return o->status == 1 && text ? END_REFUSED : END_MUTE;
}
