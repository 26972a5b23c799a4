/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/cluster/network_record.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "wire/tls/digest.h"

#define RECORDS_DIR "/unirail/networks"
#define SUFFIX	    ".json"

enum {
	VERSION = 1,
	LOCK_MS = 2000,
	DIGITS = 32,
	NAMESPACE_BYTES = 64,
	NAME_BYTES = 100,
	NAME_FILE_BYTES = 256,
	/* Maximum number of file names that GC examines: another program may have filled the
	 * directory. */
	NAMES_MAX = 2 * NETWORK_RECORDS_MAX,
};

static char *dir_of(const struct pod_conf *conf)
{
	return xasprintf("%s" RECORDS_DIR, conf->cni_dir);
}

static int check_dir(int fd, const char *path, struct err *e)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_sys(e, -errno, "stat '%s'", path);
	if (st.st_uid == 0 && !(st.st_mode & (S_IWGRP | S_IWOTH)))
		return 0;
	return err_set(e, -EPERM,
		       "directory '%s' can be changed by others than root (chown root, chmod 0700)",
		       path);
}

/* Opens the directory of the records; -ENOENT: it does not exist. */
static int open_dir(const struct root *r, const char *path, struct err *e)
{
	auto_fd int fd = file_open(r, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, e);
	int n = fd < 0 ? fd : check_dir(fd, path, e);

	return n < 0 ? n : take_fd(&fd);
}

static int lock_dir(int fd, const char *path, struct err *e)
{
	int r = lock_fd(fd, LOCK_MS);

	return r < 0 ? err_sys(e, r, "lock '%s'", path) : 0;
}

/* --- file names of the records --- */

static void add_safe(struct buf *b, const char *s, size_t n, size_t max)
{
	for (size_t i = 0; i < n && i < max; i++)
		buf_char(b,
			 isalnum((unsigned char)s[i]) || s[i] == '-' || s[i] == '.' ? s[i] : '-');
}

/* Returns the name of a record's file, "team_rail0-<digest>.json"; the caller frees it. A
 * namespace contains no '_', so the text before the first '_' is the namespace. */
static char *name_of(const struct pod_net *net, struct span content)
{
	const char *nad = net->nad ? net->nad : "", *slash = strchr(nad, '/');
	const char *name = slash ? slash + 1 : net->name ? net->name : nad;
	char digest[DIGEST_HEX];
	struct buf b;

	buf_init(&b, NAME_FILE_BYTES);
	digest_sha256(content, digest);
	add_safe(&b, nad, slash ? (size_t)(slash - nad) : 0, NAMESPACE_BYTES);
	buf_char(&b, '_');
	add_safe(&b, name, strlen(name), NAME_BYTES);
	buf_printf(&b, "-%.*s" SUFFIX, DIGITS, digest);
	return buf_take(&b);
}

static bool is_record(const char *name)
{
	size_t n = strlen(name);

	return *name != '.' && n > DIGITS + strlen(SUFFIX) &&
	       strcmp(name + n - strlen(SUFFIX), SUFFIX) == 0;
}

static bool matches(const char *name, struct span content)
{
	const char *at = name + strlen(name) - strlen(SUFFIX) - DIGITS;
	char digest[DIGEST_HEX];

	digest_sha256(content, digest);
	return strncmp(at, digest, DIGITS) == 0;
}

/* --- ADD: write of a record --- */

static void put_record(const struct cni_call *c, const char *state_dir, const struct pod_net *net,
		       struct buf *b)
{
	struct json_out o;

	jo_init(&o, b, 0);
	jo_obj(&o);
	jo_kint(&o, "version", VERSION);
	jo_kstr(&o, "network", c->name);
	if (net->nad)
		jo_kstr(&o, "nad", net->nad);
	if (net->name)
		jo_kstr(&o, "name", net->name);
	if (state_dir)
		jo_kstr(&o, "stateDir", state_dir);
	if (net->trusted)
		jo_kbool(&o, "trusted", true);
	if (json_kind(net->config) != JSON_NULL) {
		jo_key(&o, "config");
		jo_val(&o, net->config, false);
	}
	jo_end_obj(&o);
}

/* Returns whether the record exists with this size. A record that a full disk or a power loss
 * truncated is written again. */
