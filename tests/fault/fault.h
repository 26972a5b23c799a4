/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_TESTS_FAULT_H
#define UNIRAIL_TESTS_FAULT_H

/*
 * The fault driver: it runs the binary as a container runtime does, stops it at its n-th system
 * call, and kills it there or lets that call fail. The state afterwards is compared with the state
 * before.
 */

#include "trace.h"

/* --- dump.c: the kernel's state --- */

struct ns {
	int fd;			    /* the namespace */
	int route, netfilter, rdma; /* sockets in the namespace; rdma -1: a kernel without RDMA */
	bool strict; /* the namespace of the node: settings of links are compared as well */
};
void ns_open(struct ns *s, int fd, bool strict);
void ns_close(struct ns *s);
/*
 * Adds a line for each object: links, addresses, routes, rules, permanent neighbours, nf_tables,
 * RDMA devices.
 */
void ns_dump(const struct ns *s, const char *label, struct buf *b);

/* --- tree.c: files --- */

struct tree_file {
	char *path; /* path below the tree's directory */
	mode_t mode;
	char *text; /* content of the file, or target of the symbolic link */
	size_t n;
};
struct tree {
	struct tree_file *v;
	size_t n;
};
/* Reads everything below dir except the paths in `skip` (terminated by NULL). */
void tree_take(struct tree *t, const char *dir, const char *const *skip);
void tree_done(struct tree *t);
/* Makes the directory equal to the tree, except the paths in `skip`. */
void tree_restore(const struct tree *t, const char *dir, const char *const *skip);
/* Adds a line for each file except those that every call may leave; for a journal, instead, a line
 * for each address that is not free. */
void tree_dump(const struct tree *t, struct buf *b);

/* --- differs.c --- */

/* Returns whether some line occurs more often in one state than in the other. `text` (may be
 * NULL) gets these lines, with "- " (more often in `was`) or "+ " (more often in `is`) before
 * them, long lines shortened. */
bool text_differs(const struct buf *was, const struct buf *is, struct buf *text);

typedef bool (*differ_fn)(const struct buf *was, const struct buf *is, struct buf *text);

/* --- lab.c: a node, its fabric and two pods --- */

enum { NICS_MAX = 9 };

struct lab {
	char dir[64]; /* the root that the binary sees */
	int initial_ns;
	struct ns node, fabric, pod, other;
	size_t nics;
	bool first; /* the node is the initial network namespace, with its own links */
	bool vfs;   /* the node has a PF and a VF */
	/* files below dir. empty: after lab_open(); files: at the beginning of each point */
	struct tree empty, files;
};
/* Call it in a forked child, since the process does not return to its namespaces. nics: number
 * of the node's NICs, which are named eth0, rail0, rail1 ...; 0: the node is the caller's
 * network namespace (the initial one, where drivers create their devices), with its links. */
void lab_open(struct lab *l, const char *binary, size_t nics);
void lab_file(struct lab *l, const char *path, const char *text);
/* Takes the current files as the initial files of each point, which lab_reset() restores;
 * lab_clear() restores the files of lab_open(). */
void lab_keep(struct lab *l);
void lab_reset(struct lab *l);
void lab_clear(struct lab *l);
void lab_dump(const struct lab *l, struct buf *b);
/* state.c: waits until the state no longer changes, and dumps it. */
void lab_dump_stable(const struct lab *l, struct buf *b);
/* Waits at most 3 s until the state is `wanted`, since carrier and IPv6 addresses change with a
 * delay. `now`: the last state; `diff`: its differences from `wanted`. */
bool lab_becomes(const struct lab *l, const struct buf *wanted, differ_fn differ, struct buf *now,
		 struct buf *diff);
/* Opens a socket for changes that the fault driver itself makes in the namespace; the caller
 * closes it. */
struct nl_wire;
struct nl_wire *lab_wire(const struct ns *s);

/* --- vf.c: a VF of a real driver, for scenes that have `vf` --- */

void vf_borrow(struct lab *l); /* moves pf0 and vf0 to the node, unless the node has them */
void vf_return(struct lab *l);
void vf_reset(const struct lab *l); /* resets the driver of a VF that is on the node and down */
/* Adds a line for each VF: the attributes that the PF has for it. */
void vf_dump(const struct lab *l, struct buf *b);

/* --- scenes.c --- */

enum { STEPS_MAX = 8 };

/* One plugin of a chain. */
struct step {
	const char *plugin, *ifname, *conf;
};

/*
 * The interrupted operation: a chain of plugins (ADD, DEL, GC), or the command `argv`, which
 * reaches the same state when it is repeated; before the command, `steps` attach a pod.
 */
struct scene {
	const char *name;
	struct step steps[STEPS_MAX];
	char *const *argv;
	char *const *before; /* a command that runs before the scene; NULL: none */
	bool lenient;	     /* a DEL may succeed although it could not remove everything */
	bool no_gc;	     /* GC does not release what the pod has */
	bool other;	     /* another pod is attached during the whole scene */
	/* `--quick` tests more points of this scene than of others: job_is_quick() */
	bool small;
	bool vf;    /* runs only if --scene names it, because it requires tests/vm */
	bool first; /* the node is the initial network namespace */
	void (*prepare)(struct lab *l);	  /* creates files and other initial state */
	void (*dismantle)(struct lab *l); /* removes initial state other than files */
	/* arm() creates an obstacle before ADD, so that ADD fails late and undoes everything;
	 * disarm() removes the obstacle after ADD. */
	void (*arm)(struct lab *l), (*disarm)(struct lab *l);
};
extern const struct scene scenes[]; /* ended by {0} */
const struct scene *scene_find(const char *name);

