/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/applet.h"
#include "cli/install/install.h"
#include "wire/tls/digest.h"

/* The record of an installation, which the next installation and the removal read. */

enum { RECORD_VERSION = 1, RECORD_MAX = 1 << 18, SHA_LEN = 64 };

struct backup {
	const char *name, *sha256, *link;
};

struct record {
	int64_t version;
	const char *sha256, *previous;
	struct json_strs links;
	struct json_list backup;
};

static const struct json_field backup_fields[] = {
	JSON_FIELD("name", J_STR, struct backup, name, .required = true),
	JSON_FIELD("sha256", J_STR, struct backup, sha256),
	JSON_FIELD("link", J_STR, struct backup, link),
	{0},
};
static const struct json_table backup_table = {backup_fields, 0, sizeof(struct backup)};

static const struct json_field fields[] = {
	JSON_FIELD("version", J_INT, struct record, version, .min = 1, .max = RECORD_VERSION,
		   .required = true),
	JSON_FIELD("sha256", J_STR, struct record, sha256, .required = true),
	JSON_FIELD("previousSha256", J_STR, struct record, previous),
	JSON_FIELD("links", J_STRS, struct record, links),
	JSON_FIELD("backups", J_OBJS, struct record, backup, .sub = &backup_table),
	{0},
};
static const struct json_table table = {fields, 0, sizeof(struct record)};

/*
 * Refuses a name that unirail never writes: empty, hidden, with a '/', or too long. Names of the
 * record are opened relative to the directory.
 */
static int check_name(const char *name, struct err *e)
{
	if (!*name || strchr(name, '/') || name[0] == '.' || strlen(name) > 200)
		return err_kind(e, ERR_CONF, -EINVAL, "invalid name '%s'", name);
	return 0;
}

static void set(struct install_thing *t, enum install_have have, const char *id)
{
	free(t->id);
	*t = (struct install_thing){have, xstrdup(id)};
}

static struct install_name *install_name_of(struct install_facts *f, const char *name);

static int use_backup(struct install_facts *f, const struct backup *k, struct err *e)
{
	struct install_name *n;
	int r = check_name(k->name, e);

	if (r < 0)
		return r;
	if (!k->sha256 == !k->link)
		return err_kind(e, ERR_CONF, -EINVAL,
				"backup '%s' in 'backups' must have either sha256 or link",
				k->name);
	n = install_name_of(f, k->name);
	set(&n->noted, k->sha256 ? HAVE_FILE : HAVE_LINK, k->sha256 ? k->sha256 : k->link);
	return 0;
}

static int use(struct install_facts *f, const struct record *rec, struct err *e)
{
	struct install_name *binary = install_name_of(f, INSTALL_BINARY);
	const struct backup *backup = rec->backup.v;
	int r = 0;

	if (strlen(rec->sha256) != SHA_LEN)
		return err_kind(e, ERR_CONF, -EINVAL,
				"sha256 is '%s', expected 64 hexadecimal digits", rec->sha256);
	binary->recorded = true;
	set(&binary->made, HAVE_FILE, rec->sha256);
	if (rec->previous)
		set(&binary->was, HAVE_FILE, rec->previous);
	for (size_t i = 0; r == 0 && i < rec->links.n; i++) {
		r = check_name(rec->links.v[i], e);
		if (r == 0) {
			struct install_name *n = install_name_of(f, rec->links.v[i]);

			n->recorded = true;
			set(&n->made, HAVE_LINK, INSTALL_BINARY);
		}
	}
	for (size_t i = 0; r == 0 && i < rec->backup.n; i++)
		r = use_backup(f, &backup[i], e);
	return r;
}

static int parse(struct install_facts *f, struct span text, struct err *e)
{
	auto_json struct json_doc *d = NULL;
	struct record rec = {0};
	int r = json_parse(&d, text, RECORD_MAX, e);

	if (r == 0)
		r = json_read(d, json_root(d), &table, &rec, "record", e);
	return r < 0 ? r : use(f, &rec, e);
}

int install_record_read(struct install_facts *f, const struct root *r, const char *dir,
			struct err *e)
{
	auto_free char *path = xasprintf("%s/%s", dir, INSTALL_RECORD);
	auto_buf struct buf b;
	int n;

	buf_init(&b, RECORD_MAX);
	n = file_read(r, path, RECORD_MAX, &b, e);
	if (n == -ENOENT) {
		err_clear(e);
		return 0;
	}
	if (n == 0)
		n = parse(f, buf_span(&b), e);
	if (n < 0)
		return err_wrap(e, n, "record of the installation '%s'", path);
	f->has_record = true;
	return 0;
}

