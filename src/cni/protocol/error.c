/* SPDX-License-Identifier: Apache-2.0 */
/* Converts error kinds to CNI codes and back, and prints the error object. */
#include "cni/protocol/error.h"

#include "base/alloc.h"
#include "cni/protocol/cni.h"

enum {
	CODE_INTERNAL = 999,
	/* Another plugin's CNI code for which enum err_kind has no kind is stored in err.kind as
	 * FOREIGN + code, above all kinds. FOREIGN_MAX: highest such code. */
	FOREIGN = 1 << 16,
	FOREIGN_MAX = (1 << 16) - 1,
};

static const unsigned short codes[] = {
	[ERR_OTHER] = CODE_INTERNAL,
	[ERR_VERSION] = 1,
	[ERR_UNSUPPORTED] = 2,
	[ERR_ENV] = 4,
	[ERR_IO] = 5,
	[ERR_DECODE] = 6,
	[ERR_CONF] = 7,
	[ERR_NETNS] = 8,
	[ERR_AGAIN] = 11,
	[ERR_UNAVAILABLE] = 50,
};

int cni_code(const struct err *e)
{
	unsigned int kind = (unsigned int)e->kind;

	if (kind >= FOREIGN && kind - FOREIGN <= FOREIGN_MAX)
		return (int)(kind - FOREIGN);
	return kind < ARRAY_LEN(codes) ? codes[kind] : CODE_INTERNAL;
}

void cni_code_set(struct err *e, unsigned int code)
{
	if (!e)
		return;
	for (unsigned int i = 0; i < ARRAY_LEN(codes); i++)
		if (codes[i] == code) {
			e->kind = (enum err_kind)i;
			return;
		}
	e->kind = code > FOREIGN_MAX ? ERR_OTHER : (enum err_kind)(FOREIGN + code);
}

void cni_error_print(const struct err *e, struct buf *b)
{
	struct json_out o;

	jo_init(&o, b, 4);
	jo_obj(&o);
	jo_kint(&o, "code", cni_code(e));
	jo_kstr(&o, "msg", e->text);
	if (e->details[0])
		jo_kstr(&o, "details", e->details);
	jo_end_obj(&o);
}
