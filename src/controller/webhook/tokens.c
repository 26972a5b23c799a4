/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/webhook/tokens.h"
#include "controller/webhook/tokens_plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/backoff.h"
#include "base/log.h"
#include "base/random.h"
#include "controller/webhook/secret.h"
#include "kube/informer.h"
#include "kube/kinds.h"
#include "kube/object.h"
#include "spec/annotations.h"

enum { TEXT_MAX = 8 << 10, RESCAN_MS = 1000, FIRST_WAIT_MS = 500, MOST_WAIT_MS = 60 * 1000 };

/* a kube_object.value */
struct stored {
	struct tokens_set set;
	bool managed;
};

struct tokens {
	struct tokens_conf conf;
	struct loop *loop;
	struct tokens_set set; /* set of tokens as stored now */
	struct tokens_set old; /* previous content of the Secret */
	int64_t old_until;     /* loop time until which `old` is accepted */
	struct token current;  /* "": none */
	/* time since which the newest token is registered, in seconds since the epoch; 0: it is not
	 * registered */
	int64_t registered_since;
	bool leads;
	struct err sync_error; /* last error of the synchronization; code 0: none */
	struct kube_informer *informer;
	struct kube_call *call;
	char *version; /* resourceVersion of our last write */
	struct loop_alarm timer;
	struct backoff backoff;
};

static void schedule_in(struct tokens *t, int64_t ms)
{
	loop_alarm_set(&t->timer, ms);
}

static int64_t now_s(void)
{
	return now_real_ms() / 1000;
}

/* --- watched Secret --- */

static int decode(void *value, const struct json *object, struct err *e)
{
	struct stored *s = value;
	char *text = secret_text(object, "tokens");
	int r;

	s->managed = secret_is_managed(object);
	s->set.since = secret_since(object, ANNOTATION_TOKEN_SINCE);
	r = text ? tokens_read(&s->set, span_of(text)) : -EINVAL;
	secret_text_free(text);
	if (r >= 0 || s->managed)
		return 0; /* not an error: invalid tokens in unirail's own Secret are replaced */
	return err_kind(e, ERR_CONF, -EINVAL,
			"data.tokens: expected up to %d lines of %d characters 0-9a-f each",
			TOKENS_MAX, TOKEN_LEN);
}

static void drop(void *value)
{
	explicit_bzero(value, sizeof(struct stored));
}

static const struct kube_object *there(const struct tokens *t)
{
	return kube_informer_get(t->informer, t->conf.ns, t->conf.secret);
}

/* --- acceptance of tokens --- */

/* Compares with every token, so that the time does not reveal a match. */
bool tokens_accept(const struct tokens *t, struct span *path)
{
	bool old = loop_now_ms(t->loop) < t->old_until, found = false;

	for (size_t i = 0; i < t->set.n; i++)
		found |= token_matches(&t->set.v[i], *path);
	for (size_t i = 0; i < t->old.n; i++)
		found |= token_matches(&t->old.v[i], *path) && old;
	if (!found)
		return false;
	path->p += 1 + TOKEN_LEN;
	path->n -= 1 + TOKEN_LEN;
	return true;
}

const char *tokens_current(const struct tokens *t)
{
	return *t->current.text ? t->current.text : NULL;
}

int tokens_sync_error(const struct tokens *t, struct err *e)
{
	if (tokens_current(t))
		return 0;
	if (e)
		*e = t->sync_error;
	return t->sync_error.code;
}

static void choose(struct tokens *t)
{
	const struct token *now = tokens_registered(&t->set, t->conf.publish_s, now_s());

	if (!now || memcmp(now, &t->current, sizeof(*now)) == 0)
		return;
	t->current = *now;
	t->registered_since = 0;
	err_clear(&t->sync_error);
	t->conf.changed(t->conf.arg);
}

static void adopt(struct tokens *t, const struct tokens_set *s)
{
	bool same = s->n == t->set.n && memcmp(s->v, t->set.v, s->n * sizeof(s->v[0])) == 0;

	if (!same && t->set.n) {
		t->old = t->set;
		t->old_until = loop_now_ms(t->loop) + t->conf.publish_s * 1000;
	}
	if (!same)
		t->registered_since = 0;
	t->set = *s;
	choose(t);
}

/* --- write of the Secret --- */

static void store_version(struct tokens *t, const struct json *object)
{
	const char *version = kube_meta_string(object, "resourceVersion");

	free(t->version);
	t->version = object && version ? xstrdup(version) : NULL;
}

