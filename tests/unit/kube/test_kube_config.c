/* SPDX-License-Identifier: Apache-2.0 */
/* Kubeconfigs, service accounts, and credentials printed by exec plugins. */
#include "testlib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <errno.h>

#include "kube/auth.h"
#include "kube/config.h"
#include "kube/time.h"

#define HEAD                                                                                       \
	"apiVersion: v1\nkind: Config\ncurrent-context: x\n"                                       \
	"contexts:\n- context:\n    cluster: c\n    user: u\n    namespace: n1\n  name: x\n"
#define CLUSTER                                                                                    \
	"clusters:\n- cluster:\n    certificate-authority-data: Q0E=\n"                            \
	"    server: https://10.0.0.1:6443\n  name: c\n"

static struct kube_conf parse(const char *text)
{
	struct kube_conf c = {0};
	struct err e = ERR_INIT;

	ASSERT_OK(kube_conf_parse(&c, span_of(text), "/root/.kube", NULL, &e), &e);
	return c;
}

static void refused(const char *text, const char *error)
{
	struct kube_conf c = {.port = 7};
	struct err e = ERR_INIT;

	assert_true(kube_conf_parse(&c, span_of(text), "/root/.kube", NULL, &e) < 0);
	ASSERT_STR_EQ(e.text, error);
	ASSERT_EQ(c.port, 7);
	assert_null(c.host);
}

static void test_kubeconfig_with_a_token_is_read(void **state)
{
	struct kube_conf c = parse(HEAD CLUSTER "users:\n- name: u\n  user:\n    token: abc.def\n");

	(void)state;
	ASSERT_STR_EQ(c.host, "10.0.0.1");
	ASSERT_EQ(c.port, 6443);
	ASSERT_STR_EQ(c.prefix, "");
	ASSERT_STR_EQ(c.ca_pem, "CA");
	assert_null(c.ca_file);
	ASSERT_STR_EQ(c.token, "abc.def");
	ASSERT_STR_EQ(c.ns, "n1");
	kube_conf_done(&c);
}

static void test_relative_files_are_resolved_from_the_kubeconfigs_directory(void **state)
{
	struct kube_conf c =
		parse("{current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}],"
		      "clusters: [{name: c, cluster: {server: 'https://[fd00::1]/k8s/c/',"
		      " certificate-authority: pki/ca.crt, tls-server-name: kubernetes}}],"
		      "users: [{name: u, user: {client-certificate: /a.crt, client-key: ../a.key,"
		      " tokenFile: t}}]}");

	(void)state;
	ASSERT_STR_EQ(c.host, "fd00::1");
	ASSERT_EQ(c.port, 443);
	ASSERT_STR_EQ(c.prefix, "/k8s/c");
	ASSERT_STR_EQ(c.tls_name, "kubernetes");
	ASSERT_STR_EQ(c.ca_file, "/root/.kube/pki/ca.crt");
	ASSERT_STR_EQ(c.cert_file, "/a.crt");
	ASSERT_STR_EQ(c.key_file, "/root/.kube/../a.key");
	ASSERT_STR_EQ(c.token_file, "/root/.kube/t");
	assert_null(c.ns);
	kube_conf_done(&c);
}

static void test_kubeconfig_with_an_exec_plugin_is_read(void **state)
{
	struct kube_conf c = parse(
		HEAD CLUSTER "users:\n- name: u\n  user:\n    exec:\n"
			     "      apiVersion: client.authentication.k8s.io/v1beta1\n"
			     "      args:\n      - get-token\n      - --cluster=c\n"
			     "      command: bin/login\n      env:\n      - name: A\n"
			     "        value: b\n      installHint: Install login by following\n"
			     "        https://example.com/x\n      provideClusterInfo: false\n"
			     "      interactiveMode: IfAvailable\n");

	(void)state;
	ASSERT_STR_EQ(c.exec.argv[0], "/root/.kube/bin/login");
	ASSERT_STR_EQ(c.exec.argv[1], "get-token");
	ASSERT_STR_EQ(c.exec.argv[2], "--cluster=c");
	assert_null(c.exec.argv[3]);
	ASSERT_STR_EQ(c.exec.env[0], "A=b");
	assert_null(c.exec.env[1]);
	ASSERT_STR_EQ(c.exec.hint, "Install login by following https://example.com/x");
	kube_conf_done(&c);
}

