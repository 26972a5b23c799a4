/* SPDX-License-Identifier: Apache-2.0 */
/*
 *	fleet DIR POOLS FIRST COUNT [idle=MS] [cut] [shared]
 *
 * COUNT nodes from number FIRST on, with state below DIR, pools as in the directory POOLS and the API server
 * of $KUBECONFIG; with $FLEET_TOKENS each node uses its own token, $FLEET_TOKENS/NODE.token. For
 * the other operands see struct fleet. NODE is the name of a node, "n" and its number; in a command
 * it is the index of the node in this process, from 0. Reads commands from standard input, one per
 * line, and answers stat, times and reason with one line, the others with ".":
 *
 *	expect		   notifies every node that it will use every pool
 *	add NODE PODS	   creates pods on a node ("*": on each), one after the other, the nodes in turn
 *	del NODE PODS	   deletes the oldest pods
 *	down NODE, up NODE stops a node as if killed; starts it again
 *	stat		   state as a line of JSON
 *	times		   duration of each completed request, in microseconds
 *	forget		   drops the durations recorded so far, and sets at_once to 0
 *	reason NODE POOL  the error text for an exhausted pool
 *	print		   first prints "NODE ADDRESS" of every address that a pod has
 */
#include "fleet.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/num.h"

struct fleet fleet;

/* Pending commands "add" and "del": each iteration of the loop adds or deletes one pod of one
 * node. */
static struct job {
	bool del;
	size_t node; /* SIZE_MAX: all */
	size_t left, at;
} * jobs;
static size_t n_jobs;
static struct loop_timer *turn;

void fleet_die(const char *what, const struct err *e)
{
	fprintf(stderr, "fleet: %s: %s\n", what, e ? e->text : "");
	exit(1);
}

void fleet_took(struct fleet_pod *p)
{
	VEC_PUSH(fleet.took_us, fleet.n_took) = now_mono_us() - p->asked_us;
}

/* --- pods --- */

static void one(struct job *j, size_t node)
{
	if (j->del)
		fleet_node_del(&fleet.nodes[node]);
	else
		fleet_node_add(&fleet.nodes[node]);
}

static void on_turn(void *arg)
{
	struct job *j = jobs;

	(void)arg;
	turn = NULL;
	if (!n_jobs)
		return;
	if (j->node != SIZE_MAX) {
		one(j, j->node);
		j->left--;
	} else {
		one(j, j->at++);
		j->left -= j->at == fleet.n_nodes;
		j->at %= fleet.n_nodes;
	}
	if (!j->left)
		memmove(jobs, jobs + 1, --n_jobs * sizeof(*jobs));
	turn = loop_add_timer(fleet.loop, 0, on_turn, NULL);
}

static void add_job(bool del, const char *node, const char *count)
{
	struct job *j = &VEC_PUSH(jobs, n_jobs);

	*j = (struct job){.del = del, .node = SIZE_MAX, .left = strtoul(count, NULL, 10)};
	if (strcmp(node, "*"))
		j->node = strtoul(node, NULL, 10);
	if (!turn)
		turn = loop_add_timer(fleet.loop, 0, on_turn, NULL);
}

/* --- output --- */

