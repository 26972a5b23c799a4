/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kinds of fuzz_state.c that are files of a node or messages to it: the agent's settings, the
 * record of an installation, redacted files of a snapshot, messages of the peer of `unirail
 * verify`.
 */
#include <stdlib.h>
#include <string.h>

#include "spec/coordinator_settings.h"
#include "base/applet.h"
#include "base/alloc.h"
#include "files.h"
#include "doctor/redact.h"
#include "state.h"
#include "cli/install/install.h"
#include "cli/verify/verify_msg.h"

enum { TEXT_MAX = 1 << 20 };

int state_settings(struct feed f, struct err *e)
{
	struct coordinator_settings s = {0};
	auto_json struct json_doc *d = NULL;
	auto_buf struct buf b = {0};
	struct json_out o;
	int r;

	files_put(AGENT_CONF, state_part(&f));
	r = coordinator_settings_read(fuzz_root(), AGENT_CONF, &s, e);
	if (r < 0)
		return r;
	must(s.mode && s.route_dst.n == s.route_gw.n);
	buf_init(&b, TEXT_MAX);
	jo_init(&o, &b, 0);
	coordinator_settings_json(&s, &o);
	must(json_parse(&d, buf_span(&b), TEXT_MAX, e) == 0);
	coordinator_settings_done(&s);
	return 0;
}

int state_install(struct feed f, struct err *e)
{
	struct install_facts facts = {0};
	int r;

	files_put("/opt/cni/bin/" INSTALL_RECORD, state_part(&f));
	r = install_record_read(&facts, fuzz_root(), "/opt/cni/bin", e);
	for (size_t i = 0; r >= 0 && i < facts.n; i++)
		must(facts.names[i].name && !strchr(facts.names[i].name, '/'));
	install_facts_done(&facts);
	return r;
}

/* A second redaction of JSON changes nothing. */
int state_redact(struct feed f, struct err *e)
{
	struct span text = state_part(&f);
	auto_buf struct buf json, again, lines;

	(void)e;
	buf_init(&json, TEXT_MAX);
	buf_init(&again, TEXT_MAX);
	buf_init(&lines, TEXT_MAX);
	if (redact_json(text, &json) == 0) {
		must(redact_json(buf_span(&json), &again) == 0);
		must(json.len == again.len && !memcmp(json.p, again.p, json.len));
	}
	redact_lines(text, &lines);
	redact_cmdline(text, &lines);
	return 0;
}

int state_verify(struct feed f, struct err *e)
{
	struct verify_msg m, again;
	auto_buf struct buf b;
	int r = 0;

	buf_init(&b, TEXT_MAX);
	r = verify_msg_parse(state_part(&f), &m, e);
	if (r < 0)
		return r;
	must(m.verb < VERIFY_VERBS && *verify_verb_name(m.verb));
	must(memchr(m.device, '\0', sizeof(m.device)) && memchr(m.text, '\0', sizeof(m.text)));
	must(memchr(m.op, '\0', sizeof(m.op)) && memchr(m.step, '\0', sizeof(m.step)));
	verify_msg_put(&m, &b);
	must(b.len > 0 && b.p[b.len - 1] == '\n');
	if (verify_msg_parse((struct span){b.p, b.len - 1}, &again, e) < 0)
		fuzz_fail(b.p, 0, e->text);
	must(m.verb == again.verb && m.qpn == again.qpn && m.seed == again.seed);
	return 0;
}
