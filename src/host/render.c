/* SPDX-License-Identifier: Apache-2.0 */
#include "host/render.h"

#include <string.h>

#include "base/alloc.h"
#include "base/table.h"

static void text_step(const struct host_step *s, struct buf *b)
{
	struct span rest = span_of(s->command), line;

	buf_printf(b, "%s %s: %s -> %s", s->kind, s->subject, s->current ? s->current : "-",
		   s->desired ? s->desired : "-");
	if (s->interrupts)
		buf_str(b, " (interrupts traffic)");
	if (s->effect == HOST_REBOOT)
		buf_str(b, " (effective after a reboot)");
	if (s->effect == HOST_POWER_CYCLE)
		buf_str(b, " (effective after a power cycle)");
	buf_char(b, '\n');
	while (rest.p && span_cut(&rest, '\n', &line))
		buf_printf(b, "    %.*s\n", (int)line.n, line.p);
	if (s->blocked)
		buf_printf(b, "    blocked: %s\n", s->blocked);
}

void host_render_plan(const struct host_plan *p, struct buf *b)
{
	for (size_t i = 0; i < p->n; i++)
		text_step(&p->v[i], b);
	for (size_t i = 0; i < p->n_remarks; i++)
		buf_printf(b, "note: %s %s: %s\n", p->remarks[i].kind, p->remarks[i].subject,
			   p->remarks[i].text);
}

static void json_step(const struct host_step *s, struct json_out *o)
{
	jo_obj(o);
	jo_kstr(o, "kind", s->kind);
	jo_kstr(o, "subject", s->subject);
	jo_kstr(o, "current", s->current);
	jo_kstr(o, "desired", s->desired);
	jo_kstr(o, "command", s->command);
	jo_kbool(o, "interrupts", s->interrupts);
	jo_kstr(o, "effect", host_effect_name(s->effect));
	if (s->blocked)
		jo_kstr(o, "blocked", s->blocked);
	jo_key(o, "action");
	host_op_write(&s->action, o);
	if (s->undo.verb) {
		jo_key(o, "undo");
		host_op_write(&s->undo, o);
	}
	jo_end_obj(o);
}

void host_render_plan_json(const struct host_plan *p, struct buf *b)
{
	struct json_out o;

	jo_init(&o, b, 4);
	jo_obj(&o);
	jo_key(&o, "steps");
	jo_arr(&o);
	for (size_t i = 0; i < p->n; i++)
		json_step(&p->v[i], &o);
	jo_end_arr(&o);
	jo_key(&o, "notes");
	jo_arr(&o);
	for (size_t i = 0; i < p->n_remarks; i++) {
		jo_obj(&o);
		jo_kstr(&o, "kind", p->remarks[i].kind);
		jo_kstr(&o, "subject", p->remarks[i].subject);
		jo_kstr(&o, "text", p->remarks[i].text);
		jo_end_obj(&o);
	}
	jo_end_arr(&o);
	jo_end_obj(&o);
	buf_char(b, '\n');
}

void host_render_rows(const struct host_rows *r, struct buf *b)
{
	auto_columns struct columns c;

	columns_init(&c, 4, "");
	columns_add(&c, "KIND");
	columns_add(&c, "SUBJECT");
	columns_add(&c, "PROPERTY");
	columns_add(&c, "VALUE");
	for (size_t i = 0; i < r->n; i++) {
		columns_add(&c, r->v[i].kind);
		columns_add(&c, r->v[i].subject);
		columns_add(&c, r->v[i].property);
		columns_add(&c, r->v[i].value);
	}
	columns_put(&c, b);
}

void host_render_rows_json(const struct host_rows *r, struct buf *b)
{
	struct json_out o;

	jo_init(&o, b, 4);
	jo_arr(&o);
	for (size_t i = 0; i < r->n; i++) {
		jo_obj(&o);
		jo_kstr(&o, "kind", r->v[i].kind);
		jo_kstr(&o, "subject", r->v[i].subject);
		jo_kstr(&o, "property", r->v[i].property);
		jo_kstr(&o, "value", r->v[i].value);
		jo_end_obj(&o);
	}
	jo_end_arr(&o);
	buf_char(b, '\n');
}
