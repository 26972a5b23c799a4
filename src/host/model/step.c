/* SPDX-License-Identifier: Apache-2.0 */
#include "host/model/step.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/num.h"
#include "base/path.h"

enum { TEXT_MAX = 4 << 20, ARGS_MAX = 64 << 10 };

static char *format(const char *fmt, va_list ap)
{
	auto_buf struct buf b;

	buf_init(&b, TEXT_MAX);
	buf_vprintf(&b, fmt, ap);
	return buf_take(&b);
}

/* --- operations --- */

void host_op_done(struct host_op *op)
{
	free(op->verb);
	for (size_t i = 0; i < op->n; i++) {
		free(op->args[i].key);
		free(op->args[i].value);
	}
	free(op->args);
	*op = (struct host_op){0};
}

void host_op_begin(struct host_op *op, const char *verb)
{
	op->verb = xstrdup(verb);
}

static void add_text(struct host_op *op, const char *key, char *value)
{
	VEC_PUSH(op->args, op->n) = (struct host_arg){xstrdup(key), value};
}

void host_op_add(struct host_op *op, const char *key, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add_text(op, key, format(fmt, ap));
	va_end(ap);
}

const char *host_op_get(const struct host_op *op, const char *key)
{
	for (size_t i = 0; i < op->n; i++)
		if (strcmp(op->args[i].key, key) == 0)
			return op->args[i].value;
	return NULL;
}

int host_op_number(const struct host_op *op, const char *key, uint64_t min, uint64_t max,
		   uint64_t *ret, struct err *e)
{
	const char *value = host_op_get(op, key);

	if (!value || num_u64(span_of(value), min, max, ret) < 0)
		return err_kind(e, ERR_CONF, -EINVAL,
				"operation '%s': '%s' is '%s', expected a number %llu to %llu",
				op->verb ? op->verb : "", key, value ? value : "",
				(unsigned long long)min, (unsigned long long)max);
	return 0;
}

void host_op_write(const struct host_op *op, struct json_out *o)
{
	jo_obj(o);
	jo_kstr(o, "verb", op->verb);
	for (size_t i = 0; i < op->n; i++)
		jo_kstr(o, op->args[i].key, op->args[i].value);
	jo_end_obj(o);
}

int host_op_read(const struct json *v, struct host_op *ret, struct err *e)
{
	struct json_walk w = json_walk_start(v);
	struct host_op op = {0};
	const struct json *one;
	const char *key;

	while ((one = json_walk_next(&w, &key))) {
		const char *text = json_string(one);

		if (!key || !text) {
			host_op_done(&op);
			return err_kind(e, ERR_DECODE, -EBADMSG,
					"an operation must be an object of strings");
		}
		if (strcmp(key, "verb") == 0 && !op.verb)
			op.verb = xstrdup(text);
		else
			add_text(&op, key, xstrdup(text));
	}
	*ret = op;
	return 0;
}

/* --- steps --- */

const char *host_effect_name(enum host_effect e)
{
	static const char *const names[] = {"now", "reboot", "power-cycle"};

	return names[e];
}

static void step_done(struct host_step *s)
{
	free(s->subject);
	free(s->current);
	free(s->desired);
	free(s->command);
	free(s->blocked);
	host_op_done(&s->action);
	host_op_done(&s->undo);
}

void host_plan_done(struct host_plan *p)
{
	for (size_t i = 0; i < p->n; i++)
		step_done(&p->v[i]);
	for (size_t i = 0; i < p->n_remarks; i++) {
		free(p->remarks[i].subject);
		free(p->remarks[i].text);
	}
	free(p->v);
	free(p->remarks);
	*p = (struct host_plan){0};
}

struct host_step *host_plan_add(struct host_plan *p, const char *kind, const char *subject)
{
	struct host_step *s = &VEC_PUSH(p->v, p->n);

	s->kind = kind;
	s->subject = xstrdup(subject);
	return s;
}

static void replace(char **to, char *by)
{
	free(*to);
	*to = by;
}

void host_step_text(struct host_step *s, const char *current, const char *desired)
{
	replace(&s->current, xstrdup(current));
	replace(&s->desired, xstrdup(desired));
}

void host_step_command(struct host_step *s, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	replace(&s->command, format(fmt, ap));
	va_end(ap);
}

void host_step_blocked(struct host_step *s, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	replace(&s->blocked, format(fmt, ap));
	va_end(ap);
}

