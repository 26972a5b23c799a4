/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/install/install.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/applet.h"
#include "base/option.h"
#include "base/paths.h"
#include "cli/install/swap.h"
#include "host/cni/cni_config.h"
#include "wire/tls/digest.h"

#define SELF "/proc/self/exe"

struct install_opts {
	const char *dir, *links, *root, *output, *conf_dir, *conf_name, *socket;
	bool replace, skip_existing, dry_run, uninstall, purge, stay, list;
};

#define AT(field) offsetof(struct install_opts, field), 0, 0
static const struct opt opts[] = {
	{"cni-bin-dir", 0, OPT_STR, "DIR",
	 "directory of CNI plugins; use this option or the operand, not both (default: " PATH_CNI_BIN
	 ")",
	 AT(dir)},
	{"links", 0, OPT_STR, "LIST", "links to create, 'a,b' or 'all' (default: all)", AT(links)},
	{"replace", 0, OPT_FLAG, NULL,
	 "rename files that unirail did not install to NAME.before-unirail, and create the links "
	 "in their place",
	 AT(replace)},
	{"skip-existing", 0, OPT_FLAG, NULL,
	 "create no link where a file exists that unirail did not install; create the other links",
	 AT(skip_existing)},
	{"cni-conf-dir", 0, OPT_STR, "DIR",
	 "generate the CNI configuration for the container runtime in this directory, which must "
	 "have the same path in a container as on the node (usually " PATH_CNI_CONF
	 "); without this option none is generated",
	 AT(conf_dir)},
	{"cni-conf-name", 0, OPT_STR, "NAME.conflist",
	 "file name of the generated CNI configuration, which must sort before all other files "
	 "of the directory; empty: do not generate it, and remove generated files (default: the "
	 "environment variable UNIRAIL_CNI_CONF_NAME, or " CNI_CONFIG_NAME ")",
	 AT(conf_name)},
	{"socket", 0, OPT_STR, "PATH",
	 "path of the agent's socket, for the generated CNI configuration and for --uninstall (" PATH_AGENT_SOCKET
	 ")",
	 AT(socket)},
	{"uninstall", 0, OPT_FLAG, NULL,
	 "remove the installed files and links and restore the files that they replaced; with "
	 "--cni-conf-dir also remove the generated CNI configuration",
	 AT(uninstall)},
	{"purge", 0, OPT_FLAG, NULL,
	 "with --uninstall: also remove the agent's socket and state (which addresses pods have)",
	 AT(purge)},
	{"stay", 0, OPT_FLAG, NULL,
	 "after success wait for SIGTERM or SIGINT, so that the container that runs this command "
	 "does not end",
	 AT(stay)},
	{"list", 0, OPT_FLAG, NULL, "print the names of all links, change nothing", AT(list)},
	{"dry-run", 0, OPT_FLAG, NULL, "print what would be done, change nothing", AT(dry_run)},
	{"root", 0, OPT_STR, "DIR", "use this directory as the root of the file system", AT(root)},
	{"output", 'o', OPT_CHOICE, "text|json", "output format", AT(output)},
	{0},
};

const struct cmd install_cmds[] = {
	{NULL, "[DIR]", "install the binary and its CNI links into a directory, or remove them",
	 opts, 0, 1},
	{0},
};

static const char *const verbs[] = {
	[DO_COPY] = "copy",	  [DO_KEEP] = "keep",	  [DO_LINK] = "link",
	[DO_RESTORE] = "restore", [DO_REMOVE] = "remove", [DO_FORGET] = "forget",
};

static int print_links(const struct install_opts *o)
{
	auto_buf struct buf b;
	struct json_out j;

	buf_init(&b, HELP_MAX);
	jo_init(&j, &b, 4);
	if (strcmp(o->output, "json") == 0)
		jo_arr(&j);
	for (const struct applet *a = applets; a->name; a++) {
		if (!(a->flags & APPLET_LINK))
			continue;
		if (strcmp(o->output, "json") == 0)
			jo_str(&j, a->name);
		else
			buf_printf(&b, "%s\n", a->name);
	}
	if (strcmp(o->output, "json") == 0) {
		jo_end_arr(&j);
		buf_char(&b, '\n');
	}
	return opt_print(&b);
}