/* --- call.c: CNI calls --- */

struct pod {
	const char *id, *netns, *name;
};
extern const struct pod pod_here, pod_other;

/* V_LOST: an ADD whose container is deleted without a DEL, so that only GC cleans up. */
enum verb { V_ADD, V_DEL, V_CHECK, V_GC, V_COMMAND, V_LOST, VERBS };
extern const char *const verb_names[];
int verb_parse(const char *word, enum verb *ret);

/* The outcome of a run. FINE: it succeeded; REFUSED: it failed with an error; MUTE: it ended
 * without the result or the error that is due; CRASH: it ended by a signal other than the
 * injected one; KILLED: the fault killed it; LATE: it was killed at the time limit. */
enum end { END_FINE, END_REFUSED, END_MUTE, END_CRASH, END_KILLED, END_LATE };
enum end end_of(const struct outcome *o, enum verb v, const struct shot *s);
/*
 * The "msg" and "details" of the error object in stdout, NULL: there is none. The caller frees the
 * text.
 */
char *error_text(const struct outcome *o);

void call_plugin(const struct lab *l, const struct step *st, enum verb v, const struct pod *p,
		 const char *prev, struct shot *s, struct outcome *o);
void call_command(const struct lab *l, char *const *argv, struct shot *s, struct outcome *o);

/* --- report.c: findings of all workers together --- */

struct tally {
	long points;
	long survived, undone,
		/* survived: the call succeeded; undone: it failed with an error (an ADD must
		 * then have undone everything, except in a scene with arm()); cleaned: it ended
		 * otherwise (for example killed), or it was a DEL that failed in a trial of
		 * rails.c */
		cleaned;
	long failed;
	long unnamed; /* error texts without the errno's name */
};
void count(long *n);
/* Prints the counts of a scene in one line, and adds points, failed and unnamed to *sum. */
void report_tally(const char *name, const struct tally *t, struct tally *sum);
/* Counts a failure and reports it with one write(), because several workers report concurrently.
 * again: the arguments with which `drive` repeats the point. `diff`, `o` and `again` may be
 * NULL. */
void report_failure(struct tally *t, const char *where, const char *reason, const struct buf *diff,
		    const struct outcome *o, const char *again);

/* --- stage.c: a scene on its lab --- */

struct stage {
	struct lab *l;
	const struct scene *sc;
	struct tally *tally;
	struct buf base;     /* before the operation */
	struct buf attached; /* after ADD, or after the command */
	/* scratch; now: current state; step: state before the step of the chain at which the
	 * fault occurs */
	struct buf now, step;
	char *results[STEPS_MAX];
	struct outcome o;
	bool report_unnamed;
	bool dirty;	/* the stage has leftovers: not usable for further points */
	enum verb verb; /* for messages */
	const struct shot *shot;
};
void stage_open(struct stage *s, struct lab *l, const struct scene *sc, struct tally *t);
void stage_close(struct stage *s);
/* Returns the number of system calls of a run without a fault. */
long stage_count(struct stage *s, enum verb v);
/* True: all plugins of the chain succeeded. `shot` counts the system calls of all of them. */
bool stage_attach(struct stage *s, const struct pod *p, struct shot *shot, enum end *end);
bool stage_detach(struct stage *s, const struct pod *p, struct shot *shot, enum end *end);
bool stage_each(struct stage *s, enum verb v, struct shot *shot, enum end *end); /* CHECK, GC */
void stage_forget_results(struct stage *s);
/* state.c. Returns false if the state is not reached, and reports that. */
bool stage_same(struct stage *s, const struct buf *wanted, const char *reason);
bool stage_is_attached(struct stage *s, const char *reason);
/* compares only the state outside of the pod */
bool stage_is_collected(struct stage *s, const char *reason);
void stage_wrong(struct stage *s, const char *reason, const struct buf *diff);
void stage_unnamed(struct stage *s, const char *text);

/* --- point.c: one point of a scene; findings are reported on stdout --- */

/* Runs an ADD with a fault, checks the state that it leaves, then runs a DEL, another ADD, and a
 * DEL with a fault. add NULL: the first ADD and DEL are left out; del NULL: the last DEL has no
 * fault. */
void stage_pair(struct stage *s, struct shot *add, struct shot *del);
void stage_gc(struct stage *s, struct shot *gc);
/* ADD with a fault, then the container is deleted without a DEL: only GC cleans up. */
void stage_lost(struct stage *s, struct shot *add);
void stage_command(struct stage *s, struct shot *shot);

/* --- jobs.c: the list of points --- */

struct job_counts {
	long calls[VERBS];
};
void job_counts_take(struct job_counts *c, struct stage *s);

struct job {
	size_t scene;
	enum verb verb; /* a job of V_ADD interrupts DEL as well */
	size_t act;
	struct shot shot;
};
long jobs_total(const struct job_counts *all);
/* The j-th job of all; false: there are no more. */
bool job_find(const struct job_counts *all, long j, struct job *ret);
bool job_is_quick(const struct job *j);
bool job_is_kill(const struct job *j);
void job_do(struct stage *s, const struct job *j, const struct job_counts *c);
void job_do_one(struct stage *s, enum verb v, struct shot *shot);

/* --- rails.c: eight rails, of which one fails --- */

enum { RAILS_NICS = 9 };
long rails_jobs(void);
/* False: the lab is no longer usable. */
bool rails_run(struct lab *l, struct tally *t, long job, bool quick);
long rails_find(const char *mishap, const char *rail); /* -1: no such job */
void rails_run_one(struct lab *l, struct tally *t, long job, long n);

#endif
