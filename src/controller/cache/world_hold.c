/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"
#include "controller/cache/world_priv.h"

/* HEARS: an agent's hold, and the time until it is connected again. */
enum { HEARS_MS = 45 * 1000, KEEPS_MS = 600 * 1000, SAME_MS = 120 * 1000 };

static int64_t now_of(const struct world *w)
{
	return loop_now_ms(kube_loop(w->kube));
}

static int64_t since_set_back(const struct world *w)
{
	return w->set_back ? now_of(w) - w->set_back : INT64_MAX;
}

enum world_hold world_hold(const struct world *w)
{
	int64_t ms = since_set_back(w);

	if (now_of(w) < w->listens_until || ms < HEARS_MS)
		return WORLD_HEARS;
	return ms < KEEPS_MS ? WORLD_KEEPS : WORLD_SURE;
}

/* Clocks differ, and a thousand agents say the same within a minute. */
void world_set_back(struct world *w, int64_t real_ms)
{
	int64_t ago = now_real_ms() - real_ms, at;

	if (ago >= KEEPS_MS || ago <= -KEEPS_MS)
		return;
	at = now_of(w) - (ago > 0 ? ago : 0);
	if (w->set_back && at <= w->set_back)
		return;
	if (since_set_back(w) > SAME_MS)
		log_warn(
			"the API server's data was set back: pools are counted when agents have said "
			"again what pods have, and nothing is cleared up until nodes and pods are "
			"known again",
			LOG_I("ms", KEEPS_MS));
	w->set_back = at > 0 ? at : 1;
}

void world_listen(struct world *w, int64_t ms)
{
	if (ms <= 0)
		return;
	log_info("nobody led for a while: agents are listened to before anything is counted or "
		 "cleared up",
		 LOG_I("ms", ms));
	w->listens_until = now_of(w) + ms;
}