static void say_step(const struct install_opts *o, const struct install_step *s, struct buf *b)
{
	auto_free char *backup = install_backup_name(s->name->name);

	buf_printf(b, "%s%-8s %s", o->dry_run ? "would " : "", verbs[s->what],
		   s->what == DO_FORGET ? backup : s->name->name);
	if (s->what == DO_KEEP)
		buf_printf(b, " as %s", backup);
	else if (s->what == DO_RESTORE)
		buf_printf(b, " from %s", backup);
	else if (s->what == DO_LINK)
		buf_str(b, " -> " INSTALL_BINARY);
	buf_char(b, '\n');
}

static void say(const struct install_opts *o, const struct install_plan *p,
		const struct install_node *node, struct buf *b)
{
	for (size_t i = 0; i < p->n; i++)
		say_step(o, &p->steps[i], b);
	if (node->messages.len)
		buf_printf(b, "%s", buf_span(&node->messages).p);
	if (p->n == 0 && node->messages.len == 0)
		buf_printf(b, "nothing to do in %s\n", o->dir);
}

static void say_json(const struct install_opts *o, const struct install_plan *p,
		     const struct install_node *node, struct buf *b)
{
	struct json_out j;

	jo_init(&j, b, 4);
	jo_obj(&j);
	jo_kstr(&j, "directory", o->dir);
	jo_kbool(&j, "dryRun", o->dry_run);
	jo_kbool(&j, "changed", (p->n > 0 || node->messages.len > 0) && !o->dry_run);
	jo_key(&j, "steps");
	jo_arr(&j);
	for (size_t i = 0; i < p->n; i++) {
		jo_obj(&j);
		jo_kstr(&j, "action", verbs[p->steps[i].what]);
		jo_kstr(&j, "name", p->steps[i].name->name);
		jo_end_obj(&j);
	}
	jo_end_arr(&j);
	jo_key(&j, "skipped");
	jo_arr(&j);
	for (size_t i = 0; i < p->n_skipped; i++) {
		jo_obj(&j);
		jo_kstr(&j, "name", p->skipped[i].name);
		jo_kstr(&j, "reason", p->skipped[i].reason);
		jo_end_obj(&j);
	}
	jo_end_arr(&j);
	if (o->conf_dir && !o->uninstall)
		jo_kstr(&j, "configuration", node->reason.len ? buf_span(&node->reason).p : "");
	jo_end_obj(&j);
	buf_char(b, '\n');
}

static int stage_step(struct swap *s, const struct install_step *step, int self, struct err *e)
{
	const char *name = step->name->name;
	auto_free char *backup = install_backup_name(name);
	int r = 0;

	switch (step->what) {
	case DO_COPY: return swap_copy(s, name, self, 0755, e);
	case DO_KEEP: return swap_same(s, backup, name, e);
	case DO_LINK: return swap_link(s, name, INSTALL_BINARY, e);
	case DO_RESTORE:
		r = swap_same(s, name, backup, e);
		if (r == 0)
			swap_drop(s, backup);
		return r;
	case DO_REMOVE: swap_drop(s, name); return 0;
	case DO_FORGET: swap_drop(s, backup); return 0;
	}
	return r;
}

/*
 * An installation writes the record first and a removal deletes it last: after a crash at any point
 * the record names every file that may exist.
 */
static int carry_out(struct swap *s, const struct install_opts *o, const struct install_facts *f,
		     const struct install_plan *p, int self, struct err *e)
{
	auto_buf struct buf record;
	int r = 0;

	buf_init(&record, 1 << 18);
	if (!o->uninstall) {
		install_record_write(f, p, &record);
		r = swap_text(s, INSTALL_RECORD, buf_span(&record), 0644, e);
	}
	for (size_t i = 0; r == 0 && i < p->n; i++)
		r = stage_step(s, &p->steps[i], self, e);
	if (r == 0 && o->uninstall)
		swap_drop(s, INSTALL_RECORD);
	return r < 0 ? r : swap_commit(s, e);
}

/* Returns whether the record on disk already has the content that this call would write. */
static bool record_is_current(const struct root *r, const char *dir, const struct install_facts *f,
			      const struct install_plan *p)
{
	auto_free char *path = xasprintf("%s/%s", dir, INSTALL_RECORD);
	auto_buf struct buf is, wants;

	buf_init(&is, 1 << 18);
	buf_init(&wants, 1 << 18);
	install_record_write(f, p, &wants);
	return file_read(r, path, 1 << 18, &is, NULL) == 0 && is.len == wants.len &&
	       memcmp(buf_span(&is).p, buf_span(&wants).p, is.len) == 0;
}

static enum install_others others(const struct install_opts *o)
{
	return o->replace ? OTHERS_REPLACE : o->skip_existing ? OTHERS_SKIP : OTHERS_REFUSE;
}