static void test_incomplete_and_unsupported_kubeconfigs_are_refused(void **state)
{
	(void)state;
	refused("a: [", "1:5: ']' is missing");
	refused("a: 1", "current-context is not set: pass a context");
	refused("current-context: y", "there is no context 'y'");
	refused(HEAD, "there is no cluster 'c', to which the context refers");
	refused(HEAD "clusters:\n- name: c\nusers:\n- name: u\n  user: {}",
		"cluster 'c': server is missing");
	refused(HEAD CLUSTER, "there is no user 'u', to which the context refers");
	refused(HEAD CLUSTER "users:\n- name: u\n  user: {username: a, password: b}",
		"user 'u': 'username' is not supported: use a token or a client certificate");
	refused(HEAD CLUSTER "users:\n- name: u\n  user: {auth-provider: {name: gcp}}",
		"user 'u': 'auth-provider' is not supported: use 'exec'");
	refused(HEAD CLUSTER "users:\n- name: u\n  user: {as: root}",
		"user 'u': 'as' is not supported: use credentials of that account");
	refused(HEAD CLUSTER "users:\n- name: u\n  user: {client-key-data: QQ==}",
		"user 'u': client-certificate and client-key must be set together");
	refused(HEAD CLUSTER "users:\n- name: u\n  user: {client-key-data: '*'}",
		"user 'u': client-key-data is not base64 of a text (PEM)");
	refused(HEAD CLUSTER "users:\n- name: u\n  user: {exec: {command: x, apiVersion: v1}}",
		"user 'u': exec.apiVersion is 'v1', expected client.authentication.k8s.io/v1");
	refused(HEAD "clusters:\n- name: c\n  cluster: {server: 'https://x', "
		     "insecure-skip-tls-verify: true}\nusers: [{name: u, user: {}}]",
		"cluster 'c': 'insecure-skip-tls-verify' is not supported: set the CA of the server "
		"(certificate-authority)");
	refused(HEAD "clusters:\n- name: c\n  cluster: {server: 'http://x'}\n"
		     "users: [{name: u, user: {}}]",
		"cluster 'c': server: 'http://x' is not encrypted: set an https:// address");
	refused(HEAD "clusters:\n- name: c\n  cluster: {server: 'https://x:99999'}\n"
		     "users: [{name: u, user: {}}]",
		"cluster 'c': server: 'https://x:99999' is not a URL like https://10.0.0.1:6443");
	refused(HEAD "clusters:\n- name: c\n  cluster: {}\n",
		"clusters[0].cluster.server is missing");
}

/* A secret of the wrong YAML type is a common mistake; the error must not contain the secret. */
static void test_secrets_are_not_printed_in_errors(void **state)
{
	(void)state;
	refused(HEAD CLUSTER "users:\n- name: u\n  user: {token: 424242}",
		"user 'u': token is not a string but number: put it into quotes");
	refused(HEAD CLUSTER "users:\n- name: u\n  user: {client-key-data: [secret]}",
		"user 'u': client-key-data is not a string but array: put it into quotes");
}

static void test_unknown_context_is_refused(void **state)
{
	struct kube_conf c = {0};
	struct err e = ERR_INIT;

	(void)state;
	ASSERT_EQ(kube_conf_parse(&c, span_of(HEAD CLUSTER), "/", "z", &e), -ENOENT);
	ASSERT_STR_EQ(e.text, "there is no context 'z'");
}

static void write_file(const char *dir, const char *name, const char *text)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s%s", dir, name);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void test_kubeconfig_and_service_account_are_searched_in_order(void **state)
{
	char dir[T_DIR_MAX];
	struct kube_conf c = {0};
	struct err e = ERR_INIT;
	struct root root;

	(void)state;
	unsetenv("KUBECONFIG");
	unsetenv("KUBERNETES_SERVICE_HOST");
	setenv("HOME", "/nobody", 1);
	t_dir_make(dir, &root);
	ASSERT_EQ(kube_conf_load(&c, &(struct kube_where){&root, NULL, NULL}, &e), -ENOENT);
	assert_non_null(strstr(e.text, "no API server is configured"));
	ASSERT_EQ(dir_make(&root, KUBE_ACCOUNT_DIR, 0755, &e), 0);
	write_file(dir, KUBE_ACCOUNT_DIR "/token", "abc");
	write_file(dir, KUBE_ACCOUNT_DIR "/namespace", "unirail");
	setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1", 1);
	setenv("KUBERNETES_SERVICE_PORT", "443", 1);
	ASSERT_EQ(kube_conf_load(&c, &(struct kube_where){&root, NULL, NULL}, &e), 0);
	ASSERT_STR_EQ(c.host, "10.96.0.1");
	ASSERT_STR_EQ(c.token_file, KUBE_ACCOUNT_DIR "/token");
	ASSERT_STR_EQ(c.ns, "unirail");
	kube_conf_done(&c);
	setenv("KUBERNETES_SERVICE_PORT", "x", 1);
	ASSERT_EQ(kube_conf_load(&c, &(struct kube_where){&root, NULL, NULL}, &e), -EINVAL);
	setenv("KUBECONFIG", "/a:/b", 1);
	ASSERT_EQ(kube_conf_load(&c, &(struct kube_where){&root, NULL, NULL}, &e), -EINVAL);
	ASSERT_STR_EQ(e.text, "KUBECONFIG names several files: set it to one file");
	setenv("KUBECONFIG", "/a", 1);
	ASSERT_EQ(kube_conf_load(&c, &(struct kube_where){&root, NULL, NULL}, &e), -ENOENT);
	assert_non_null(
		strstr(e.text, "kubeconfig: '/a' does not exist: set --kubeconfig or KUBECONFIG"));
	unsetenv("KUBECONFIG");
	unsetenv("KUBERNETES_SERVICE_HOST");
	t_dir_remove(dir, &root);
}

