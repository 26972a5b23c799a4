/* SPDX-License-Identifier: Apache-2.0 */
/* The generated CNI configuration: which network it wraps, when it is written, and that files of
 * other programs are not changed. */
#include "host_lab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "host/cni/cni_config.h"

#define DIR    "/etc/cni/net.d"
#define SOCKET "/run/agent.sock"
#define CALICO                                                                                       \
	"{\"name\":\"k8s-pod-network\",\"cniVersion\":\"0.3.1\",\"plugins\":[{\"type\":\"calico\"}," \
	"{\"type\":\"portmap\",\"capabilities\":{\"portMappings\":true,\"no\":false}},"              \
	"{\"type\":\"bandwidth\",\"capabilities\":{\"bandwidth\":true,\"portMappings\":true}}]}"

struct lab {
	struct host_lab host;
	struct cni_config_plan plan;
	char name[64];
	char said[1024];
};

static int setup(void **state)
{
	struct lab *l = xcalloc(1, sizeof(*l));

	*l = (struct lab){.name = CNI_CONFIG_NAME};
	host_empty(&l->host);
	ASSERT_EQ(dir_make(&l->host.root, DIR, 0755, NULL), 0);
	*state = l;
	return 0;
}

static void put(struct lab *l, const char *name, const char *text)
{
	auto_free char *path = xasprintf(DIR "/%s", name);

	host_write(&l->host, path, text);
}

static bool is_there(struct lab *l, const char *name)
{
	auto_free char *path = xasprintf(DIR "/%s", name);

	return file_exists(&l->host.root, path);
}

/* Plans and applies; a second plan must change nothing. */
static void step(struct lab *l)
{
	for (int i = 0; i < 2; i++) {
		auto_cni_config struct cni_config_files files;
		struct buf b;

		cni_config_plan_done(&l->plan);
		ASSERT_EQ(cni_config_read(&l->host.root, DIR, &files, NULL), 0);
		cni_config_plan(&files, DIR, l->name, SOCKET, &l->plan);
		if (i == 1)
			assert_true(!l->plan.write && !l->plan.remove);
		ASSERT_EQ(cni_config_apply(&l->host.root, DIR, l->name, &l->plan, NULL), 0);
		buf_init(&b, sizeof(l->said));
		cni_config_describe(&l->plan, DIR, l->name, &b);
		snprintf(l->said, sizeof(l->said), "%s", b.len ? buf_span(&b).p : "");
		buf_done(&b);
		l->plan.file = NULL; /* it points into `files`, which is freed here */
	}
}

static struct json_doc *generated(struct lab *l)
{
	auto_free char *path = xasprintf(DIR "/%s", l->name);
	struct json_doc *d = NULL;
	auto_buf struct buf b;

	buf_init(&b, 1 << 16);
	ASSERT_EQ(file_read(&l->host.root, path, 1 << 16, &b, NULL), 0);
	ASSERT_EQ(json_parse(&d, buf_span(&b), 1 << 16, NULL), 0);
	return d;
}

static void is(struct lab *l, const char *text)
{
	auto_json struct json_doc *have = generated(l), *want = NULL;

	ASSERT_EQ(json_parse(&want, span_of(text), 1 << 16, NULL), 0);
	assert_true(json_same(json_root(have), json_root(want)));
}

static void wraps(struct lab *l, const char *network)
{
	auto_json struct json_doc *have = generated(l);
	const struct json *p = json_at(json_get(json_root(have), "plugins"), 0);

	ASSERT_STR_EQ(json_string(json_get(p, "clusterNetwork")), network);
}