static void install_plan_removal(const struct install_facts *f, struct install_plan *p);

static int act(const struct root *r, const struct install_opts *o, struct swap *s,
	       struct install_facts *f, struct install_plan *p, struct err *e)
{
	char sha[DIGEST_HEX];
	struct root host;
	auto_fd int self = -1;
	int n = root_open(&host, NULL, e);

	if (n < 0)
		return n;
	n = digest_sha256_file(&host, SELF, sha, e);
	if (n == 0)
		n = self = file_open(&host, SELF, O_RDONLY, 0, e);
	root_close(&host);
	if (n >= 0)
		n = install_facts_read(f, r, o->dir, o->uninstall ? NULL : o->links, sha, e);
	if (n == 0 && o->uninstall)
		install_plan_removal(f, p);
	else if (n == 0)
		n = install_plan(f, others(o), p, e);
	if (n < 0)
		return err_wrap(e, n, "directory '%s'", o->dir);
	if (o->dry_run)
		return 0;
	if (o->uninstall ? !f->has_record : p->n == 0 && record_is_current(r, o->dir, f, p))
		return 0;
	n = carry_out(s, o, f, p, self, e);
	return n < 0 ? err_wrap(e, n, "directory '%s'", o->dir) : 0;
}

static int report(const struct install_opts *o, const struct install_plan *p,
		  const struct install_node *node)
{
	auto_buf struct buf b;

	buf_init(&b, HELP_MAX);
	if (strcmp(o->output, "json") == 0)
		say_json(o, p, node, &b);
	else
		say(o, p, node, &b);
	/* It is not an error that the runtime does not use the configuration: either the agent
	 * writes the configuration later, when the cluster's network is installed, or the
	 * message printed here names the remedy. */
	if (node->reason.len)
		fprintf(stderr, "unirail install: %s\n", buf_span(&node->reason).p);
	for (size_t i = 0; i < p->n_skipped; i++)
		fprintf(stderr, "unirail install: skipped '%s/%s': %s\n", o->dir,
			p->skipped[i].name, p->skipped[i].reason);
	return opt_print(&b) || (p->n_skipped > 0 && !o->skip_existing);
}

/* Removes the directory only if it is empty. */
static void drop_dir(const struct root *r, const char *dir)
{
	(void)unlinkat(r->fd, dir + 1, AT_REMOVEDIR);
}

/*
 * Called before the change of the links (after: false) and after it (after: true). A removal
 * deletes the CNI configuration and the CDI specifications before the links, so that the runtime no
 * longer uses the links; an installation changes the CNI configuration when all links exist. A
 * purge comes last. Before a removal with --cni-conf-dir or --purge the function checks that no
 * agent runs, except with --dry-run.
 */
static int do_node(const struct install_opts *o, struct install_node *n, bool after, struct err *e)
{
	int r = 0;

	if (o->uninstall && !after && (o->conf_dir || o->purge))
		r = o->dry_run ? 0 : install_node_is_free(n, e);
	if (r == 0 && o->conf_dir && after != o->uninstall)
		r = install_node_config(n, o->uninstall || !*o->conf_name, e);
	if (r == 0 && o->conf_dir && o->uninstall && !after)
		r = install_node_remove_cdi(n, e);
	return r == 0 && o->purge && after ? install_node_purge(n, e) : r;
}

static int run(const struct install_opts *o, struct err *e)
{
	auto_swap struct swap s = SWAP_INIT;
	struct install_facts f = {0};
	struct install_plan p = {0};
	struct root r;
	struct install_node node = {.root = &r,
				    .conf_dir = o->conf_dir,
				    .conf_name = o->conf_name,
				    .socket = o->socket,
				    .dry_run = o->dry_run};
	int n = root_open(&r, o->root, e), status = 1;
	bool made;

	if (n < 0)
		return n;
	buf_init(&node.messages, HELP_MAX);
	buf_init(&node.reason, ERR_TEXT_MAX);
	n = do_node(o, &node, false, e);
	made = n == 0 && !o->dry_run && !o->uninstall && !file_exists(&r, o->dir);
	if (n == 0 && !o->dry_run && !o->uninstall)
		n = dir_make(&r, o->dir, 0755, e);
	/* Without the directory there is nothing to remove. */
	if (n == 0 && !o->dry_run && (!o->uninstall || file_exists(&r, o->dir)))
		n = swap_open(&s, &r, o->dir, e);
	if (n == 0)
		n = act(&r, o, &s, &f, &p, e);
	swap_close(&s);
	if (n < 0 && made)
		drop_dir(&r, o->dir);
	if (n == 0)
		n = do_node(o, &node, true, e);
	if (n == 0)
		status = report(o, &p, &node);
	buf_done(&node.messages);
	buf_done(&node.reason);
	install_plan_done(&p);
	install_facts_done(&f);
	root_close(&r);
	return n < 0 ? n : status;
}

