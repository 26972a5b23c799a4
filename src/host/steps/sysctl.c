/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "host/steps/steps.h"

/* Kind sysctl: kernel parameters, set by /proc/sys now and by a file that systemd-sysctl reads at
 * boot. */

#define SYSCTL_FILE "/etc/sysctl.d/90-unirail.conf"

enum { TEXT_MAX = 256 << 10 };

struct found {
	bool kernel;
	struct host_file file;
	/* current value of each line's parameter; NULL: the kernel does not have the parameter,
	 * it cannot be read, or the host does not run */
	char **values;
	size_t n;
};

/* key: "net.ipv4.tcp_ecn" or, for names with dots, "net/ipv4/conf/ens1.100/rp_filter" */
static char *path_of(const char *key)
{
	char *path = xasprintf("/proc/sys/%s", key);

	if (!strchr(key, '/'))
		for (char *p = path + strlen("/proc/sys/"); *p; p++)
			if (*p == '.')
				*p = '/';
	return path;
}

static bool is_key(const char *key)
{
	return *key && *key != '/' && *key != '.' && !strstr(key, "..") &&
	       key[strspn(key,
			  "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./@:")] ==
		       '\0';
}

static int check(void *want, struct err *e)
{
	const struct host_want *w = want;

	for (size_t i = 0; i < w->n_pairs; i++)
		if (!is_key(w->pairs[i].key))
			return err_kind(e, ERR_CONF, -EINVAL, "'%s' is not the name of a sysctl",
					w->pairs[i].key);
	return 0;
}

static int observe(struct host *h, const struct host_wants *w, void **found, struct err *e)
{
	struct found *f = xcalloc(1, sizeof(*f));

	*found = f;
	f->kernel = h->kernel || h->recorded;
	for (size_t i = 0; i < w->n; i++)
		for (size_t k = 0; k < w->v[i]->n_pairs; k++) {
			auto_free char *path = path_of(w->v[i]->pairs[k].key);

			VEC_PUSH(f->values, f->n) = host_attr_read(h, path);
		}
	return host_file_read(h, SYSCTL_FILE, &f->file, e);
}

static void forget(void *found)
{
	struct found *f = found;

	for (size_t i = 0; f && i < f->n; i++)
		free(f->values[i]);
	if (f) {
		free(f->values);
		host_file_done(&f->file);
	}
	free(f);
}

/* Compares word by word, since the kernel separates the numbers of one parameter by tabs. */
static bool same_values(const char *a, const char *b)
{
	while (*a || *b) {
		size_t x = strspn(a, " \t"), y = strspn(b, " \t"), n;

		a += x;
		b += y;
		n = strcspn(a, " \t");
		if (n != strcspn(b, " \t") || strncmp(a, b, n) != 0)
			return false;
		a += n;
		b += n;
	}
	return true;
}

static int decide(const struct host_wants *w, const void *found, struct host_plan *p, struct err *e)
{
	const struct found *f = found;
	const struct host_want *one = w->n ? w->v[0] : NULL;
	auto_buf struct buf b;

	buf_init(&b, TEXT_MAX);
	if (!one || one->n_pairs == 0)
		return 0;
	buf_str(&b, "# written by 'unirail host sysctl'\n");
	for (size_t i = 0; i < one->n_pairs; i++) {
		const struct host_pair *pair = &one->pairs[i];

		buf_printf(&b, "%s = %s\n", pair->key, pair->value);
		if (f->kernel && !f->values[i])
			return err_kind(e, ERR_CONF, -ENOENT,
					"sysctl '%s' does not exist on this kernel or cannot be "
					"read",
					pair->key);
	}
	host_plan_file(p, "sysctl", "host", &f->file, b.p, 0644);
	for (size_t i = 0; i < one->n_pairs; i++) {
		const struct host_pair *pair = &one->pairs[i];
		auto_free char *path = path_of(pair->key);
		struct host_step *s;

		if (!f->values[i] || same_values(f->values[i], pair->value))
			continue;
		s = host_plan_attr(p, "sysctl", pair->key, path, f->values[i], pair->value);
		if (s)
			host_step_command(s, "sysctl -w '%s=%s'", pair->key, pair->value);
	}
	return 0;
}

const struct host_kind host_sysctl = {
	.name = "sysctl",
	.section = "sysctl",
	.help = "kernel parameters",
	.flags = HOST_PAIRS,
	.size = sizeof(struct host_want),
	.check = check,
	.observe = observe,
	.forget = forget,
	.decide = decide,
};
