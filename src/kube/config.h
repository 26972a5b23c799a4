/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KUBE_CONFIG_H
#define UNIRAIL_KUBE_CONFIG_H

/*
 * Address of the API server and the identity to use. The first source that is set (the first two)
 * or exists (the others) is used: the kubeconfig named by the caller; $KUBECONFIG; the pod's
 * service account; ~/.kube/config.
 *
 * Fields read from a kubeconfig (YAML or JSON): clusters[].cluster.{server, tls-server-name,
 * certificate-authority, certificate-authority-data}, users[].user.{client-certificate(-data),
 * client-key(-data), token, tokenFile, exec}, contexts[].context.{cluster, user, namespace},
 * current-context. Relative paths are relative to the directory of the kubeconfig. The server must
 * be https; without a CA its certificate is checked with /etc/ssl/certs/ca-certificates.crt.
 * Unsupported fields that would change identity or trust are refused, never ignored: auth-provider,
 * username, as, proxy-url, insecure-skip-tls-verify; of exec also provideClusterInfo true and
 * interactiveMode Always. Only one file: lists in $KUBECONFIG are refused. Proxies (HTTPS_PROXY)
 * are not used.
 */

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"

/* Options of the commands that use the API server; they set the members kubeconfig, context and
 * timeout_ms of S. */
#define KUBE_ACCESS_OPTS(S)                                                                        \
	{"kubeconfig",                                                                             \
	 0,                                                                                        \
	 OPT_STR,                                                                                  \
	 "FILE",                                                                                   \
	 "kubeconfig for the API server; without it $KUBECONFIG, the pod's service account or "    \
	 "~/.kube/config is used",                                                                 \
	 offsetof(S, kubeconfig),                                                                  \
	 0,                                                                                        \
	 0},                                                                                       \
		{"context",                                                                        \
		 0,                                                                                \
		 OPT_STR,                                                                          \
		 "NAME",                                                                           \
		 "context of the kubeconfig to use instead of its current context",                \
		 offsetof(S, context),                                                             \
		 0,                                                                                \
		 0},                                                                               \
	{                                                                                          \
		"timeout", 0, OPT_DUR, "TIME",                                                     \
			"time limit of each request to the API server (30s)",                      \
			offsetof(S, timeout_ms), 1, 3600 * 1000                                    \
	}

#define KUBE_ACCOUNT_DIR "/var/run/secrets/kubernetes.io/serviceaccount"

/* A program that prints an ExecCredential. */
struct kube_exec {
	char **argv; /* NULL-terminated; NULL: none */
	/* environment variables "NAME=value" of the program, besides those of this process;
	 * NULL-terminated */
	char **env;
	char *api_version;
	char *hint; /* installHint; may be NULL */
};

/* Of each pair, such as ca_file and ca_pem, at most one is set; kube/auth.h says when files are
 * re-read. */
struct kube_conf {
	char *host;
	uint16_t port;
	char *prefix;	/* prefix of each request path, such as "/k8s/clusters/c"; "": none */
	char *tls_name; /* NULL: host */
	char *ca_file, *ca_pem;
	char *cert_file, *cert_pem;
	char *key_file, *key_pem;
	char *token_file, *token;
	struct kube_exec exec;
	char *ns; /* namespace of the context or service account; NULL: "default" */
	/* source of the configuration such as "kubeconfig '/root/.kube/config'", for messages */
	char *from;
};

struct kube_where {
	const struct root *root;
	/* absolute path; NULL: see the other sources at the top of this file */
	const char *kubeconfig;
	const char *context; /* NULL: current-context */
};

/* Errors have kind ERR_CONF (ERR_DECODE: the text is not YAML or JSON) and name file, line or
 * field; *ret is then unchanged. */
int kube_conf_load(struct kube_conf *ret, const struct kube_where *w, struct err *e);
void kube_conf_done(struct kube_conf *c);
/* Lists the files that are re-read during use; `ret` is NULL-terminated, its strings are borrowed
 * from c. */
enum { KUBE_CONF_FILES = 5 };
void kube_conf_files(const struct kube_conf *c, const char *ret[static KUBE_CONF_FILES]);
#define auto_kube_conf __attribute__((cleanup(kube_conf_done)))

/* --- parts of config.c, exposed for tests --- */

/* Parses the text of a kubeconfig located in directory `dir`. */
int kube_conf_parse(struct kube_conf *ret, struct span text, const char *dir, const char *context,
		    struct err *e);
/* Sets host, port and prefix from the URL "https://host[:port][/prefix]". */
int kube_conf_server(struct kube_conf *c, const char *url, struct err *e);

#endif