static int teardown(void **state)
{
	struct lab *l = *state;

	cni_config_plan_done(&l->plan);
	host_remove(&l->host);
	free(l);
	return 0;
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

static void test_first_cni_network_is_wrapped(void **state)
{
	struct lab *l = *state;
	struct stat st;

	put(l, "05-broken.conflist", "{\"name\":");
	put(l, "06-empty.conflist", "{\"name\":\"x\",\"plugins\":[]}");
	put(l, "07-no-type.conf", "{\"name\":\"x\"}");
	put(l, "10-calico.conflist", CALICO);
	put(l, "20-other.conf", "{\"name\":\"o\",\"type\":\"bridge\"}");
	put(l, "0-calico-kubeconfig", "no configuration");
	step(l);
	ASSERT_EQ(l->plan.state, CNI_CONFIG_IS_FIRST);
	is(l,
	   "{\"cniVersion\":\"0.3.1\",\"name\":\"unirail\",\"unirail.io/generated\":true,\"plugins\":[{"
	   "\"type\":\"unirail-cni\",\"capabilities\":{\"portMappings\":true,\"bandwidth\":true},"
	   "\"agent\":\"" SOCKET "\",\"clusterNetwork\":\"" DIR
	   "/10-calico.conflist\",\"confDir\":\"" DIR "\"}]}");
	ASSERT_EQ(file_lstat(&l->host.root, DIR "/" CNI_CONFIG_NAME, &st, NULL), 0);
	ASSERT_EQ(st.st_mode & 0777, 0600);
	/* A network that sorts before the wrapped one is added; then the networks are removed. */
	put(l, "08-cilium.conflist",
	    "{\"cniVersion\":\"1.0.0\",\"plugins\":[{\"type\":\"cilium-cni\"}]}");
	step(l);
	wraps(l, DIR "/08-cilium.conflist");
	file_remove(&l->host.root, DIR "/08-cilium.conflist", NULL);
	file_remove(&l->host.root, DIR "/10-calico.conflist", NULL);
	step(l);
	wraps(l, DIR "/20-other.conf");
	file_remove(&l->host.root, DIR "/20-other.conf", NULL);
	step(l);
	ASSERT_EQ(l->plan.state, CNI_CONFIG_NO_NETWORK);
	assert_false(is_there(l, CNI_CONFIG_NAME));
	assert_non_null(strstr(l->said, "as soon as there is one"));
}

static void test_unsupported_cni_version_is_written_as_0_3_1(void **state)
{
	struct lab *l = *state;
	static const char *const versions[][2] = {
		{"1.1.0", "1.1.0"}, {"1.2.0", "0.3.1"}, {"0.2.0", "0.3.1"}, {"", "0.3.1"}};

	for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
		auto_free char *text =
			xasprintf("{\"cniVersion\":\"%s\",\"type\":\"bridge\"}", versions[i][0]);

		put(l, "10-net.conf", text);
		step(l);
		auto_json struct json_doc *d = generated(l);

		ASSERT_STR_EQ_MSG(json_string(json_get(json_root(d), "cniVersion")), versions[i][1],
				  "versions[%zu]", i);
	}
}

static void test_other_cni_file_that_sorts_first_is_reported(void **state)
{
	struct lab *l = *state;

	put(l, "10-calico.conflist", CALICO);
	put(l, "0-aa.conf", "{\"type\":\"bridge\"}");
	step(l);
	/* The generated file is written nevertheless: the runtime uses it once the other file is
	 * removed. */
	ASSERT_EQ(l->plan.state, CNI_CONFIG_IS_BEHIND);
	assert_non_null(strstr(l->said, "uses '" DIR "/0-aa.conf'"));
	assert_non_null(strstr(l->said, "cni-conf-name"));
	assert_true(is_there(l, CNI_CONFIG_NAME));
	put(l, "0-aa.conf", "{\"type\":");
	step(l);
	ASSERT_EQ(l->plan.state, CNI_CONFIG_IS_BEHIND);
	assert_non_null(strstr(l->said, "is not valid"));
	put(l, "0-aa.conf", "{}");
	step(l);
	assert_non_null(strstr(l->said, "is not valid (type is missing)"));
	file_remove(&l->host.root, DIR "/0-aa.conf", NULL);
	step(l);
	ASSERT_EQ(l->plan.state, CNI_CONFIG_IS_FIRST);
	ASSERT_STR_EQ(l->said, "");
}

