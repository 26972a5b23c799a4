/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include "rail_lab.h"

struct json_doc *rl_doc;

int rl_read(const struct link_driver *k, const char *text, const char *args_mac,
	    struct rail_conf *ret, struct err *e)
{
	json_cleanup(&rl_doc);
	err_clear(e);
	rl_doc = t_json(text);
	*ret = (struct rail_conf){0};
	return k->read(&(struct rail_source){rl_doc, json_get(json_root(rl_doc), "defaults"),
					     json_root(rl_doc), args_mac},
		       ret, e);
}

struct rail_conf rl_conf(const struct link_driver *k, const char *text)
{
	struct err e = ERR_INIT;
	struct rail_conf c;

	ASSERT_OK(rl_read(k, text, NULL, &c, &e), &e);
	return c;
}

void rl_refused(const struct link_driver *k, const char *text, enum err_kind kind, const char *part)
{
	struct err e = ERR_INIT;
	struct rail_conf c;

	assert_true(rl_read(k, text, NULL, &c, &e) < 0);
	ASSERT_EQ_MSG(e.kind, kind, "%s", text);
	ASSERT_HAS(e.text, part);
}

int rl_teardown(void **state)
{
	(void)state;
	json_cleanup(&rl_doc);
	return 0;
}