static void credential(const char *text, const char *error)
{
	struct kube_credential c = {0};
	struct err e = ERR_INIT;

	ASSERT_EQ(kube_credential_parse(&c, span_of(text), &e), -EBADMSG);
	ASSERT_STR_EQ(e.text, error);
	assert_null(c.token);
}

static void test_exec_credentials_are_parsed(void **state)
{
	struct kube_credential c;

	(void)state;
	ASSERT_EQ(kube_credential_parse(
			  &c,
			  span_of("{\"kind\":\"ExecCredential\",\"status\":{\"token\":\"t\","
				  "\"expirationTimestamp\":\"2026-11-21T14:00:00Z\"}}"),
			  NULL),
		  0);
	ASSERT_STR_EQ(c.token, "t");
	assert_true(c.until_ms == 1795269600000);
	kube_credential_done(&c);
	credential("secret", "the program's output is not JSON");
	credential("{\"kind\":\"Secret\"}", "the program's output is not an ExecCredential");
	credential("{\"kind\":\"ExecCredential\"}",
		   "the program printed neither status.token nor status.clientCertificateData");
	credential("{\"kind\":\"ExecCredential\",\"status\":{\"clientCertificateData\":\"x\"}}",
		   "status.clientCertificateData and clientKeyData must be set together");
	credential("{\"kind\":\"ExecCredential\",\"status\":{\"token\":\"x\","
		   "\"expirationTimestamp\":\"soon\"}}",
		   "status.expirationTimestamp is not a time");
}

static void test_rfc_3339_times_are_parsed_and_written(void **state)
{
	char text[KUBE_TIME_MAX];
	int64_t ms;

	(void)state;
	ASSERT_EQ(kube_time_parse("1970-01-01T00:00:01Z", &ms), 0);
	assert_true(ms == 1000);
	ASSERT_EQ(kube_time_parse("2026-11-21T15:30:00.123456+01:30", &ms), 0);
	assert_true(ms == 1795269600123);
	ASSERT_EQ(kube_time_parse("2026-11-21", &ms), -EINVAL);
	ASSERT_EQ(kube_time_parse("2026-11-21T14:00:00", &ms), -EINVAL);
	ASSERT_EQ(kube_time_parse("2026-11-21T14:00:00+1", &ms), -EINVAL);
	kube_time_text(1795269600123, text);
	ASSERT_STR_EQ(text, "2026-11-21T14:00:00Z");
	kube_micro_time_text(1795269600023, text);
	ASSERT_STR_EQ(text, "2026-11-21T14:00:00.023000Z");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kubeconfig_with_a_token_is_read),
		cmocka_unit_test(test_relative_files_are_resolved_from_the_kubeconfigs_directory),
		cmocka_unit_test(test_kubeconfig_with_an_exec_plugin_is_read),
		cmocka_unit_test(test_incomplete_and_unsupported_kubeconfigs_are_refused),
		cmocka_unit_test(test_secrets_are_not_printed_in_errors),
		cmocka_unit_test(test_unknown_context_is_refused),
		cmocka_unit_test(test_kubeconfig_and_service_account_are_searched_in_order),
		cmocka_unit_test(test_exec_credentials_are_parsed),
		cmocka_unit_test(test_rfc_3339_times_are_parsed_and_written),
	};

	return T_RUN(tests, NULL, NULL);
}