static void test_settings_of_multus_are_copied_to_the_generated_file(void **state)
{
	struct lab *l = *state;

	put(l, "00-multus.conf",
	    "{\"cniVersion\":\"0.3.1\",\"type\":\"multus\",\"namespaceIsolation\":true,"
	    "\"systemNamespaces\":[\"a\"],\"clusterNetwork\":\"/host/etc/cni/net.d/10-calico.conflist\","
	    "\"kubeconfig\":\"/x\"}");
	put(l, "10-calico.conflist", CALICO);
	step(l);
	ASSERT_EQ(l->plan.state, CNI_CONFIG_IS_FIRST);
	is(l,
	   "{\"cniVersion\":\"0.3.1\",\"name\":\"unirail\",\"unirail.io/generated\":true,\"plugins\":[{"
	   "\"type\":\"unirail-cni\",\"capabilities\":{\"portMappings\":true,\"bandwidth\":true},"
	   "\"agent\":\"" SOCKET "\",\"clusterNetwork\":\"" DIR
	   "/10-calico.conflist\",\"confDir\":\"" DIR
	   "\",\"namespaceIsolation\":true,\"systemNamespaces\":[\"a\"]}]}");
	/* With the type multus-shim, settings in multus.d/daemon-config.json override those in
	 * 00-multus.conf. A clusterNetwork that is the name of a network is copied. */
	put(l, "00-multus.conf", "{\"type\":\"multus-shim\",\"clusterNetwork\":\"calico\"}");
	ASSERT_EQ(dir_make(&l->host.root, DIR "/multus.d", 0755, NULL), 0);
	put(l, "multus.d/daemon-config.json",
	    "{\"clusterNetwork\":\"team\",\"multusNamespace\":\"m\"}");
	step(l);
	wraps(l, "team");
	/* Multus would use a generated file that sorts after its own configuration as the
	 * cluster's network, so no file is written. */
	strcpy(l->name, "01-unirail.conflist");
	step(l);
	ASSERT_EQ(l->plan.state, CNI_CONFIG_IS_BEHIND);
	assert_false(is_there(l, "01-unirail.conflist"));
	assert_non_null(strstr(l->said, "Multus"));
}

static void test_inline_delegates_of_multus_are_not_wrapped(void **state)
{
	struct lab *l = *state;

	put(l, "00-multus.conf", "{\"type\":\"multus\",\"delegates\":[{\"type\":\"bridge\"}]}");
	step(l);
	ASSERT_EQ(l->plan.state, CNI_CONFIG_IS_BEHIND);
	assert_false(is_there(l, CNI_CONFIG_NAME));
}

static void test_configuration_written_by_hand_is_used(void **state)
{
	struct lab *l = *state;
	static const char hand[] = "{\"plugins\":[{\"type\":\"unirail-cni\",\"networks\":[]}]}";

	put(l, "10-calico.conflist", CALICO);
	step(l);
	assert_true(is_there(l, CNI_CONFIG_NAME));
	put(l, "05-unirail.conflist", hand);
	step(l);
	ASSERT_EQ(l->plan.state, CNI_CONFIG_IS_WRITTEN);
	assert_false(is_there(l, CNI_CONFIG_NAME));
	ASSERT_STR_EQ(l->said, "");
	/* A file written by hand under the name of the generated file is used as well. */
	file_remove(&l->host.root, DIR "/05-unirail.conflist", NULL);
	put(l, CNI_CONFIG_NAME, hand);
	step(l);
	ASSERT_EQ(l->plan.state, CNI_CONFIG_IS_WRITTEN);
	put(l, "0-aa.conf", "{\"type\":\"bridge\"}");
	step(l);
	ASSERT_EQ(l->plan.state, CNI_CONFIG_IS_BEHIND);
	assert_non_null(strstr(l->said, "written by hand"));
}

