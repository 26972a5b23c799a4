/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/protocol/cni.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/num.h"
#include "cni/protocol/cni_call.h"
#include "cni/protocol/quote.h"
#include "kern/sys/netns.h"

/* The main() of every plugin, the counterpart of pkg/skel. */

/* Source of the configuration: descriptor `fd`, which is read only if the CNI_* variables are
 * valid; fd -1: `text`. A successful result is written to descriptor `to`; -1: the caller of
 * serve() writes the result. */
struct input {
	int fd, to;
	struct span text;
};

static unsigned int supported(const struct cni_plugin *p)
{
	return p->versions ? p->versions : (1U << CNI_VERSIONS) - 1;
}

/* The answer if CNI_COMMAND is absent: prints name and versions of the plugin to stderr. */
static int print_about(const struct cni_plugin *p)
{
	auto_buf struct buf b;
	const char *before = "";

	buf_init(&b, 4096);
	buf_printf(&b, "%s\nCNI protocol versions supported: ", p->about);
	for (unsigned int v = 0; v < CNI_VERSIONS; v++)
		if (supported(p) & 1U << v) {
			buf_printf(&b, "%s%s", before, cni_version_str((enum cni_version)v));
			before = ", ";
		}
	buf_char(&b, '\n');
	fd_write_all(STDERR_FILENO, b.p, b.len, NULL);
	return 0;
}

static void print_versions(const struct cni_plugin *p, struct buf *out)
{
	struct json_out o;

	jo_init(&o, out, 0);
	jo_obj(&o);
	jo_kstr(&o, "cniVersion", cni_version_str(CNI_VERSIONS - 1));
	jo_key(&o, "supportedVersions");
	jo_arr(&o);
	for (unsigned int v = 0; v < CNI_VERSIONS; v++)
		if (supported(p) & 1U << v)
			jo_str(&o, cni_version_str((enum cni_version)v));
	jo_end_arr(&o);
	jo_end_obj(&o);
	buf_char(out, '\n');
}

static int read_input(struct cni_call *c, const struct input *in, struct buf *text, struct err *e)
{
	int r;

	c->stdin_text = in->text;
	if (in->fd < 0)
		return 0;
	r = fd_read_all(in->fd, CNI_INPUT_MAX, text, e);
	if (r < 0) {
		err_default_kind(e, ERR_IO);
		return err_wrap(e, r, "error reading from stdin");
	}
	c->stdin_text = buf_span(text);
	return 0;
}

/* Refuses a CNI_NETNS that is this process' own namespace. The originals detect this only after the
 * verb has run, and do not undo its changes. The plugin itself handles a namespace that does not
 * exist. */
static int check_netns(const struct cni_call *c, struct err *e)
{
	auto_fd int own = -1, pod = -1;
	int r;

	if (c->netns_override || !*c->netns || netns_open(c->netns, &pod, NULL) < 0)
		return 0;
	r = netns_current(&own, e);
	if (r < 0) {
		err_default_kind(e, ERR_NETNS);
		return err_wrap(e, r, "get plugin's netns failed");
	}
	r = netns_same(own, pod, e);
	if (r <= 0)
		return r;
	return err_kind(e, ERR_NETNS, -EINVAL,
			"plugin's netns and netns from CNI_NETNS should not be the same");
}

static bool is_empty(const struct cni_result *r)
{
	return r->n_ifaces == 0 && r->n_ips == 0 && r->n_routes == 0;
}

static int add(const struct cni_plugin *p, struct cni_call *c, struct buf *out, struct err *e)
{
	auto_result struct cni_result r = {0};
	int n = check_netns(c, e);

	if (n == 0 && p->add)
		n = p->add(c, &r, e);
	if (n < 0 || !p->add)
		return n;
	if (p->relays)
		cni_result_relay(&r, c->version, out);
	else
		n = cni_result_print(p->prints_prev && is_empty(&r) ? &c->prev : &r, c->version,
				     out, e);
	/* The ADD succeeded, but its result cannot be printed: undoes the ADD, because the caller
	 * sees a failed ADD. */
	if (n < 0 && p->del)
		p->del(c, NULL);
	return n;
}

static int del(const struct cni_plugin *p, struct cni_call *c, struct err *e)
{
	int r = check_netns(c, e);

	return r < 0 || !p->del ? r : p->del(c, e);
}