static bool keeps(const struct install_plan *p, const struct install_name *n)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->steps[i].what == DO_KEEP && p->steps[i].name == n)
			return true;
	return false;
}

/* Returns the content that the record lists for NAME.before-unirail; NULL: the record lists
 * none. */
static const struct install_thing *backup_of(const struct install_name *n,
					     const struct install_plan *p)
{
	bool replaced = n->wanted && n->now.have == n->backup.have && n->now.id && n->backup.id &&
			strcmp(n->now.id, n->backup.id) == 0;

	if (keeps(p, n) || replaced)
		return &n->now;
	return n->noted.have != HAVE_NOTHING ? &n->noted : NULL;
}

static void write_backup(struct json_out *o, const struct install_name *n,
			 const struct install_thing *t)
{
	jo_obj(o);
	jo_kstr(o, "name", n->name);
	jo_kstr(o, t->have == HAVE_FILE ? "sha256" : "link", t->id);
	jo_end_obj(o);
}

void install_record_write(const struct install_facts *f, const struct install_plan *p,
			  struct buf *b)
{
	const struct install_name *binary = &f->names[0];
	/*
	 * On an upgrade the installed binary becomes the previous one; otherwise the record keeps
	 * its previous binary.
	 */
	bool upgrade = binary->made.id && strcmp(binary->made.id, binary->desired.id) != 0;
	const char *previous = upgrade ? binary->made.id : binary->was.id;
	struct json_out o;

	jo_init(&o, b, 4);
	jo_obj(&o);
	jo_kint(&o, "version", RECORD_VERSION);
	jo_kstr(&o, "sha256", binary->desired.id);
	if (previous)
		jo_kstr(&o, "previousSha256", previous);
	jo_key(&o, "links");
	jo_arr(&o);
	for (size_t i = 1; i < f->n; i++)
		if (f->names[i].wanted || f->names[i].recorded)
			jo_str(&o, f->names[i].name);
	jo_end_arr(&o);
	jo_key(&o, "backups");
	jo_arr(&o);
	for (size_t i = 0; i < f->n; i++) {
		const struct install_thing *t = backup_of(&f->names[i], p);

		if (t)
			write_backup(&o, &f->names[i], t);
	}
	jo_end_arr(&o);
	jo_end_obj(&o);
	buf_char(b, '\n');
}

char *install_backup_name(const char *name)
{
	return xasprintf("%s%s", name, INSTALL_BACKUP);
}

static struct install_name *install_name_of(struct install_facts *f, const char *name)
{
	struct install_name *n;

	for (size_t i = 0; i < f->n; i++)
		if (strcmp(f->names[i].name, name) == 0)
			return &f->names[i];
	n = &VEC_PUSH(f->names, f->n);
	n->name = xstrdup(name);
	n->desired = (struct install_thing){HAVE_LINK, xstrdup(INSTALL_BINARY)};
	return n;
}

void install_facts_done(struct install_facts *f)
{
	for (size_t i = 0; i < f->n; i++) {
		struct install_name *n = &f->names[i];

		free(n->name);
		free(n->desired.id);
		free(n->made.id);
		free(n->was.id);
		free(n->now.id);
		free(n->backup.id);
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
	near = opt_suggest(name, list, n);
	return err_kind(e, ERR_CONF, -EINVAL, "option '--links': no link '%s'%s%s%s", name,
			near ? "; did you mean '" : "; see 'unirail install --list'",
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

static int read_thing(const struct root *r, const char *path, struct install_thing *t,
		      struct err *e)
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

static int inspect(const struct root *r, const char *dir, struct install_name *n, struct err *e)
{
	auto_free char *backup = install_backup_name(n->name);
	auto_free char *path = xasprintf("%s/%s", dir, n->name);
	auto_free char *backup_path = xasprintf("%s/%s", dir, backup);
	int ret = read_thing(r, path, &n->now, e);

	return ret < 0 ? ret : read_thing(r, backup_path, &n->backup, e);
}

int install_facts_read(struct install_facts *f, const struct root *r, const char *dir,
		       const char *links, const char *self, struct err *e)
{
	struct install_name *binary;
	int n = 0;

	*f = (struct install_facts){0};
	binary = install_name_of(f, INSTALL_BINARY);
	free(binary->desired.id);
	binary->desired = (struct install_thing){HAVE_FILE, xstrdup(self)};
	binary->wanted = links != NULL;
	if (links)
		n = want(f, links, e);
	if (n == 0)
		n = install_record_read(f, r, dir, e);
	for (size_t i = 0; n == 0 && i < f->n; i++)
		n = inspect(r, dir, &f->names[i], e);
	return n;
}