static void test_file_of_another_plugin_under_the_generated_name_is_not_replaced(void **state)
{
	struct lab *l = *state;

	put(l, "10-calico.conflist", CALICO);
	put(l, CNI_CONFIG_NAME, "{\"plugins\":[{\"type\":\"bridge\"}]}");
	step(l);
	ASSERT_EQ(l->plan.state, CNI_CONFIG_IS_BEHIND);
	assert_non_null(strstr(l->said, CNI_CONFIG_NAME));
}

static void test_plugins_appended_by_other_programs_are_retained(void **state)
{
	struct lab *l = *state;

	put(l, "10-calico.conflist", CALICO);
	put(l, CNI_CONFIG_NAME,
	    "{\"unirail.io/generated\":true,\"plugins\":[{\"type\":\"unirail-cni\"},{\"type\":\"istio-cni\"}]}");
	step(l);
	auto_json struct json_doc *d = generated(l);
	const struct json *list = json_get(json_root(d), "plugins");

	ASSERT_EQ(json_len(list), 2);
	ASSERT_STR_EQ(json_string(json_get(json_at(list, 1), "type")), "istio-cni");
}

static void test_generated_configuration_is_removed(void **state)
{
	struct lab *l = *state;
	auto_cni_config struct cni_config_files files = {0};

	put(l, "10-calico.conflist", CALICO);
	put(l, "11-calico.conflist.cilium_bak", CALICO);
	put(l, "12-hand.conflist.cilium_bak", "{\"plugins\":[{\"type\":\"unirail-cni\"}]}");
	step(l);
	/* Cilium renames other configurations to become the only CNI. */
	ASSERT_EQ(file_rename(&l->host.root, DIR "/" CNI_CONFIG_NAME,
			      DIR "/" CNI_CONFIG_NAME ".cilium_bak", true, NULL),
		  0);
	strcpy(l->name, "000-unirail.conflist");
	step(l);
	ASSERT_EQ(l->plan.state, CNI_CONFIG_IS_FIRST);
	ASSERT_EQ(cni_config_read(&l->host.root, DIR, &files, NULL), 0);
	ASSERT_EQ(cni_config_remove(&l->host.root, DIR, &files, l->name, NULL), 1);
	assert_true(is_there(l, l->name));
	assert_false(is_there(l, CNI_CONFIG_NAME ".cilium_bak"));
	ASSERT_EQ(cni_config_remove(&l->host.root, DIR, &files, NULL, NULL), 2);
	assert_false(is_there(l, l->name));
	assert_true(is_there(l, "10-calico.conflist"));
	assert_true(is_there(l, "11-calico.conflist.cilium_bak"));
	assert_true(is_there(l, "12-hand.conflist.cilium_bak"));
}

static void test_invalid_configuration_names_are_refused(void **state)
{
	(void)state;
	ASSERT_EQ(cni_config_check_name("0-unirail.conflist", NULL), 0);
	for (const char *const *n =
		     (const char *const[]){"x.conf", ".conflist", "a/b.conflist", "", NULL};
	     *n; n++)
		assert_true(cni_config_check_name(*n, NULL) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_first_cni_network_is_wrapped),
		TEST(test_unsupported_cni_version_is_written_as_0_3_1),
		TEST(test_other_cni_file_that_sorts_first_is_reported),
		TEST(test_settings_of_multus_are_copied_to_the_generated_file),
		TEST(test_inline_delegates_of_multus_are_not_wrapped),
		TEST(test_configuration_written_by_hand_is_used),
		TEST(test_file_of_another_plugin_under_the_generated_name_is_not_replaced),
		TEST(test_plugins_appended_by_other_programs_are_retained),
		TEST(test_generated_configuration_is_removed),
		cmocka_unit_test(test_invalid_configuration_names_are_refused),
	};

	return T_RUN(tests, NULL, NULL);
}