static bool exists(int dir, const char *name, size_t size)
{
	struct stat st;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
	       (size_t)st.st_size == size;
}

static int check_room(const struct root *r, const char *dir_path, const char *name, struct err *e)
{
	size_t n = 0, all = 0, same = 0, prefix = strcspn(name, "_") + 1;
	char **names = NULL;
	int k = dir_list(r, dir_path, &names, &n, e);

	if (k < 0)
		return k;
	for (size_t i = 0; i < n; i++) {
		all += is_record(names[i]);
		same += is_record(names[i]) && strncmp(names[i], name, prefix) == 0;
	}
	str_list_free(names, n);
	if (same >= NETWORK_RECORDS_NAMESPACE_MAX)
		return err_set(
			e, -ENOSPC,
			"directory '%s' already has %d records of the namespace, which is the limit",
			dir_path, NETWORK_RECORDS_NAMESPACE_MAX);
	return all < NETWORK_RECORDS_MAX
		       ? 0
		       : err_set(e, -ENOSPC,
				 "directory '%s' already has %d records, which is the limit",
				 dir_path, NETWORK_RECORDS_MAX);
}

/* Writes a record's file without fsync(): the digest shows whether the content is complete. */
static int write_file(int dir, const char *dir_path, const char *name, struct span content,
		      struct err *e)
{
	/* one name suffices, because the directory is locked */
	static const char temp[] = ".new.tmp";
	auto_fd int fd = -1;
	int r;

	unlinkat(dir, temp, 0);
	fd = openat(dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(e, -errno, "create '%s/%s'", dir_path, temp);
	r = fd_write_all(fd, content.p, content.n, e);
	if (r >= 0 && renameat(dir, temp, dir, name) < 0)
		r = err_sys(e, -errno, "rename '%s/%s' to '%s'", dir_path, temp, name);
	if (r < 0)
		unlinkat(dir, temp, 0);
	return r < 0 ? err_wrap(e, r, "write '%s/%s'", dir_path, name) : 0;
}

static int write_record(const struct root *r, const char *dir_path, const char *name,
			struct span content, struct err *e)
{
	auto_fd int dir = -1;
	int n = dir_make(r, dir_path, 0700, e);

	if (n >= 0)
		n = dir = open_dir(r, dir_path, e);
	if (n >= 0)
		n = lock_dir(dir, dir_path, e);
	if (n < 0 || exists(dir, name, content.n))
		return n;
	n = check_room(r, dir_path, name, e);
	return n < 0 ? n : write_file(dir, dir_path, name, content, e);
}

void network_record_write(const struct cni_call *c, const struct pod_conf *conf,
			  const char *state_dir, const struct pod_net *net)
{
	auto_free char *dir_path = dir_of(conf), *name = NULL;
	struct err reason = ERR_INIT;
	auto_buf struct buf b;
	int r;

	buf_init(&b, NETWORK_RECORD_BYTES_MAX);
	/* A network from a file (a path in defaultNetworks) is not recorded: GC reaches it only
	 * by the cache entries of its pods. */
	if (net->path && *net->path)
		return;
	put_record(c, state_dir, net, &b);
	name = name_of(net, buf_span(&b));
	r = b.over ? err_set(&reason, -EFBIG, "the record of the network has more than %d bytes",
			     NETWORK_RECORD_BYTES_MAX)
		   : write_record(&c->root, dir_path, name, buf_span(&b), &reason);
	if (r < 0)
		log_warn(
			"network is not recorded: GC does not reach it once the cache entries of its pods are deleted",
			LOG_S("definition", pod_net_label(net)), LOG_S("error", reason.text));
}

/* --- GC: read and removal of records --- */

struct raw {
	int64_t version;
	const char *network, *nad, *name, *state_dir;
	bool trusted;
	const struct json *config;
};

#define FIELD(key, kind, member, ...) JSON_FIELD(key, kind, struct raw, member, ##__VA_ARGS__)

static const struct json_field fields[] = {
	FIELD("version", J_INT, version, .min = 0, .max = INT32_MAX),
	FIELD("network", J_STR, network),
	FIELD("nad", J_STR, nad),
	FIELD("name", J_STR, name),
	FIELD("stateDir", J_STR, state_dir),
	FIELD("trusted", J_BOOL, trusted),
	FIELD("config", J_VAL, config),
	{0},
};
static const struct json_table table = {fields, 0, 0};

static int read_content(int dir, const char *name, struct buf *into, struct err *e)
{
	auto_fd int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, -errno, "open '%s'", name);
	if (!S_ISREG(st.st_mode) || st.st_uid != 0)
		return err_set(e, -EPERM, "'%s' is not a regular file owned by root", name);
	return fd_read_all(fd, NETWORK_RECORD_BYTES_MAX, into, e);
}