void host_plan_remark(struct host_plan *p, const char *kind, const char *subject, const char *fmt,
		      ...)
{
	va_list ap;

	va_start(ap, fmt);
	VEC_PUSH(p->remarks, p->n_remarks) =
		(struct host_remark){kind, xstrdup(subject), format(fmt, ap)};
	va_end(ap);
}

/* --- steps of the model's own verbs --- */

void host_file_done(struct host_file *f)
{
	free(f->path);
	free(f->text);
	*f = (struct host_file){0};
}

char *host_shell_word(const char *s)
{
	auto_buf struct buf b;

	buf_init(&b, ARGS_MAX);
	if (*s &&
	    s[strspn(s,
		     "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,+@%")] ==
		    '\0')
		return xstrdup(s);
	buf_char(&b, '\'');
	for (; *s; s++) {
		if (*s == '\'')
			buf_str(&b, "'\\''");
		else
			buf_char(&b, *s);
	}
	buf_char(&b, '\'');
	return buf_take(&b);
}

static void file_op(struct host_op *op, const char *path, const char *text, unsigned int mode)
{
	host_op_begin(op, HOST_FILE);
	host_op_add(op, "path", "%s", path);
	if (!text)
		return;
	host_op_add(op, "mode", "%04o", mode);
	add_text(op, "text", xstrdup(text));
}

struct host_step *host_plan_file(struct host_plan *p, const char *kind, const char *subject,
				 const struct host_file *found, const char *text, unsigned int mode)
{
	auto_free char *word = NULL;
	struct host_step *s;

	if (found->text && text ? strcmp(found->text, text) == 0 && found->mode == mode
				: !found->text && !text)
		return NULL;
	word = host_shell_word(found->path);
	s = host_plan_add(p, kind, subject);
	s->current = xasprintf(found->text ? "%s" : "%s does not exist", found->path);
	s->desired = xasprintf(!text	     ? "%s removed"
			       : found->text ? "%s with new content or mode"
					     : "%s",
			       found->path);
	if (text)
		host_step_command(s, "install -m %04o /dev/stdin %s <<'EOF'\n%sEOF", mode, word,
				  text);
	else
		host_step_command(s, "rm -f %s", word);
	file_op(&s->action, found->path, text, mode);
	file_op(&s->undo, found->path, found->text, found->mode);
	return s;
}

static void link_op(struct host_op *op, const char *path, const char *target)
{
	host_op_begin(op, HOST_LINK);
	host_op_add(op, "path", "%s", path);
	if (target)
		host_op_add(op, "target", "%s", target);
}

struct host_step *host_plan_link(struct host_plan *p, const char *kind, const char *subject,
				 const char *path, const char *found, const char *target)
{
	auto_free char *word = host_shell_word(path), *to = NULL;
	struct host_step *s;

	if (found && target ? strcmp(found, target) == 0 : !found && !target)
		return NULL;
	s = host_plan_add(p, kind, subject);
	s->current = found ? xasprintf("%s -> %s", path, found)
			   : xasprintf("%s does not exist", path);
	s->desired = target ? xasprintf("%s -> %s", path, target) : xasprintf("%s removed", path);
	to = target ? host_shell_word(target) : NULL;
	if (target)
		host_step_command(s, "ln -sfn %s %s", to, word);
	else
		host_step_command(s, "rm -f %s", word);
	link_op(&s->action, path, target);
	link_op(&s->undo, path, found);
	return s;
}

static void attr_op(struct host_op *op, const char *path, const char *value)
{
	host_op_begin(op, HOST_ATTR);
	host_op_add(op, "path", "%s", path);
	host_op_add(op, "value", "%s", value);
}

struct host_step *host_plan_attr(struct host_plan *p, const char *kind, const char *subject,
				 const char *path, const char *found, const char *value)
{
	auto_free char *word = NULL, *to = NULL;
	struct host_step *s;

	if (strcmp(found, value) == 0)
		return NULL;
	word = host_shell_word(value);
	to = host_shell_word(path);
	s = host_plan_add(p, kind, subject);
	s->current = xasprintf("%s %s", path_base(path), found);
	s->desired = xasprintf("%s %s", path_base(path), value);
	host_step_command(s, "echo %s >%s", word, to);
	attr_op(&s->action, path, value);
	attr_op(&s->undo, path, found);
	return s;
}