static int cni_conf_valid(struct cni_call *c, struct err *e);

static int gc(const struct cni_plugin *p, struct cni_call *c, struct err *e)
{
	int r = cni_conf_valid(c, e);

	/* A missing list means "unknown", not "no valid attachments". */
	return r < 0 || !p->gc || !c->has_valid ? r : p->gc(c, e);
}

static bool is(const struct cni_call *c, const char *verb)
{
	return strcmp(c->command, verb) == 0;
}

static bool is_verb(const struct cni_call *c)
{
	return is(c, "ADD") || is(c, "DEL") || is(c, "CHECK") || is(c, "GC") || is(c, "STATUS");
}

static int dispatch(const struct cni_plugin *p, struct cni_call *c, struct buf *out, struct err *e)
{
	if (is(c, "ADD"))
		return add(p, c, out, e);
	if (is(c, "DEL"))
		return del(p, c, e);
	if (is(c, "CHECK"))
		return p->check ? p->check(c, e) : 0;
	if (is(c, "GC"))
		return gc(p, c, e);
	return p->status ? p->status(c, e) : 0;
}

static int answer(const struct cni_plugin *p, struct cni_call *c, const struct input *in,
		  struct buf *text, struct buf *out, struct err *e)
{
	int r;

	if (is(c, "VERSION")) {
		print_versions(p, out);
		return 0;
	}
	r = read_input(c, in, text, e);
	if (r == 0)
		r = cni_conf_read(c, e);
	if (r == 0 && !is_verb(c))
		r = err_kind(e, ERR_ENV, -EINVAL, "unknown CNI_COMMAND: %s", c->command);
	if (r == 0)
		r = cni_conf_version(c, supported(p), e);
	if (r == 0)
		r = cni_conf_prev(c, e);
	return r < 0 ? r : dispatch(p, c, out, e);
}

/* Writes the output to `to`. If that fails, undoes an ADD, because the caller then sees a failed
 * ADD. */
static int deliver(const struct cni_plugin *p, struct cni_call *c, int to, struct buf *out)
{
	struct err e = ERR_INIT;
	int r = to < 0 ? 0 : fd_write_all(to, out->p, out->len, &e);

	if (r == 0)
		return 0;
	log_error("cannot write the result", LOG_S("error", e.text));
	if (is(c, "ADD") && p->del)
		p->del(c, NULL);
	return r;
}

static void call_done(struct cni_call *c)
{
	cni_result_done(&c->prev);
	json_free(c->doc);
	free(c->valid);
	root_close(&c->root);
}

static int cni_env_read(struct cni_call *c, char *const env[], struct err *e);

/* Returns the exit status; `out` has the output for stdout, empty if already written. */
static int serve(const struct cni_plugin *p, char *const env[], const struct input *in,
		 struct buf *out)
{
	struct cni_call c = {.plugin = p};
	struct err e = ERR_INIT;
	auto_buf struct buf text;
	bool lost = false;
	int r;

	buf_init(&text, CNI_INPUT_MAX);
	if (p->about && !*cni_env_get(env, "CNI_COMMAND"))
		return print_about(p);
	r = root_open(&c.root, cni_env_get(env, "UNIRAIL_ROOT"), &e);
	if (r == 0) {
		c.root.strict = true; /* netconfs name paths that other users may influence */
		r = cni_env_read(&c, env, &e);
		if (r == 0)
			r = answer(p, &c, in, &text, out, &e);
		lost = r >= 0 && deliver(p, &c, in->to, out) < 0;
		call_done(&c);
	}
	if (r >= 0 && in->to >= 0)
		buf_reset(out);
	if (r >= 0)
		return lost;
	buf_reset(out);
	cni_error_print(&e, out);
	return 1;
}

int cni_run_with(const struct cni_plugin *p, char *const env[], struct span in, struct buf *out)
{
	return serve(p, env, &(struct input){-1, -1, in}, out);
}

int cni_run(const struct cni_plugin *p)
{
	const char *level = getenv("UNIRAIL_LOG");
	auto_buf struct buf out;
	int r;

	log_threshold = LOG_WARN;
	if (level)
		log_level_parse(level, &log_threshold);
	buf_init(&out, CNI_INPUT_MAX);
	/* A runtime that has exited must not interrupt this process with SIGPIPE, neither at a
	 * log line nor at the result. */
	signal(SIGPIPE, SIG_IGN);
	r = serve(p, environ, &(struct input){.fd = STDIN_FILENO, .to = STDOUT_FILENO}, &out);
	if (out.len && fd_write_all(STDOUT_FILENO, out.p, out.len, NULL) < 0)
		return 1;
	return r;
}

