/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/num.h"
#include "cni/protocol/cni_call.h"

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
		"more than %d CNI plugins execute one another: does a 'type', 'ipam.type' or "
		"'delegate' of this network name the plugin that it is given to?",
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

/* What Unicode calls white space, in UTF-8; the name is too short for anything to hide in. */
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
	unsigned int required; /* by which verbs */
	int (*check)(const char *value, struct err *e);
};

/* In table order: a value that is wrong ends the walk, what is missing is collected. */
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

int cni_env_read(struct cni_call *c, char *const env[], struct err *e)
{
	const char *override;
	const struct var vars[] = {
		{"CNI_COMMAND", &c->command, EVERY, NULL}, /* first: needed whatever the verb */
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