/* Reads a record. Returns 1 if it is a record of another netconf. */
static int parse(const struct cni_call *c, struct span content, struct network_record *ret,
		 struct err *e)
{
	auto_json struct json_doc *d = NULL;
	struct raw raw = {0};
	int r = json_parse(&d, content, NETWORK_RECORD_BYTES_MAX, e);

	if (r >= 0)
		r = json_read(d, json_root(d), &table, &raw, "record", e);
	if (r < 0)
		return r;
	if (raw.version != VERSION)
		return err_set(e, -EPROTO, "record.version is %lld, expected %d",
			       (long long)raw.version, VERSION);
	if (!raw.network || strcmp(raw.network, c->name) != 0)
		return 1;
	ret->net = (struct pod_net){
		.nad = raw.nad, .name = raw.name, .config = raw.config, .trusted = raw.trusted};
	ret->state_dir = raw.state_dir;
	ret->doc = take(d);
	return 0;
}

static int read_record(const struct cni_call *c, int dir, const char *name,
		       struct network_record *ret, struct err *e)
{
	auto_buf struct buf text;
	int r;

	buf_init(&text, NETWORK_RECORD_BYTES_MAX + 1);
	r = read_content(dir, name, &text, e);
	if (r < 0)
		return r;
	if (!matches(name, buf_span(&text))) {
		unlinkat(dir, name, 0);
		return err_set(
			e, -EIO,
			"the record does not match its digest: removed, the next ADD writes the "
			"record again");
	}
	return parse(c, buf_span(&text), ret, e);
}

void network_records_read(const struct cni_call *c, const struct pod_conf *conf,
			  struct network_record **ret, size_t *n)
{
	auto_free char *dir_path = dir_of(conf);
	struct err reason = ERR_INIT;
	auto_fd int dir = open_dir(&c->root, dir_path, &reason);
	char **names = NULL;
	size_t count = 0;
	int r = dir < 0 ? dir : dir_list(&c->root, dir_path, &names, &count, &reason);

	if (r < 0 && r != -ENOENT)
		log_warn("cannot read the records of networks: GC skips the recorded networks",
			 LOG_S("error", reason.text));
	for (size_t i = 0; i < count && i < NAMES_MAX; i++) {
		struct network_record one = {0};

		if (!is_record(names[i]))
			continue;
		err_clear(&reason);
		r = read_record(c, dir, names[i], &one, &reason);
		if (r < 0)
			log_warn(
				"cannot read the record of a network: GC skips the recorded network",
				LOG_S("file", names[i]), LOG_S("directory", dir_path),
				LOG_S("error", reason.text));
		if (r != 0)
			continue;
		one.file = xstrdup(names[i]);
		VEC_PUSH(*ret, *n) = one;
	}
	str_list_free(names, count);
}

void network_records_free(struct network_record *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(list[i].file);
		json_free(list[i].doc);
	}
	free(list);
}

void network_records_remove(const struct cni_call *c, const struct pod_conf *conf,
			    const char *const *files, size_t n, bool (*unchanged)(void *arg),
			    void *arg)
{
	auto_free char *dir_path = dir_of(conf);
	struct err reason = ERR_INIT;
	auto_fd int dir = -1;
	int r;

	if (!n)
		return;
	r = dir = open_dir(&c->root, dir_path, &reason);
	if (r >= 0)
		r = lock_dir(dir, dir_path, &reason);
	if (r >= 0 && unchanged(arg))
		for (size_t i = 0; i < n; i++)
			if (unlinkat(dir, files[i], 0) < 0 && errno != ENOENT)
				r = err_sys(&reason, -errno, "remove '%s/%s'", dir_path, files[i]);
	if (r < 0)
		log_warn("cannot remove records of networks", LOG_S("error", reason.text));
}