enum { IFNAME_MAX = 15 };

enum verb {
	ADD = 1,
	CHECK = 2,
	DEL = 4,
	GC = 8,
	STATUS = 16,
	EVERY = ADD | CHECK | DEL | GC | STATUS
};

static const struct {
	const char *name;
	enum verb bit;
} verbs[] = {{"ADD", ADD}, {"CHECK", CHECK}, {"DEL", DEL}, {"GC", GC}, {"STATUS", STATUS}};

static unsigned int verb_bit(const char *command)
{
	for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
		if (strcmp(verbs[i].name, command) == 0)
			return verbs[i].bit;
	return 0;
}

const char *cni_env_get(char *const env[], const char *name)
{
	size_t n = strlen(name);

	for (; *env; env++)
		if (strncmp(*env, name, n) == 0 && (*env)[n] == '=')
			return *env + n + 1;
	return "";
}

int64_t cni_env_depth(char *const env[])
{
	int64_t n = 0;

	(void)num_i64(span_of(cni_env_get(env, CNI_DEPTH)), 0, INT32_MAX, &n);
	return n;
}

static int check_depth(char *const env[], struct err *e)
{
	if (cni_env_depth(env) <= CNI_DEPTH_MAX)
		return 0;
	return err_kind(
		e, ERR_CONF, -ELOOP,
		"more than %d CNI plugins execute one another: a 'type', 'ipam.type' or 'delegate' "
		"of this network names a plugin that executes it again",
		CNI_DEPTH_MAX);
}