static int check_config(struct install_opts *o, struct err *e)
{
	const char *name = getenv("UNIRAIL_CNI_CONF_NAME");

	if (!o->socket)
		o->socket = PATH_AGENT_SOCKET;
	if (o->socket[0] != '/')
		return err_set(e, -EINVAL, "socket '%s' is not an absolute path", o->socket);
	if (o->conf_name && !o->conf_dir)
		return err_set(e, -EINVAL, "option '--cni-conf-name' needs --cni-conf-dir");
	if (!o->conf_name)
		o->conf_name = name ? name : CNI_CONFIG_NAME;
	if (!o->conf_dir)
		return 0;
	if (o->conf_dir[0] != '/')
		return err_set(e, -EINVAL, "directory '%s' is not an absolute path", o->conf_dir);
	return *o->conf_name ? cni_config_check_name(o->conf_name, e) : 0;
}

static int check(struct install_opts *o, const char *operand, struct err *e)
{
	if (operand && o->dir)
		return err_set(e, -EINVAL,
			       "operand '%s' and --cni-bin-dir both name the "
			       "directory: use one of them",
			       operand);
	if (!o->dir)
		o->dir = operand ? operand : PATH_CNI_BIN;
	if (o->dir[0] != '/')
		return err_set(e, -EINVAL, "directory '%s' is not an absolute path", o->dir);
	if (o->uninstall && (o->replace || o->skip_existing || o->links))
		return err_set(e, -EINVAL, "option '--%s' cannot be used with --uninstall",
			       o->replace	  ? "replace"
			       : o->skip_existing ? "skip-existing"
						  : "links");
	if (o->replace && o->skip_existing)
		return err_set(e, -EINVAL,
			       "options '--skip-existing' and '--replace' exclude each other");
	if (o->purge && !o->uninstall)
		return err_set(e, -EINVAL, "option '--purge' needs --uninstall");
	return check_config(o, e);
}

/*
 * Waits for SIGTERM or SIGINT. The kernel does not apply the default action of these signals to the
 * first process of a container.
 */
static void stay(void)
{
	sigset_t set;

	fflush(stdout);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	while (sigwaitinfo(&set, NULL) < 0 && errno == EINTR)
		;
}

int install_main(int argc, char **argv)
{
	struct install_opts o = {.output = "text"};
	struct err e = ERR_INIT;
	int r = opt_parse(install_cmds, "unirail install", argc - 1, argv + 1, &o, &e);

	if (r >= 0)
		r = check(&o, argv[1 + r], &e);
	if (r < 0)
		return opt_exit("unirail install", r, &e);
	if (o.list)
		return print_links(&o);
	if (!o.links)
		o.links = "all";
	r = run(&o, &e);
	if (r == 0 && o.stay)
		stay();
	if (r >= 0)
		return r;
	fprintf(stderr, "unirail install: %s\n", e.text);
	return 1;
}

/* --- the plan, computed from the state of the directory without side effects --- */

static bool same(const struct install_thing *a, const struct install_thing *b)
{
	return a->have == b->have && a->id && b->id && strcmp(a->id, b->id) == 0;
}

static bool is_from_unirail(const struct install_name *n)
{
	return n->recorded && (same(&n->now, &n->made) || same(&n->now, &n->was));
}

static void step(struct install_plan *p, enum install_do what, const struct install_name *n)
{
	VEC_PUSH(p->steps, p->n) = (struct install_step){what, n};
}

static void leave(struct install_plan *p, char *name, const char *reason)
{
	VEC_PUSH(p->skipped, p->n_skipped) = (struct install_skipped){name, reason};
}

void install_plan_done(struct install_plan *p)
{
	for (size_t i = 0; i < p->n_skipped; i++)
		free(p->skipped[i].name);
	free(p->skipped);
	free(p->steps);
	*p = (struct install_plan){0};
}

/* Names that unirail cannot install. foreign: files and links that unirail did not install; odd:
 * neither a file nor a link; taken: NAME.before-unirail already exists with other content. */
struct refusals {
	struct buf foreign, odd, taken;
};

static void refuse(struct buf *b, const char *name)
{
	buf_printf(b, "%s'%s'", b->len ? ", " : "", name);
}