static void on_written(void *arg, int status, const struct json *object, const struct err *e)
{
	struct tokens *t = arg;

	t->call = NULL;
	/* -EEXIST and -ESTALE are not errors: another replica wrote first, and the watch
	 * delivers what that replica wrote. */
	if (e && e->code != -EEXIST && e->code != -ESTALE) {
		struct err cause = *e;

		if (status == 403 && !there(t))
			secret_explain_missing(&cause, "Secret", t->conf.ns, t->conf.secret);
		log_error("failed to store the webhooks' token", LOG_S("name", t->conf.secret),
			  LOG_S("error", cause.text));
		t->sync_error = cause;
		schedule_in(t, backoff_next(&t->backoff));
		return;
	}
	if (!e) {
		store_version(t, object);
		log_info("token stored", LOG_S("secret", t->conf.secret), LOG_I("status", status));
	}
	backoff_reset(&t->backoff);
	schedule_in(t, 0);
}

static void write_secret(struct tokens *t, const struct tokens_set *s, const char *version)
{
	struct secret_item item = {.key = "tokens"};
	const struct secret_write w = {.ns = t->conf.ns,
				       .name = t->conf.secret,
				       .version = version,
				       .since_name = ANNOTATION_TOKEN_SINCE,
				       .since = s->since,
				       .items = &item,
				       .n_items = 1};
	struct buf text;

	buf_init(&text, TEXT_MAX);
	tokens_write(s, &text);
	item.text = text.p;
	t->call = secret_write(t->conf.kube, &w, on_written, t);
	explicit_bzero(text.p, text.len);
	buf_done(&text);
}

/* --- creation and rotation of tokens --- */

/* Writes the Secret with a new token and the token in use (if there is one), which stays
 * accepted. version NULL: creates the Secret. */
static void create(struct tokens *t, const char *version)
{
	struct tokens_set s = {0};

	if (tokens_current(t)) {
		s.v[0] = t->current;
		s.n = 1;
	}
	tokens_take_step(&s, TOKENS_CREATE, now_s());
	write_secret(t, &s, version);
	explicit_bzero(&s, sizeof(s));
}

static void rotate(struct tokens *t, const char *version)
{
	struct tokens_set s = t->set;
	bool newest = memcmp(&t->current, &s.v[0], sizeof(t->current)) == 0;
	enum tokens_step step;

	if (!newest || !t->conf.registered(t->conf.arg, t->current.text))
		t->registered_since = 0;
	else if (!t->registered_since)
		t->registered_since = now_s();
	step = tokens_step(&s, t->conf.life, t->conf.publish_s, t->registered_since, now_s());
	if (step == TOKENS_FINE)
		return;
	tokens_take_step(&s, step, now_s());
	write_secret(t, &s, version);
	explicit_bzero(&s, sizeof(s));
}

static void scan(void *arg)
{
	const struct kube_object *o;
	struct tokens *t = arg;

	schedule_in(t, RESCAN_MS);
	choose(t);
	if (t->call || !kube_informer_synced(t->informer))
		return;
	o = there(t);
	/* Does nothing while the watch has not delivered our last write. */
	if (t->version && (!o || kube_version_older(o->version, t->version)))
		return;
	if (!o)
		create(t, NULL);
	else if (((const struct stored *)o->value)->managed &&
		 !((const struct stored *)o->value)->set.n)
		/* The manifest creates the Secret without a token, and an administrator may
		 * empty the Secret to get a new token. */
		create(t, o->version);
	else if (t->leads && ((const struct stored *)o->value)->managed)
		rotate(t, o->version);
}

/* --- changes of the Secret and of the leader --- */

static void on_etcd_restored(void *arg)
{
	store_version(arg, NULL);
	schedule_in(arg, 0);
}

static void on_changed(void *arg, const struct kube_object *was, const struct kube_object *is)
{
	struct tokens *t = arg;

	(void)was;
	if (is && ((const struct stored *)is->value)->set.n)
		adopt(t, &((const struct stored *)is->value)->set);
	if (!is)
		store_version(t, NULL);
	/* The scan runs in the next turn of the loop; without a token it is delayed by a random
	 * time, because all replicas notice the lack of a token at the same time. */
	if (kube_informer_synced(t->informer))
		schedule_in(t, is && ((const struct stored *)is->value)->set.n
				       ? 0
				       : jitter_ms(0, FIRST_WAIT_MS));
}

static void on_synced(void *arg)
{
	schedule_in(arg, 0);
}

