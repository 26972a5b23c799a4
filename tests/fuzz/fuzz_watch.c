/* SPDX-License-Identifier: Apache-2.0 */
/* The first byte selects list or watch and the size of the reads, the rest is data from the API
 * server. One read and many reads have the same result. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "fuzz.h"
#include "kube/informer.h"
#include "kube/listwatch.h"
#include "wire/json/stream.h"

enum { OUT_MAX = 1 << 22, PIECE_MAX = 1 << 16 };

static void put_object(const struct json *v, struct buf *b)
{
	struct kube_object *o = kube_object_new(v, 24);

	if (!o)
		return;
	must(*o->name && (uintptr_t)o->value % 16 == 0);
	buf_printf(b, " %s/%s@%s", o->ns, o->name, o->version);
	free(o);
}

static void put_event(const struct json *v, struct buf *b)
{
	const struct json *object = NULL;
	enum kube_change change = KUBE_ADDED;
	struct err e = ERR_INIT;
	int64_t after;
	int status, r = kube_watch_decode(v, &change, &object, &status, &after, &e);

	must(after >= -1 && status >= 0 && status < 1000);
	must(!strchr(e.text, '\n'));
	buf_printf(b, " %d %d %d", r, r > 0 ? (int)change : 0, status);
	if (!fuzz_refused(r, &e) && r > 0)
		put_object(object, b);
}

static void put_piece(enum json_split_mode mode, struct span piece, bool item, struct buf *b)
{
	auto_json struct json_doc *doc = NULL;

	must(piece.n > 0 && piece.n <= PIECE_MAX);
	buf_printf(b, "%c%zu", item ? 'i' : 'l', piece.n);
	if (json_parse(&doc, piece, PIECE_MAX, NULL) < 0)
		return;
	if (mode == JSON_SPLIT_STREAM)
		put_event(json_root(doc), b);
	else
		put_object(json_root(doc), b);
}

static void run(enum json_split_mode mode, struct span text, size_t step, struct buf *b)
{
	struct json_split s;
	struct err e = ERR_INIT;
	int r = 0;

	json_split_init(&s, mode, PIECE_MAX);
	while (r >= 0 && text.n > 0) {
		size_t n = step < text.n ? step : text.n;
		char *bytes = memcpy(xmalloc(n), text.p, n);
		struct span in = {bytes, n}, piece;
		bool item;

		text.p += n;
		text.n -= n;
		while ((r = json_split_in(&s, &in, &piece, &item, &e)) > 0)
			put_piece(mode, piece, item, b);
		must(r < 0 || in.n == 0);
		free(bytes);
	}
	if (fuzz_refused(r, &e))
		must(r == -EBADMSG || r == -EFBIG);
	buf_printf(b, "end %d %d", r, json_split_is_whole(&s));
	json_split_done(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = {data, size};
	uint8_t how = feed_byte(&f);
	enum json_split_mode mode = how & 1 ? JSON_SPLIT_STREAM : JSON_SPLIT_LIST;
	struct span text = feed_rest(&f);
	auto_buf struct buf whole, parts;

	buf_init(&whole, OUT_MAX);
	buf_init(&parts, OUT_MAX);
	run(mode, text, text.n, &whole);
	run(mode, text, 1 + (how >> 1) % 32, &parts);
	must(whole.len == parts.len && !memcmp(whole.p, parts.p, whole.len));
	return 0;
}