static int by_size(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static int64_t percentile(int p)
{
	return fleet.n_took ? fleet.took_us[(fleet.n_took - 1) * (size_t)p / 100] : 0;
}

static struct blocks_stats sum(void)
{
	struct blocks_stats all = {.requests = fleet.requests, .refused = fleet.refused};

	for (size_t i = 0; i < fleet.n_nodes; i++) {
		struct blocks_stats s = {0};

		if (fleet.nodes[i].blocks)
			s = blocks_stats(fleet.nodes[i].blocks);
		all.requests += s.requests;
		all.refused += s.refused;
		all.unanswered += s.unanswered;
		all.claimed += s.claimed;
		all.blocks_released += s.blocks_released;
		all.released += s.released;
		all.borrowed += s.borrowed;
		all.returned += s.returned;
		all.listed += s.listed;
		all.claims += s.claims;
		all.borrowed_now += s.borrowed_now;
		all.under_way += s.under_way;
	}
	return all;
}

static void put(struct json_out *o, const char *key, uint64_t v)
{
	jo_kint(o, key, (int64_t)v);
}

static void put_requests(struct json_out *o)
{
	struct rusage r;
	uint64_t waiting = 0, pods = 0;

	for (size_t i = 0; i < fleet.n_nodes; i++) {
		waiting += fleet.nodes[i].waiting;
		pods += fleet.nodes[i].n_pods;
	}
	qsort(fleet.took_us, fleet.n_took, sizeof(*fleet.took_us), by_size);
	getrusage(RUSAGE_SELF, &r);
	put(o, "pods", pods);
	put(o, "waiting", waiting);
	put(o, "jobs", n_jobs);
	put(o, "asks", fleet.n_took);
	put(o, "at_once", fleet.at_once);
	put(o, "p50", (uint64_t)percentile(50));
	put(o, "p90", (uint64_t)percentile(90));
	put(o, "p99", (uint64_t)percentile(99));
	put(o, "most", (uint64_t)percentile(100));
	put(o, "cpu_ms",
	    (uint64_t)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1000 +
		    (uint64_t)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1000);
	put(o, "rss_kib", (uint64_t)r.ru_maxrss);
}

static void stat_line(void)
{
	struct blocks_stats s = sum();
	size_t ready = 0, unadopted = 0;
	struct json_out o;
	struct buf b;

	for (size_t i = 0; i < fleet.n_nodes; i++) {
		ready += fleet.nodes[i].blocks && blocks_ready(fleet.nodes[i].blocks);
		unadopted += fleet.nodes[i].blocks ? blocks_unadopted_count(fleet.nodes[i].blocks)
						   : 0;
	}
	buf_init(&b, 4096);
	jo_init(&o, &b, 0);
	jo_obj(&o);
	put_requests(&o);
	put(&o, "requests", s.requests);
	put(&o, "refused", s.refused);
	put(&o, "unanswered", s.unanswered);
	put(&o, "failed", fleet.failed);
	put(&o, "rails", fleet.rails);
	put(&o, "claimed", s.claimed);
	put(&o, "blocks_released", s.blocks_released);
	put(&o, "released", s.released);
	put(&o, "borrowed", s.borrowed);
	put(&o, "returned", s.returned);
	put(&o, "listed", s.listed);
	put(&o, "claims", s.claims);
	put(&o, "borrowed_now", s.borrowed_now);
	put(&o, "under_way", s.under_way);
	put(&o, "ready", ready);
	put(&o, "unadopted", unadopted);
	jo_kstr(&o, "error", fleet.error);
	jo_end_obj(&o);
	puts(b.p);
	buf_done(&b);
}

/* Prints the duration of each completed request, in microseconds. */
static void times(void)
{
	for (size_t i = 0; i < fleet.n_took; i++)
		printf("%s%lld", i ? "," : "[", (long long)fleet.took_us[i]);
	puts(fleet.n_took ? "]" : "[]");
}

/* Prints how the node searched for addresses of the pool, as an agent reports it in its error. */
static void print_reason(const char *node, const char *pool)
{
	struct buf w;

	buf_init(&w, 1024);
	blocks_describe(fleet.nodes[strtoul(node, NULL, 10)].blocks, pool, &w);
	puts(w.p);
	buf_done(&w);
}

/* --- commands --- */

static void expect(void)
{
	for (size_t i = 0; i < fleet.n_nodes; i++)
		for (size_t k = 0; k < fleet.nodes[i].whole.set.n; k++)
			blocks_prefetch(fleet.nodes[i].blocks, fleet.nodes[i].whole.set.v[k].name,
					0);
}

static void command(char *line)
{
	char *w[3] = {strtok(line, " \n"), strtok(NULL, " \n"), strtok(NULL, " \n")};

	if (!w[0])
		return;
	if (strcmp(w[0], "stat") == 0) {
		stat_line();
		return;
	}
	if (strcmp(w[0], "times") == 0) {
		times();
		return;
	}
	if (strcmp(w[0], "reason") == 0) {
		print_reason(w[1], w[2]);
		return;
	}
	if (strcmp(w[0], "print") == 0)
		for (size_t i = 0; i < fleet.n_nodes; i++)
			fleet_node_print(&fleet.nodes[i], stdout);
	else if (strcmp(w[0], "expect") == 0)
		expect();
	else if (strcmp(w[0], "forget") == 0)
		fleet.n_took = fleet.at_once = 0;
	else if (strcmp(w[0], "down") == 0)
		fleet_node_down(&fleet.nodes[strtoul(w[1], NULL, 10)]);
	else if (strcmp(w[0], "up") == 0)
		fleet_node_up(&fleet.nodes[strtoul(w[1], NULL, 10)]);
	else
		add_job(strcmp(w[0], "del") == 0, w[1], w[2]);
	puts(".");
}

static void on_input(void *arg, uint32_t events)
{
	static char text[4096];
	static size_t len;
	ssize_t n = read(0, text + len, sizeof(text) - 1 - len);
	char *end;

	(void)arg, (void)events;
	if (n <= 0) {
		loop_stop(fleet.loop, 0);
		return;
	}
	len += (size_t)n;
	text[len] = '\0';
	while ((end = strchr(text, '\n'))) {
		*end = '\0';
		command(text);
		len -= (size_t)(end + 1 - text);
		memmove(text, end + 1, len + 1);
	}
	fflush(stdout);
}

static void start(int argc, char **argv)
{
	size_t first = strtoul(argv[3], NULL, 10);

	fleet.dir = argv[1];
	fleet.pool_dir = argv[2];
	fleet.n_nodes = strtoul(argv[4], NULL, 10);
	for (int i = 5; i < argc; i++) {
		fleet.shared |= strcmp(argv[i], "shared") == 0;
		fleet.cut |= strcmp(argv[i], "cut") == 0;
		if (strncmp(argv[i], "idle=", 5) == 0)
			fleet.idle_ms = strtol(argv[i] + 5, NULL, 10);
	}
	fleet.nodes = xcalloc(fleet.n_nodes, sizeof(*fleet.nodes));
	for (size_t i = 0; i < fleet.n_nodes; i++) {
		struct fleet_node *n = &fleet.nodes[i];

		snprintf(n->name, sizeof(n->name), "n%zu", first + i);
		snprintf(n->dir, sizeof(n->dir), "%s/%s", fleet.dir, n->name);
		fleet_node_up(n);
	}
}

static void stop(void)
{
	for (size_t i = 0; i < fleet.n_nodes; i++) {
		fleet_node_down(&fleet.nodes[i]);
		free(fleet.nodes[i].pods);
	}
	free(fleet.nodes);
	free(fleet.took_us);
	free(jobs);
}

int main(int argc, char **argv)
{
	struct kube_conf conf;
	struct loop_fd *in;
	struct err e = ERR_INIT;
	struct root root;

	signal(SIGPIPE, SIG_IGN);
	if (argc < 5)
		fleet_die("usage", NULL);
	log_threshold = getenv("FLEET_LOG") ? LOG_DEBUG : LOG_ERROR;
	if (root_open(&root, NULL, &e) < 0 ||
	    kube_conf_load(&conf, &(struct kube_where){.root = &root}, &e) < 0 ||
	    loop_new(&fleet.loop, &e) < 0)
		fleet_die("start", &e);
	fleet.root = &root;
	fleet.conf = &conf;
	start(argc, argv);
	loop_add_fd(fleet.loop, 0, EPOLLIN, on_input, NULL, &in, &e);
	loop_run(fleet.loop);
	stop();
	loop_free(fleet.loop);
	kube_conf_done(&conf);
	root_close(&root);
	return 0;
}