void tokens_lead(struct tokens *t, bool leads)
{
	t->leads = leads;
	t->registered_since = 0;
}

/* --- creation and destruction --- */

struct tokens *tokens_new(const struct tokens_conf *c)
{
	auto_free char *only = xasprintf("metadata.name=%s", c->secret);
	struct tokens *t = xcalloc(1, sizeof(*t));

	t->conf = *c;
	t->loop = kube_loop(c->kube);
	t->timer = LOOP_ALARM(t->loop, scan, t);
	err_set(&t->sync_error, -EAGAIN,
		"the webhooks' token (Secret '%s/%s') has not been read yet", c->ns, c->secret);
	t->sync_error.kind = ERR_AGAIN;
	t->backoff = (struct backoff){.base = FIRST_WAIT_MS, .most = MOST_WAIT_MS};
	t->informer = kube_informer_new(
		c->kube, &(struct kube_informer_conf){.kind = &kube_secrets,
						      .select = {.ns = c->ns, .fields = only},
						      .size = sizeof(struct stored),
						      .decode = decode,
						      .drop = drop,
						      .changed = on_changed,
						      .synced = on_synced,
						      .etcd_restored = on_etcd_restored,
						      .arg = t});
	return t;
}

void tokens_free(struct tokens *t)
{
	if (!t)
		return;
	kube_cancel(t->call);
	kube_informer_free(t->informer);
	loop_alarm_cancel(&t->timer);
	free(t->version);
	explicit_bzero(t, sizeof(*t));
	free(t);
}

static bool is_token(struct span s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!((s.p[i] >= '0' && s.p[i] <= '9') || (s.p[i] >= 'a' && s.p[i] <= 'f')))
			return false;
	return s.n == TOKEN_LEN;
}

int tokens_read(struct tokens_set *ret, struct span text)
{
	struct tokens_set s = {.since = ret->since};
	struct span line;

	while (span_cut(&text, '\n', &line)) {
		line = span_trim(line);
		if (line.n == 0)
			continue;
		if (!is_token(line) || s.n == TOKENS_MAX)
			return -EINVAL;
		memcpy(s.v[s.n++].text, line.p, TOKEN_LEN);
	}
	if (s.n == 0)
		return -EINVAL;
	*ret = s;
	return 0;
}

void tokens_write(const struct tokens_set *s, struct buf *ret)
{
	for (size_t i = 0; i < s->n; i++)
		buf_printf(ret, "%s\n", s->v[i].text);
}

const struct token *tokens_registered(const struct tokens_set *s, int64_t publish_s, int64_t now)
{
	if (s->n < 2 || s->since + publish_s <= now)
		return s->n ? &s->v[0] : NULL;
	return &s->v[1];
}

enum tokens_step tokens_step(const struct tokens_set *s, int64_t life, int64_t publish_s,
			     int64_t registered_since, int64_t now)
{
	if (s->n == 0)
		return TOKENS_CREATE;
	if (s->n > 1)
		return registered_since && registered_since + publish_s <= now ? TOKENS_PRUNE
									       : TOKENS_FINE;
	return s->since + life <= now ? TOKENS_CREATE : TOKENS_FINE;
}

static void tokens_plan_create(struct token *t)
{
	static const char digits[] = "0123456789abcdef";
	unsigned char b[TOKEN_LEN / 2];

	random_bytes(b, sizeof(b));
	for (size_t i = 0; i < sizeof(b); i++) {
		t->text[2 * i] = digits[b[i] >> 4];
		t->text[2 * i + 1] = digits[b[i] & 15];
	}
	t->text[TOKEN_LEN] = '\0';
	explicit_bzero(b, sizeof(b));
}

void tokens_take_step(struct tokens_set *s, enum tokens_step step, int64_t now)
{
	if (step == TOKENS_PRUNE)
		s->n = 1;
	if (step != TOKENS_CREATE)
		return;
	if (s->n == TOKENS_MAX)
		s->n--;
	memmove(&s->v[1], &s->v[0], s->n * sizeof(s->v[0]));
	tokens_plan_create(&s->v[0]);
	s->n++;
	s->since = now;
}

bool token_matches(const struct token *t, struct span path)
{
	unsigned char differs = 0;

	if (path.n < 1 + TOKEN_LEN || path.p[0] != '/')
		return false;
	for (size_t i = 0; i < TOKEN_LEN; i++)
		differs |= (unsigned char)(t->text[i] ^ path.p[1 + i]);
	return differs == 0;
}
