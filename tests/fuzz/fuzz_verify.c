/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of the protocol of `unirail verify`: a parsed line is written, and parsed again with the
 * same result. Each line is also parsed as the address and port of a peer. */
#include <string.h>

#include "base/alloc.h"
#include "fuzz.h"
#include "cli/verify/verify_tcp.h"

static void check_text(const struct verify_msg *m)
{
	must(memchr(m->op, '\0', sizeof(m->op)) && memchr(m->device, '\0', sizeof(m->device)));
	must(memchr(m->ifname, '\0', sizeof(m->ifname)) && memchr(m->step, '\0', sizeof(m->step)));
	must(memchr(m->text, '\0', sizeof(m->text)) && m->verb < VERIFY_VERBS);
	for (const char *p = m->text; *p; p++)
		must(*p >= ' ' && *p <= '~');
}

static void check_line(struct span line)
{
	struct verify_msg m, again;
	struct err e = ERR_INIT;
	auto_buf struct buf b = {0}, twice = {0};

	memset(&m, 0x55, sizeof(m));
	if (fuzz_refused(verify_msg_parse(line, &m, &e), &e))
		return;
	check_text(&m);
	/* The written line may be longer than VERIFY_LINE_MAX, although the parsed line was not:
	 * verify_msg_put() may write an address in a longer form. */
	buf_init(&b, 4 * VERIFY_LINE_MAX);
	verify_msg_put(&m, &b);
	must(!b.over && b.p[b.len - 1] == '\n');
	if (b.len > VERIFY_LINE_MAX)
		return;
	must(verify_msg_parse((struct span){b.p, b.len - 1}, &again, NULL) == 0);
	/* Compares the two written lines: `line` may have unknown keys, or another order of the
	 * fields. */
	buf_init(&twice, 4 * VERIFY_LINE_MAX);
	verify_msg_put(&again, &twice);
	must(b.len == twice.len && !memcmp(b.p, twice.p, b.len));
}

static void check_place(struct span line)
{
	auto_free char *text = text_of(line);
	struct verify_place p;
	struct err e = ERR_INIT;

	if (fuzz_refused(verify_place_parse(text, &p, &e), &e))
		return;
	must(p.port != 0 && memchr(p.host, '\0', sizeof(p.host)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = {data, size};

	while (f.n > 0) {
		struct span line = feed_line(&f);

		check_line(line);
		check_place(line);
	}
	return 0;
}
