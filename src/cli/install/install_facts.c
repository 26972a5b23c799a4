/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/applet.h"
#include "base/cleanup.h"
#include "cli/install/install.h"
#include "wire/tls/digest.h"

char *install_kept_name(const char *name)
{
	return xasprintf("%s%s", name, INSTALL_KEPT);
}

struct install_name *install_name_of(struct install_facts *f, const char *name)
{
	struct install_name *n;

	for (size_t i = 0; i < f->n; i++)
		if (strcmp(f->names[i].name, name) == 0)
			return &f->names[i];
	n = &VEC_PUSH(f->names, f->n);
	n->name = xstrdup(name);
	n->ours = (struct install_thing){HAVE_LINK, xstrdup(INSTALL_BINARY)};
	return n;
}

void install_facts_done(struct install_facts *f)
{
	for (size_t i = 0; i < f->n; i++) {
		struct install_name *n = &f->names[i];

		free(n->name);
		free(n->ours.id);
		free(n->made.id);
		free(n->was.id);
		free(n->now.id);
		free(n->kept.id);
		free(n->noted.id);
	}
	free(f->names);
	*f = (struct install_facts){0};
}

static int want_one(struct install_facts *f, const char *name, struct err *e)
{
	const struct applet *a = applet_find(name);
	const char *list[64], *near;
	size_t n = 0;

	if (a && (a->flags & APPLET_LINK)) {
		install_name_of(f, name)->wanted = true;
		return 0;
	}
	for (a = applets; a->name && n < ARRAY_LEN(list); a++)
		if (a->flags & APPLET_LINK)
			list[n++] = a->name;
	near = opt_nearest(name, list, n);
	return err_kind(e, ERR_CONF, -EINVAL, "option '--links': no link is called '%s'%s%s%s",
			name, near ? "; did you mean '" : "; see 'unirail install --list'",
			near ? near : "", near ? "'?" : "");
}

static int want(struct install_facts *f, const char *links, struct err *e)
{
	struct span rest = span_of(links), one;
	int r = 0;

	if (strcmp(links, "all") == 0) {
		for (const struct applet *a = applets; a->name; a++)
			if (a->flags & APPLET_LINK)
				install_name_of(f, a->name)->wanted = true;
		return 0;
	}
	while (r == 0 && span_cut(&rest, ',', &one)) {
		auto_free char *name = span_dup(span_trim(one));

		if (*name)
			r = want_one(f, name, e);
	}
	return r;
}

static int look(const struct root *r, const char *path, struct install_thing *t, struct err *e)
{
	char text[PATH_MAX];
	struct stat st;
	int n = file_lstat(r, path, &st, e);

	if (n == -ENOENT) {
		err_clear(e);
		return 0;
	}
	if (n < 0)
		return n;
	if (S_ISREG(st.st_mode)) {
		char hex[DIGEST_HEX];

		n = digest_sha256_file(r, path, hex, e);
		if (n == 0)
			*t = (struct install_thing){HAVE_FILE, xstrdup(hex)};
	} else if (S_ISLNK(st.st_mode)) {
		n = link_read(r, path, text, sizeof(text), e);
		if (n == 0)
			*t = (struct install_thing){HAVE_LINK, xstrdup(text)};
	} else {
		*t = (struct install_thing){HAVE_OTHER, NULL};
	}
	return n;
}

static int look_at(const struct root *r, const char *folder, struct install_name *n, struct err *e)
{
	auto_free char *kept = install_kept_name(n->name);
	auto_free char *path = xasprintf("%s/%s", folder, n->name);
	auto_free char *kept_path = xasprintf("%s/%s", folder, kept);
	int ret = look(r, path, &n->now, e);

	return ret < 0 ? ret : look(r, kept_path, &n->kept, e);
}

int install_facts_read(struct install_facts *f, const struct root *r, const char *folder,
		       const char *links, const char *self, struct err *e)
{
	struct install_name *binary;
	int n = 0;

	*f = (struct install_facts){0};
	binary = install_name_of(f, INSTALL_BINARY);
	free(binary->ours.id);
	binary->ours = (struct install_thing){HAVE_FILE, xstrdup(self)};
	binary->wanted = links != NULL;
	if (links)
		n = want(f, links, e);
	if (n == 0)
		n = install_record_read(f, r, folder, e);
	for (size_t i = 0; n == 0 && i < f->n; i++)
		n = look_at(r, folder, &f->names[i], e);
	return n;
}
