/* SPDX-License-Identifier: Apache-2.0 */
/* `unirail device`: PCI functions and the health of their devices, as text and as JSON. */
#include "testlib.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/device.h"
#include "wire/json/json.h"

static struct inventory_function shown(void)
{
	struct inventory_function f = {
		.pci = {.bdf = "0000:3b:00.2",
			.driver = "mlx5_core",
			.physfn = "0000:3b:00.0",
			.numa = 1,
			.iommu_group = -1,
			.vendor = 0x15b3,
			.device = 0x101e},
		.has_attrs = true,
		.attrs = {.mac = {.len = 6},
			  .vlans = {{7, 3, VF_VLAN_8021Q}},
			  .n_vlans = 1,
			  .max_rate = 100,
			  .spoofchk = 0,
			  .trust = -1,
			  .link_state = VF_LINK_ENABLE,
			  .has_guid = true,
			  .port_guid = 0x0200000000000001},
	};

	return f;
}

static void test_functions_are_shown_as_text(void **state)
{
	struct inventory_function f = shown();
	struct device_row row = {&f, (char *)(uintptr_t) "team/p", NULL, NULL};
	char text[1024] = "";
	FILE *out = fmemopen(text, sizeof(text), "w");

	(void)state;
	device_show_text(&row, 1, out);
	fclose(out);
	assert_non_null(strstr(
		text,
		"\n0000:3b:00.2  VF 0  mlx5_core  1     -       -    -           -            vlan 7 qos 3 rate "
		"0-100 spoofchk off link enable guid 02:00:00:00:00:00:00:01  team/p\n"));
}

static void test_functions_are_shown_as_json(void **state)
{
	struct inventory_function f = shown();
	struct device_row row = {&f, NULL, (char *)(uintptr_t) "/run/netns/p", NULL};
	auto_buf struct buf b;

	(void)state;
	buf_init(&b, 1 << 16);
	device_show_json(&row, 1, &b);
	assert_non_null(strstr(b.p, "\"role\": \"vf\""));
	assert_non_null(strstr(b.p, "\"device\": \"101e\""));
	assert_non_null(strstr(b.p, "\"mac\": null"));
	assert_non_null(strstr(b.p, "\"spoofchk\": false"));
	assert_non_null(strstr(b.p, "\"trust\": null"));
	assert_non_null(strstr(b.p, "\"linkState\": \"enable\""));
	assert_non_null(strstr(b.p, "\"portGuid\": \"02:00:00:00:00:00:00:01\""));
	assert_non_null(strstr(b.p, "\"pod\": null"));
	assert_non_null(strstr(b.p, "\"netns\": \"/run/netns/p\""));
	assert_null(strstr(b.p, "\"health\""));
}

/* Of three devices, the first is unhealthy and in two resources of the agent's response, the
 * second is healthy, and the third is missing from the response. */
static void test_health_is_read_from_the_agents_response(void **state)
{
	static const char response[] =
		"{\"resources\":[{\"resource\":\"a/b\",\"devices\":["
		"{\"id\":\"0000:3b:00.3\",\"unhealthy\":\"\"},"
		"{\"id\":\"0000:3b:00.2\",\"unhealthy\":\"the link is down\"}]},"
		"{\"resource\":\"a/c\",\"devices\":[{\"id\":7},"
		"{\"id\":\"0000:3b:00.2\",\"unhealthy\":\"the link is down\"}]},{\"devices\":{}}]}";
	struct inventory_function f[] = {shown(), shown(), shown()};
	struct device_row rows[] = {{.f = &f[0]}, {.f = &f[1]}, {.f = &f[2]}};
	auto_json struct json_doc *doc = NULL;
	char text[2048] = "";
	FILE *out = fmemopen(text, sizeof(text), "w");
	auto_buf struct buf b;

	(void)state;
	f[1].pci.bdf[strlen(f[1].pci.bdf) - 1] = '3';
	f[2].pci.bdf[strlen(f[2].pci.bdf) - 1] = '4';
	ASSERT_EQ(json_parse(&doc, span_of(response), 4096, NULL), 0);
	device_rows_health(rows, ARRAY_LEN(rows), json_root(doc));
	device_show_text(rows, ARRAY_LEN(rows), out);
	fclose(out);
	assert_non_null(strstr(text, "  HEALTH\n"));
	assert_non_null(strstr(text, "  in another namespace  unhealthy: the link is down\n"));
	assert_non_null(strstr(text, "  in another namespace  healthy\n"));
	assert_non_null(strstr(text, "  in another namespace  -\n"));
	buf_init(&b, 1 << 16);
	device_show_json(rows, ARRAY_LEN(rows), &b);
	assert_non_null(strstr(
		b.p, "\"health\": \"unhealthy\",\n        \"healthReason\": \"the link is down\""));
	assert_non_null(strstr(b.p, "\"health\": \"healthy\",\n        \"healthReason\": null"));
	assert_non_null(strstr(b.p, "\"health\": null,\n        \"healthReason\": null"));
}

static void test_response_without_resources_has_no_health(void **state)
{
	static const char *const responses[] = {"[]", "{}", "{\"resources\":7}",
						"{\"resources\":[1]}"};
	struct inventory_function f = shown();
	struct device_row row = {.f = &f};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(responses); i++) {
		auto_json struct json_doc *doc = NULL;

		ASSERT_EQ_MSG(json_parse(&doc, span_of(responses[i]), 4096, NULL), 0,
			      "responses[%zu]", i);
		device_rows_health(&row, 1, json_root(doc));
		assert_null(row.unhealthy);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_functions_are_shown_as_text),
		cmocka_unit_test(test_functions_are_shown_as_json),
		cmocka_unit_test(test_health_is_read_from_the_agents_response),
		cmocka_unit_test(test_response_without_resources_has_no_health),
	};

	return T_RUN(tests, NULL, NULL);
}
