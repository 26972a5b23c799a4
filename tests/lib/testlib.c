/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"

/* If a string has LONG_STRING bytes or more, a failure also prints the position of the first
 * difference, and up to DIFFERENCE_SHOWN bytes of each string from there. */
#define LONG_STRING	 60
#define DIFFERENCE_SHOWN 40

static _Noreturn void fail_at(struct t_at at, const char *fmt, va_list ap)
{
	char text[1024];

	vsnprintf(text, sizeof(text), fmt, ap);
	if (text[0])
		print_error("  %s\n", text);
	_fail(at.file, at.line);
}

static void print_int(const char *what, struct t_int x)
{
	char value[24];

	snprintf(value, sizeof(value), x.is_signed ? "%jd" : "%ju", x.v);
	if (strcmp(what, value) == 0)
		print_error("  %s\n", what);
	else
		print_error("  %s is %s\n", what, value);
}

void t_assert_eq(struct t_int a, struct t_int b, struct t_at at, const char *fmt, ...)
{
	va_list ap;

	if (a.v == b.v)
		return;
	print_error("expected equal numbers:\n");
	print_int(at.a, a);
	print_int(at.b, b);
	va_start(ap, fmt);
	fail_at(at, fmt, ap);
}

static void print_str(const char *what, const char *s)
{
	if (s)
		print_error("  %s is \"%s\"\n", what, s);
	else
		print_error("  %s is NULL\n", what);
}

static void print_difference(const char *a, const char *b)
{
	size_t i = 0;

	while (a[i] && a[i] == b[i])
		i++;
	print_error("  first difference at byte %zu: \"%.*s\", \"%.*s\"\n", i, DIFFERENCE_SHOWN,
		    a + i, DIFFERENCE_SHOWN, b + i);
}

void t_assert_str_eq(const char *a, const char *b, struct t_at at, const char *fmt, ...)
{
	va_list ap;

	if (a && b ? strcmp(a, b) == 0 : a == b)
		return;
	print_error("expected equal strings:\n");
	print_str(at.a, a);
	print_str(at.b, b);
	if (a && b && (strlen(a) >= LONG_STRING || strlen(b) >= LONG_STRING))
		print_difference(a, b);
	va_start(ap, fmt);
	fail_at(at, fmt, ap);
}

void t_assert_has(const char *text, const char *part, struct t_at at)
{
	if (text && strstr(text, part))
		return;
	print_error("expected that the first string contains the second:\n");
	print_str(at.a, text);
	print_str(at.b, part);
	_fail(at.file, at.line);
}

void t_assert_ok(int r, const struct err *e, struct t_at at)
{
	if (r >= 0)
		return;
	print_error("expected success:\n  %s is %d: %s\n", at.a, r, e->text);
	_fail(at.file, at.line);
}

const char *t_module(char *ret, const char *file)
{
	const char *name = strrchr(file, '/') + 1;
	const char *dir = strstr(file, "unit/");

	dir = dir ? dir + strlen("unit/") : name;
	name += strncmp(name, "test_", 5) == 0 ? 5 : 0;
	snprintf(ret, 64, "%.*s%.*s", (int)(strrchr(file, '/') + 1 - dir), dir,
		 (int)strcspn(name, "."), name);
	return ret;
}

struct ipaddr t_ip(const char *text)
{
	struct ipaddr a;

	if (ip_parse(span_of(text), &a) < 0)
		fail_msg("'%s' is not an IP address", text);
	return a;
}

struct ipnet t_net(const char *text)
{
	struct ipnet n;

	if (ipnet_parse_loose(span_of(text), &n) < 0)
		fail_msg("'%s' is not a network", text);
	return n;
}

struct mac t_mac(const char *text)
{
	struct mac m;

	if (mac_parse(span_of(text), &m) < 0)
		fail_msg("'%s' is not a MAC address", text);
	return m;
}

char *t_quoted(const char *text)
{
	char *s = xstrdup(text);

	for (char *p = s; *p; p++)
		*p = *p == '\'' ? '"' : *p;
	return s;
}