static bool is_alnum(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool cni_name_ok(const char *name)
{
	if (!is_alnum(*name))
		return false;
	for (; *name; name++)
		if (!is_alnum(*name) && !strchr("_.-", *name))
			return false;
	return true;
}

static int check_container_id(const char *id, struct err *e)
{
	if (cni_name_ok(id))
		return 0;
	err_kind(e, ERR_ENV, -EINVAL, "invalid characters in containerID");
	err_details(e, "%s", id);
	return -EINVAL;
}

/* Returns whether the UTF-8 text contains white space of Unicode. */
static bool has_space(const char *s)
{
	static const char spaces[][4] = {" ",	   "\t",       "\n",	 "\v",	   "\f",
					 "\r",	   "\xc2\x85", "\u00a0", "\u1680", "\u2000",
					 "\u2001", "\u2002",   "\u2003", "\u2004", "\u2005",
					 "\u2006", "\u2007",   "\u2008", "\u2009", "\u200a",
					 "\u2028", "\u2029",   "\u202f", "\u205f", "\u3000"};

	for (size_t i = 0; i < ARRAY_LEN(spaces); i++)
		if (strstr(s, spaces[i]))
			return true;
	return false;
}

static int check_ifname(const char *name, struct err *e)
{
	if (strlen(name) > IFNAME_MAX) {
		err_kind(e, ERR_ENV, -EINVAL, "interface name is too long");
		err_details(e, "interface name should be less than %d characters", IFNAME_MAX + 1);
		return -EINVAL;
	}
	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return err_kind(e, ERR_ENV, -EINVAL, "interface name is . or ..");
	if (strpbrk(name, "/:") || has_space(name))
		return err_kind(e, ERR_ENV, -EINVAL,
				"interface name contains / or : or whitespace characters");
	return 0;
}

struct var {
	const char *name;
	const char **into;
	unsigned int required; /* bit mask of the verbs that require the variable */
	int (*check)(const char *value, struct err *e);
};

/* Reads the variables in table order: an invalid value fails at once, missing variables are
 * collected. */
static int read_vars(const struct var *vars, size_t n, char *const env[], struct err *e)
{
	const char *command = cni_env_get(env, "CNI_COMMAND");
	unsigned int verb = verb_bit(command);
	auto_buf struct buf missing;
	int r = 0;

	buf_init(&missing, ERR_TEXT_MAX);
	for (size_t i = 0; i < n && r == 0; i++) {
		const struct var *v = &vars[i];
		bool required = v->required & verb;

		*v->into = cni_env_get(env, v->name);
		if (**v->into && required && v->check)
			r = v->check(*v->into, e);
		if (!**v->into && (required || v->into == vars[0].into))
			buf_printf(&missing, "%s%s", missing.len ? "," : "", v->name);
	}
	if (r == 0 && missing.len)
		r = err_kind(e, ERR_ENV, -EINVAL, "required env variables [%s] missing", missing.p);
	return r;
}

/* Reads CNI_* into c, validated in the order and with the texts of pkg/skel. Borrows from env. */
static int cni_env_read(struct cni_call *c, char *const env[], struct err *e)
{
	const char *override;
	const struct var vars[] = {
		/* CNI_COMMAND must be the first row: read_vars() requires the variable of the
		 * first row even if the command is unknown. */
		{"CNI_COMMAND", &c->command, EVERY, NULL},
		{"CNI_CONTAINERID", &c->container_id, ADD | CHECK | DEL, check_container_id},
		{"CNI_NETNS", &c->netns, ADD | CHECK, NULL},
		{"CNI_IFNAME", &c->ifname, ADD | CHECK | DEL, check_ifname},
		{"CNI_ARGS", &c->args_text, 0, NULL},
		{"CNI_PATH", &c->path, EVERY, NULL},
		{"CNI_NETNS_OVERRIDE", &override, 0, NULL},
	};
	int r = read_vars(vars, ARRAY_LEN(vars), env, e);

	if (r == 0)
		r = check_depth(env, e);
	if (r < 0)
		return r;
	c->netns_override = strcasecmp(override, "TRUE") == 0 || strcmp(override, "1") == 0;
	return 0;
}

/* --- configuration fields of every plugin: name, version, type, prevResult, GC's list --- */

struct common {
	const char *name, *type, *version;
	const struct json *prev, *valid, *attachments;
};

#define FIELD(key, kind, member, ...) JSON_FIELD(key, kind, struct common, member, ##__VA_ARGS__)

static const struct json_field name_fields[] = {FIELD("name", J_STR, name,
						      JSON_DOC(NULL, "name of the network")),
						{0}};
static const struct json_field version_fields[] = {
	FIELD("cniVersion", J_STR, version, JSON_DOC("0.1.0", "version of the CNI specification")),
	{0}};
static const struct json_field type_fields[] = {FIELD("type", J_STR, type,
						      JSON_DOC(NULL, "name of the plugin")),
						{0}};
static const struct json_field more_fields[] = {
	FIELD("prevResult", J_VAL, prev,
	      JSON_DOC(NULL, "from the runtime: result of the previous plugin")),
	FIELD("cni.dev/valid-attachments", J_VAL, valid,
	      JSON_DOC(NULL, "from the runtime, for GC: attachments that exist")),
	FIELD("cni.dev/attachments", J_VAL, attachments,
	      JSON_DOC(NULL, "from the runtime, for GC: older name of cni.dev/valid-attachments")),
	{0}};

static const struct json_table name_table = {name_fields, JSON_GO, 0},
			       version_table = {version_fields, JSON_GO, 0},
			       type_table = {type_fields, JSON_GO, 0},
			       more_table = {more_fields, JSON_GO, 0};
const struct json_table *const cni_keys[] = {&version_table, &name_table, &type_table, &more_table,
					     NULL};

static int read_common(struct cni_call *c, const struct json_table *t, struct common *into,
		       struct err *e)
{
	return json_read(c->doc, c->conf, t, into, "conf", e);
}

int cni_conf_read(struct cni_call *c, struct err *e)
{
	static const char prefix[] = "error unmarshall network config";
	struct common in = {0};
	int r = json_parse(&c->doc, c->stdin_text, CNI_INPUT_MAX, e);

	if (r < 0)
		return err_wrap(e, r, prefix);
	c->conf = json_root(c->doc);
	r = read_common(c, &name_table, &in, e);
	if (r < 0) {
		if (e)
			e->kind = ERR_DECODE;
		return err_wrap(e, r, prefix);
	}
	if (!in.name || !*in.name)
		return err_kind(e, ERR_CONF, -EINVAL, ORIG("missing network name"));
	c->name = in.name;
	if (cni_name_ok(in.name))
		return 0;
	err_kind(e, ERR_CONF, -EINVAL, "invalid characters found in network name");
	err_details(e, "%s", in.name);
	return -EINVAL;
}

static int too_many_parts(const char *version, struct err *e)
{
	auto_buf struct buf b;

	buf_init(&b, ERR_TEXT_MAX / 2);
	cni_quote(&b, version);
	return err_kind(e, ERR_DECODE, -EINVAL, "invalid version %s: too many parts", b.p);
}

static int no_number(const char *name, struct span part, struct err *e)
{
	auto_free char *text = span_dup(part);
	auto_buf struct buf b;

	buf_init(&b, ERR_TEXT_MAX / 4);
	cni_quote(&b, text);
	return err_kind(e, ERR_DECODE, -EINVAL,
			ORIG("failed to convert %s version part %s: strconv.Atoi: parsing %s: "
			     "invalid syntax"),
			name, b.p, b.p);
}

/* Parses a version like libcni's ParseVersion: one to three numbers. */
static int parse_numbers(const char *text, int64_t ret[static 3], struct err *e)
{
	static const char names[][8] = {"major", "minor", "micro"};
	struct span rest = span_of(text), part;
	int n = 0;

	ret[0] = ret[1] = ret[2] = 0;
	for (size_t i = 0, dots = 0; text[i]; i++)
		if (text[i] == '.' && ++dots == 3)
			return too_many_parts(text, e);
	while (span_cut(&rest, '.', &part)) {
		if (num_i64(part, INT32_MIN, INT32_MAX, &ret[n]) < 0)
			return no_number(names[n], part, e);
		n++;
	}
	return 0;
}

/* Returns the first version of the protocol that has the verb. */
static enum cni_version since(const char *command)
{
	if (strcmp(command, "CHECK") == 0)
		return CNI_0_4_0;
	if (strcmp(command, "GC") == 0 || strcmp(command, "STATUS") == 0)
		return CNI_1_1_0;
	return CNI_0_1_0;
}

static bool at_least(const int64_t have[static 3], const int64_t want[static 3])
{
	for (int i = 0; i < 3; i++)
		if (have[i] != want[i])
			return have[i] > want[i];
	return true;
}

static int check_verb(const struct cni_call *c, const char *version, unsigned int supported,
		      struct err *e)
{
	int64_t conf[3], first[3], plugin[3];
	int r;

	if (since(c->command) == CNI_0_1_0)
		return 0;
	r = parse_numbers(version, conf, e);
	if (r < 0)
		return r;
	parse_numbers(cni_version_str(since(c->command)), first, NULL);
	if (!at_least(conf, first))
		return err_kind(e, ERR_VERSION, -EINVAL, "config version does not allow %s",
				c->command);
	for (unsigned int v = 0; v < CNI_VERSIONS; v++) {
		parse_numbers(cni_version_str((enum cni_version)v), plugin, NULL);
		if ((supported & 1U << v) && at_least(plugin, conf))
			return 0;
	}
	return err_kind(e, ERR_VERSION, -EINVAL, "plugin version does not allow %s", c->command);
}

static int incompatible(const char *version, unsigned int supported, struct err *e)
{
	auto_buf struct buf b;

	buf_init(&b, ERR_DETAILS_MAX);
	buf_str(&b, "config is ");
	cni_quote(&b, version);
	buf_str(&b, ", plugin supports [");
	for (unsigned int v = 0, n = 0; v < CNI_VERSIONS; v++)
		if (supported & 1U << v)
			buf_printf(&b, "%s\"%s\"", n++ ? " " : "",
				   cni_version_str((enum cni_version)v));
	buf_char(&b, ']');
	err_kind(e, ERR_VERSION, -EINVAL, "incompatible CNI versions");
	err_details(e, "%s", b.p);
	return -EINVAL;
}

int cni_conf_version(struct cni_call *c, unsigned int supported, struct err *e)
{
	struct common in = {0};
	int r = read_common(c, &version_table, &in, e);

	if (r < 0) {
		if (e)
			e->kind = ERR_DECODE;
		return err_wrap(e, r, "decoding version from network config");
	}
	if (!in.version || !*in.version)
		in.version = "0.1.0";
	r = check_verb(c, in.version, supported, e);
	if (r < 0)
		return r;
	if (cni_version_parse(in.version, &c->version) < 0 || !(supported & 1U << c->version))
		return incompatible(in.version, supported, e);
	r = read_common(c, &type_table, &in, e);
	c->type = in.type ? in.type : "";
	return r;
}

/* An invalid prevResult fails ADD and CHECK, which need it, but never a DEL: the runtime would
 * retry the DEL with the same prevResult. */
int cni_conf_prev(struct cni_call *c, struct err *e)
{
	bool strict = strcmp(c->command, "ADD") == 0 || strcmp(c->command, "CHECK") == 0;
	struct common in = {0};
	struct err reason = ERR_INIT;
	int r = read_common(c, &more_table, &in, e);

	if (r < 0 || !in.prev)
		return r;
	r = cni_result_parse(c->doc, in.prev, c->version, &c->prev, &reason);
	c->has_prev = r == 0;
	if (r == 0)
		return 0;
	err_wrap(&reason, r, ORIG("could not parse prevResult"));
	if (strict) {
		if (e)
			*e = reason;
		return r;
	}
	log_warn("ignoring prevResult", LOG_S("error", reason.text));
	return 0;
}

struct attachment {
	const char *container_id, *ifname;
};

static int cni_conf_valid(struct cni_call *c, struct err *e)
{
	static const struct json_field fields[] = {
		JSON_FIELD("containerID", J_STR, struct attachment, container_id),
		JSON_FIELD("ifname", J_STR, struct attachment, ifname),
		{0}};
	static const struct json_table table = {fields, JSON_GO, sizeof(struct attachment)};
	static const struct json_field list = {"", J_OBJS, .sub = &table};
	const struct json *v = json_get(c->conf, "cni.dev/valid-attachments");
	const char *place = "conf.cni.dev/valid-attachments";
	struct json_list found = {0};
	const struct attachment *a;
	int r;

	/* The other name of the list, which the text of the CNI specification used
	 * (containernetworking/cni#1101). */
	if (!v) {
		v = json_get(c->conf, "cni.dev/attachments");
		place = "conf.cni.dev/attachments";
	}
	if (!v)
		return 0;
	c->has_valid = true;
	if (json_kind(v) == JSON_NULL) /* null is Go's empty list */
		return 0;
	if (json_kind(v) == JSON_ARRAY && json_len(v) > CNI_VALID_MAX)
		return err_kind(e, ERR_CONF, -E2BIG,
				"%s has %zu attachments, the limit is %d: GC removes nothing",
				place, json_len(v), CNI_VALID_MAX);
	r = json_read_value(c->doc, v, &list, &found, place, e);
	if (r < 0)
		return r;
	a = found.v;
	for (size_t i = 0; i < found.n; i++)
		VEC_PUSH(c->valid, c->n_valid) = (struct cni_attachment){
			a[i].container_id ? a[i].container_id : "", a[i].ifname ? a[i].ifname : ""};
	return 0;
}

void cni_put_valid(struct json_out *o, const struct cni_attachment *v, size_t n)
{
	static const char *const keys[] = {"cni.dev/valid-attachments", "cni.dev/attachments"};

	for (size_t k = 0; k < ARRAY_LEN(keys); k++) {
		jo_key(o, keys[k]);
		jo_arr(o);
		for (size_t i = 0; i < n; i++) {
			jo_obj(o);
			jo_kstr(o, "containerID", v[i].container_id);
			jo_kstr(o, "ifname", v[i].ifname);
			jo_end_obj(o);
		}
		jo_end_arr(o);
	}
}

bool cni_file_is_stale(const struct cni_call *c, const char *name)
{
	enum { ID_HEX = 64 };
	char id[ID_HEX + 1];

	if (strspn(name, "0123456789abcdef") != ID_HEX || name[ID_HEX] != '-' || !name[ID_HEX + 1])
		return false;
	memcpy(id, name, ID_HEX);
	id[ID_HEX] = '\0';
	return !cni_is_valid(c, id, name + ID_HEX + 1);
}

bool cni_is_valid(const struct cni_call *c, const char *container_id, const char *ifname)
{
	for (size_t i = 0; i < c->n_valid; i++)
		if (strcmp(c->valid[i].container_id, container_id) == 0 &&
		    (!ifname || strcmp(c->valid[i].ifname, ifname) == 0))
			return true;
	return false;
}
