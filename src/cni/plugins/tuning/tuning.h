/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_PLUGINS_TUNING_TUNING_H
#define UNIRAIL_CNI_PLUGINS_TUNING_TUNING_H

/*
 * The tuning plugin: sysctls of the pod's namespace and attributes of its interface. The netconf,
 * keys matched as Go's encoding/json does:
 *
 *	sysctl			{"net.ipv4.conf.IFNAME.arp_notify": "1"}; IFNAME is the interface
 *	mac, promisc, mtu, allmulti, txQLen
 *	dataDir			directory of the files for DEL; default /run/cni/tuning
 *	runtimeConfig.mac
 *	args.cni		{sysctl, mac, promisc, mtu, allmulti, txQLen}
 *
 * The sources in the order of precedence: args.cni, runtimeConfig, MAC of CNI_ARGS, the netconf's
 * own keys. Sysctls must be below net. If /etc/cni/tuning/allowlist.conf exists, each sysctl must
 * match a line of that file.
 *
 * The former state of the interface is stored in <dataDir>/<container id>_<interface>.json, in the
 * original's format; DEL restores it and removes the file. A second tuning in the chain adds to the
 * file, so that DEL restores the state before the first one. The kernel deletes sysctls with the
 * namespace.
 */

#include "cni/plugins/chained.h"

#define TUNING_ALLOWLIST "/etc/cni/tuning/allowlist.conf"

/* Attributes of a link: requested ones, current ones, or those stored for DEL. */
struct tuning_attrs {
	struct mac mac; /* len 0: not changed */
	uint32_t mtu;	/* 0: not changed */
	bool has_promisc, promisc;
	bool has_allmulti, allmulti;
	bool has_txqlen;
	uint32_t txqlen;
};

struct tuning_sysctl {
	const char *key, *value; /* as written in the configuration */
	char *path;		 /* below /proc/sys, IFNAME replaced */
	/* "conf.sysctl" or "conf.args.cni.sysctl": the object that has the value */
	const char *object;
};

struct tuning_conf {
	const char *data_dir;
	const char *mac_text; /* MAC as the user wrote it, which the result repeats */
	struct tuning_attrs want;
	struct tuning_sysctl *sysctls; /* in the order in which ADD sets them; each path once */
	size_t n_sysctls;
	void *paths;	 /* index of `sysctls` by path, a tree (tsearch) */
	struct buf keep; /* text of CNI_ARGS, into which mac_text may point */
};

extern const struct json_table tuning_table, tuning_top_table; /* keys of the netconf */
/* Parses the netconf. Kind ERR_CONF: the error names the field. If m->ifname is "" (STATUS), IFNAME
 * is not replaced. */
int tuning_conf_read(const struct chained_call *m, struct tuning_conf *ret, struct err *e);
void tuning_conf_done(struct tuning_conf *c);
#define auto_tuning_conf __attribute__((cleanup(tuning_conf_done)))
/* For DEL: returns dataDir, or the default if dataDir is absent, empty or not a string. */
const char *tuning_data_dir(const struct chained_call *m);

/* --- pure functions --- */
/* Converts "net.ipv4.conf.IFNAME.x" to "net/ipv4/conf/net1/x"; returns NULL and sets *e if the
 * sysctl is not below net. */
char *tuning_sysctl_path(const char *key, const char *ifname, struct err *e);
bool tuning_touches(const struct tuning_attrs *a); /* Returns whether any attribute is set. */
/* Returns the link's current values of those attributes that `want` sets. */
struct tuning_attrs tuning_found(const struct tuning_attrs *want, const struct link *l);
/* Returns all attributes of `first`, and those of `then` that `first` does not set. */
struct tuning_attrs tuning_merge(const struct tuning_attrs *first, const struct tuning_attrs *then);
enum { TUNING_CHANGES = 5 };
/* Splits the attributes into changes of one attribute each, so that an error names the attribute;
 * returns the number of changes. */
size_t tuning_changes(const struct tuning_attrs *a, struct link_change ret[static TUNING_CHANGES]);
/* Print and parse the content of the backup file. -EINVAL: the content is invalid. */
void tuning_backup_print(const struct tuning_attrs *a, struct buf *b);
int tuning_backup_parse(struct span text, struct tuning_attrs *ret, struct err *e);
/* Checks that the link has the configured attributes, and that it is promiscuous only if
 * conf.promisc is true; otherwise fails with `Error: Tuning ...`. */
int tuning_check_link(const struct tuning_conf *c, const struct link *l, struct err *e);

/* Checks the sysctls against the text of an allowlist. name: path of the allowlist, for errors. */
int tuning_allow(const struct tuning_conf *c, const char *name, struct span text, struct err *e);
/* Translates a Go regular expression to a POSIX extended one, which is valid only for tests whether
 * a text matches. */
int tuning_pattern(const char *go, struct buf *posix, struct err *e);

/* --- allowlist --- */
/* Checks the sysctls against the host's allowlist. Without an allowlist all are allowed. An
 * allowlist that cannot be read is an error of kind ERR_UNAVAILABLE. */
int tuning_allowed(const struct root *root, const struct tuning_conf *c, struct err *e);

#endif