struct json_doc *t_json(const char *text)
{
	struct json_doc *doc = NULL;
	struct err e = ERR_INIT;

	if (json_parse(&doc, span_of(text), 64 << 20, &e) < 0)
		fail_msg("%s: %s", e.text, text);
	return doc;
}

struct json_doc *t_json_quoted(const char *text)
{
	auto_free char *s = t_quoted(text);

	return t_json(s);
}

size_t t_hex(const char *hex, uint8_t *ret, size_t size)
{
	size_t n = strlen(hex) / 2;

	assert_true(n <= size);
	for (size_t i = 0; i < n; i++) {
		char two[3] = {hex[2 * i], hex[2 * i + 1], 0};

		ret[i] = (uint8_t)strtoul(two, NULL, 16);
	}
	return n;
}

void t_assert_hex(const struct buf *b, const char *hex)
{
	auto_buf struct buf text;

	buf_init(&text, 1 << 16);
	for (size_t i = 0; i < b->len; i++)
		buf_printf(&text, "%02x", (unsigned char)b->p[i]);
	buf_str(&text, "");
	ASSERT_STR_EQ(text.p ? text.p : "", hex);
}

void t_slurp(FILE *f, char *into, size_t size)
{
	size_t n;

	rewind(f);
	n = fread(into, 1, size - 1, f);
	into[n] = '\0';
	fclose(f);
}

char t_out[1 << 16], t_err[1 << 14];

int t_main(int (*fn)(int argc, char **argv), const char *const *args)
{
	int argc = 0, out = dup(STDOUT_FILENO), err = dup(STDERR_FILENO), status;
	FILE *o = tmpfile(), *e = tmpfile();
	char *argv[32];

	for (; args[argc]; argc++) {
		assert_true(argc < 31);
		argv[argc] = (char *)(uintptr_t)args[argc];
	}
	argv[argc] = NULL;
	fflush(stdout);
	fflush(stderr);
	dup2(fileno(o), STDOUT_FILENO);
	dup2(fileno(e), STDERR_FILENO);
	status = fn(argc, argv);
	fflush(stdout);
	fflush(stderr);
	dup2(out, STDOUT_FILENO);
	dup2(err, STDERR_FILENO);
	close(out);
	close(err);
	t_slurp(o, t_out, sizeof(t_out));
	t_slurp(e, t_err, sizeof(t_err));
	return status;
}

int t_in_child(int (*fn)(const char *arg), const char *arg)
{
	pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(fn(arg));
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	return status;
}

static void stop(void *arg)
{
	loop_stop(arg, 0);
}

void t_loop_run(struct loop *l, int64_t ms)
{
	(void)loop_add_timer(l, ms, stop, l);
	(void)loop_run(l);
}

static void make_below(const char *parent, char path[static T_DIR_MAX], struct root *root)
{
	snprintf(path, T_DIR_MAX, "%s/unirail-test.XXXXXX", parent);
	assert_non_null(mkdtemp(path));
	ASSERT_EQ(root_open(root, path, NULL), 0);
}

void t_dir_make(char path[static T_DIR_MAX], struct root *root)
{
	/* in memory if possible: on a disk that other processes use, thousands of fsyncs would
	 * wait */
	make_below(access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", path, root);
}

void t_dir_make_in_tmp(char path[static T_DIR_MAX], struct root *root)
{
	make_below("/tmp", path, root);
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

void t_dir_remove(const char *path, struct root *root)
{
	root_close(root);
	nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

int t_dir_setup(void **state)
{
	struct t_dir *d = xcalloc(1, sizeof(*d));

	t_dir_make(d->path, &d->root);
	*state = d;
	return 0;
}

int t_dir_teardown(void **state)
{
	struct t_dir *d = *state;

	t_dir_remove(d->path, &d->root);
	free(d);
	return 0;
}

int t_log_off(void **state)
{
	(void)state;
	log_threshold = LOG_NONE;
	return 0;
}