static void plan_name(struct install_name *n, enum install_others others, struct install_plan *p,
		      struct refusals *no)
{
	if (same(&n->now, &n->desired))
		return;
	/*
	 * With --skip-existing a file of another program stays under the name of a link. Under the
	 * name of the binary such a file is an error, because the links point to this name.
	 */
	if (others == OTHERS_SKIP && n->desired.have == HAVE_LINK && n->now.have != HAVE_NOTHING &&
	    !is_from_unirail(n)) {
		n->wanted = false;
		leave(p, xstrdup(n->name), "not installed by unirail");
		return;
	}
	if (n->now.have == HAVE_OTHER) {
		refuse(&no->odd, n->name);
		return;
	}
	if (n->now.have != HAVE_NOTHING && !is_from_unirail(n)) {
		if (others != OTHERS_REPLACE)
			refuse(&no->foreign, n->name);
		else if (n->backup.have == HAVE_NOTHING)
			step(p, DO_KEEP, n);
		else if (!same(&n->backup, &n->now))
			refuse(&no->taken, n->name);
	}
	step(p, n->desired.have == HAVE_FILE ? DO_COPY : DO_LINK, n);
}

static int refused(const struct refusals *no, struct err *e)
{
	if (no->odd.len)
		return err_kind(e, ERR_CONF, -EEXIST,
				"%s: neither a file nor a link; move it to "
				"another directory",
				buf_span(&no->odd).p);
	if (no->foreign.len)
		return err_kind(e, ERR_CONF, -EEXIST,
				"not installed by unirail: %s; --replace renames each to "
				"NAME" INSTALL_BACKUP
				", --skip-existing leaves them in place, but fails if 'unirail' "
				"is one of them, --links selects the links to install",
				buf_span(&no->foreign).p);
	if (no->taken.len)
		return err_kind(e, ERR_CONF, -EEXIST,
				"another NAME" INSTALL_BACKUP " already exists for %s; move it to "
				"another directory",
				buf_span(&no->taken).p);
	return 0;
}

int install_plan(struct install_facts *f, enum install_others others, struct install_plan *p,
		 struct err *e)
{
	struct refusals no;
	int r;

	*p = (struct install_plan){0};
	buf_init(&no.foreign, ERR_TEXT_MAX / 2);
	buf_init(&no.odd, ERR_TEXT_MAX / 2);
	buf_init(&no.taken, ERR_TEXT_MAX / 2);
	for (size_t i = 0; i < f->n; i++)
		if (f->names[i].wanted)
			plan_name(&f->names[i], others, p, &no);
	r = refused(&no, e);
	buf_done(&no.foreign);
	buf_done(&no.odd);
	buf_done(&no.taken);
	if (r < 0)
		install_plan_done(p);
	return r;
}

/*
 * For a name that is free or was installed by unirail: restores the backup if it is the recorded
 * file or link, otherwise removes the name.
 */
static void free_name(const struct install_name *n, struct install_plan *p)
{
	if (n->noted.have != HAVE_NOTHING && same(&n->backup, &n->noted)) {
		step(p, DO_RESTORE, n);
		return;
	}
	if (n->now.have != HAVE_NOTHING)
		step(p, DO_REMOVE, n);
	if (n->noted.have != HAVE_NOTHING)
		leave(p, install_backup_name(n->name),
		      n->backup.have == HAVE_NOTHING ? "backup is missing"
						     : "backup was changed, not restored");
}

static void plan_removal(const struct install_name *n, struct install_plan *p)
{
	if (n->now.have == HAVE_NOTHING || is_from_unirail(n)) {
		free_name(n, p);
	} else if (same(&n->now, &n->noted)) {
		/* The original file is in place: an interrupted removal has restored it, or an
		 * interrupted installation has not replaced it yet. */
		if (same(&n->backup, &n->noted))
			step(p, DO_FORGET, n);
	} else {
		leave(p, xstrdup(n->name), "changed since it was installed, not removed");
		if (n->noted.have != HAVE_NOTHING && n->backup.have != HAVE_NOTHING)
			leave(p, install_backup_name(n->name),
			      "backup of an earlier installation, not "
			      "restored");
	}
}

static void install_plan_removal(const struct install_facts *f, struct install_plan *p)
{
	*p = (struct install_plan){0};
	/* Removes the links before the binary, so that no link dangles meanwhile. */
	for (size_t i = f->n; i-- > 0;)
		if (f->names[i].recorded)
			plan_removal(&f->names[i], p);
}
