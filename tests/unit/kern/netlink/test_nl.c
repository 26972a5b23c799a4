/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The netlink socket: batches and their acks, error texts, several namespaces, recorder and
 * replayer.
 */
#include "kern_lab.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/rtnetlink.h>

#include "base/alloc.h"
#include "base/file.h"
#include "kern/net/addr.h"
#include "kern/netlink/attr.h"
#include "kern/sys/netns.h"
#include "kern/netlink/internal.h"

static struct link_spec bridge(const char *name)
{
	struct link_spec s = LINK_SPEC_INIT;

	s.name = name;
	s.kind = "bridge";
	return s;
}

static void add_bridge(struct nl_batch *b, const char *name)
{
	struct link_spec s = bridge(name);

	link_add(b, &s);
}

static void test_batch_continues_after_a_failed_message(void **state)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct kern_lab l;

	(void)state;
	kern_open(&l);
	add_bridge(b, "br0");
	add_bridge(b, "br0");
	add_bridge(b, "br1");
	FAILS(nl_batch_commit(l.w, b, &e), -EEXIST, "create bridge 'br0': File exists (EEXIST)");
	ASSERT_EQ(nl_batch_len(b), 3);
	ASSERT_EQ(nl_batch_result(b, 0), 0);
	ASSERT_EQ(nl_batch_result(b, 1), -EEXIST);
	ASSERT_EQ(nl_batch_result(b, 2), 0);
	kern_link(&l, "br1");
	/* A message of an earlier commit is not sent again. */
	FAILS(nl_batch_commit(l.w, b, &e), -EEXIST, "create bridge 'br0': File exists (EEXIST)");
	ASSERT_EQ(nl_batch_result(b, 2), 0);
	nl_batch_reset(b);
	ASSERT_EQ(nl_batch_len(b), 0);
	kern_commit(&l, b);
	kern_close(&l);
}

/* The batch is sent in several parts; the acks of a part are read before the next part is sent. */
static void test_batch_of_300_messages_gets_all_acks(void **state)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct kern_lab l;
	char text[32];

	(void)state;
	kern_open(&l);
	for (int i = 0; i < 300; i++) {
		struct ipnet net;

		snprintf(text, sizeof(text), "10.%d.%d.1/24", i / 200, i % 200);
		net = t_net(text);
		addr_add(b, 1, "lo", &net, 0);
	}
	kern_commit(&l, b);
	for (int i = 0; i < 300; i += 3) {
		struct ipnet net;

		snprintf(text, sizeof(text), "10.%d.%d.1/24", i / 200, i % 200);
		net = t_net(text);
		addr_add(b, 1, "lo", &net, 0);
		addr_del(b, 1, "lo", &net);
	}
	FAILS(nl_batch_commit(l.w, b, &e), -EEXIST,
	      "add address 10.0.0.1/24 to 'lo': File exists (EEXIST): ipv4: Address already assigned");
	for (size_t i = 0; i < nl_batch_len(b); i++)
		ASSERT_EQ(nl_batch_result(b, i), i % 2 ? 0 : -EEXIST);
	kern_close(&l);
}

/* Messages whose acks did not fit into the receive buffer fail with ENOBUFS; the error names the
 * first of them. */
static void test_messages_with_lost_acks_are_reported(void **state)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	int size = 1, first = -1;
	char expected[128];
	struct kern_lab l;

	(void)state;
	kern_open(&l);
	ASSERT_EQ(setsockopt(l.w->fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)), 0);
	for (int i = 0; i < 40; i++) {
		struct ipnet net = t_net("10.0.0.0/24");

		net.ip.b[3] = (uint8_t)i;
		addr_add(b, 1, "lo", &net, 0);
	}
	ASSERT_EQ(nl_batch_commit(l.w, b, &e), -ENOBUFS);
	for (size_t i = 40; i-- > 0;) {
		if (nl_batch_result(b, i) < 0)
			first = (int)i;
	}
	assert_in_range(first, 1, 39);
	snprintf(
		expected, sizeof(expected),
		"add address 10.0.0.%d/24 to 'lo': No buffer space available (ENOBUFS): the kernel's answer was lost, so the "
		"outcome is unknown",
		first);
	ASSERT_STR_EQ(e.text, expected);
	/* The socket is still usable. */
	ASSERT_STR_EQ(kern_link(&l, "lo").name, "lo");
	kern_close(&l);
}

/* A reply that does not fit into the buffer is requested again with a larger buffer. */
static void test_too_small_buffer_grows(void **state)
{
	struct link *list;
	struct kern_lab l;
	size_t n;

	(void)state;
	kern_open(&l);
	kern_veth(&l, "net1", "far1");
	l.w->cap = 64;
	ASSERT_STR_EQ(kern_link(&l, "net1").name, "net1");
	assert_true(l.w->cap > 64);
	l.w->cap = 64;
	OK(link_list(l.w, &list, &n, &e));
	ASSERT_EQ(n, 3);
	free(list);
	kern_close(&l);
}

static void test_batch_with_an_invalid_name_is_not_sent(void **state)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct link found;
	struct kern_lab l;

	(void)state;
	kern_open(&l);
	add_bridge(b, "br0");
	add_bridge(b, "a/b");
	FAILS(nl_batch_commit(l.w, b, &e), -EINVAL,
	      "create bridge 'a/b': Invalid argument (EINVAL): not an interface name: expected 1 to 15 bytes without '/', "
	      "':' or white space");
	ASSERT_EQ(nl_batch_result(b, 0), -ECANCELED);
	FAILS(link_get(l.w, "br0", &found, &e), -ENODEV, "look up link 'br0': Link not found");
	kern_close(&l);
}

static void test_deleting_missing_objects_is_tolerated(void **state)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct ipnet net = t_net("10.0.0.1/24");
	struct ipaddr ip = t_ip("10.0.0.9");
	struct kern_lab l;

	(void)state;
	kern_open(&l);
	link_del(b, 4711, "gone");
	link_del(b, 0, "gone");
	link_del_group(b, LINK_GROUP);
	addr_del(b, 1, "lo", &net);
	neigh_del(b, 1, "lo", &ip);
	kern_commit(&l, b);
	kern_close(&l);
}

static void test_code_of_a_netlink_error_decides_its_kind_and_text(void **state)
{
	static const struct {
		int code;
		enum err_kind kind;
		const char *text;
	} rows[] = {
		{-EPERM, ERR_UNAVAILABLE,
		 "do it: Operation not permitted (EPERM): needs CAP_NET_ADMIN: run as root: why"},
		{-EBUSY, ERR_AGAIN, "do it: Device or resource busy (EBUSY): why"},
		{-EINVAL, ERR_OTHER, "do it: Invalid argument (EINVAL): why"},
		{-EOPNOTSUPP, ERR_UNAVAILABLE, "do it: Operation not supported (EOPNOTSUPP): why"},
		{-EMSGSIZE, ERR_OTHER,
		 "do it: Message too long (EMSGSIZE): does not fit a netlink message: why"},
	};
	struct kern_lab l;

	(void)state;
	kern_open(&l);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_batch struct nl_batch *b = nl_batch_new();
		nl_batch_refuse(b, rows[i].code, "why", "do %s", "it");
		ASSERT_EQ_MSG(nl_batch_commit(l.w, b, &e), rows[i].code, "rows[%zu]", i);
		ASSERT_STR_EQ_MSG(e.text, rows[i].text, "rows[%zu]", i);
		ASSERT_EQ_MSG(e.kind, rows[i].kind, "rows[%zu]", i);
		ASSERT_EQ_MSG(e.code, rows[i].code, "rows[%zu]", i);
	}
	kern_close(&l);
}

/* Runs in a child as an unprivileged user. Returns 0 if the error of a refused change names the
 * missing capability. */
static int try_as_other_user(struct kern_lab *l)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	int r;

	if (setresuid(65534, 65534, 65534) < 0)
		return 1;
	add_bridge(b, "br0");
	r = nl_batch_commit(l->w, b, &e);
	return r != -EPERM || e.kind != ERR_UNAVAILABLE ||
	       strcmp(e.text,
		      "create bridge 'br0': Operation not permitted (EPERM): needs CAP_NET_ADMIN: run as root") !=
		       0;
}

static void test_error_without_privilege_names_the_capability(void **state)
{
	int status = -1;
	struct kern_lab l;
	pid_t pid;

	(void)state;
	kern_open(&l);
	pid = fork();
	if (pid == 0)
		_exit(try_as_other_user(&l));
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	ASSERT_EQ(status, 0);
	kern_close(&l);
}

/* Two sockets in two namespaces at once, and the caller in a third namespace. */
static void test_socket_stays_in_the_namespace_it_was_opened_in(void **state)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct link_spec s = LINK_SPEC_INIT;
	struct link found;
	struct kern_lab l, m;

	(void)state;
	kern_open(&l);
	kern_open(&m);
	s.name = "here";
	s.kind = "veth";
	s.peer_name = "there";
	s.peer_netns_fd = m.ns;
	link_add(b, &s);
	kern_commit(&l, b);
	kern_link(&l, "here");
	kern_link(&m, "there");
	FAILS(link_get(l.w, "there", &found, &e), -ENODEV, "look up link 'there': Link not found");
	FAILS(link_get(m.w, "here", &found, &e), -ENODEV, "look up link 'here': Link not found");
	kern_close(&l);
	kern_close(&m);
}

static void test_reopened_socket_is_in_the_requested_namespace(void **state)
{
	struct kern_lab l, m;
	struct link found;
	struct nl_wire *w;

	(void)state;
	kern_open(&l);
	kern_open(&m);
	w = l.w;
	kern_veth(&m, "there", "x");
	OK(nl_reopen(l.w, l.ns, &e));
	assert_ptr_equal(l.w, w);
	FAILS(link_get(l.w, "there", &found, &e), -ENODEV, "look up link 'there': Link not found");
	OK(nl_reopen(l.w, m.ns, &e));
	OK(link_get(l.w, "there", &found, &e));
	/* after a failure the old socket stays in use */
	assert_true(nl_reopen(l.w, STDIN_FILENO, &e) < 0);
	OK(link_get(l.w, "there", &found, &e));
	kern_close(&l);
	kern_close(&m);
}

static void test_netlink_protocol_missing_in_the_kernel_is_reported_as_unavailable(void **state)
{
	struct nl_wire *w = NULL;

	(void)state;
	/* If the kernel of this machine has RDMA netlink, the error cannot be provoked and the
	 * test ends here. */
	if (nl_open(&w, NL_RDMA, -1, &e) == 0) {
		nl_wire_close(w);
		return;
	}
	ASSERT_STR_EQ(
		e.text,
		"open rdma netlink socket: Protocol not supported (EPROTONOSUPPORT): this kernel lacks "
		"the netlink protocol");
	ASSERT_EQ(e.kind, ERR_UNAVAILABLE);
	assert_null(w);
}

/* --- recorder and replayer --- */

/* Returns a wire that replays the text; NULL: the error is in e */
static struct nl_wire *replay_text(const char *text)
{
	auto_fd int fd = memfd_create("replay", MFD_CLOEXEC);
	struct nl_wire *w = NULL;
	char path[64];

	OK(fd_write_all(fd, text, strlen(text), &e));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (nl_open_replay(&w, path, &e) == 0)
		return w;
	/* Removes the path from the error, because it contains an arbitrary descriptor number. */
	memmove(e.text, strchr(e.text, ':'), strlen(strchr(e.text, ':')) + 1);
	return NULL;
}

static void three_bridges(struct nl_batch *b)
{
	static const struct ifinfomsg nothing;

	add_bridge(b, "br0");
	add_bridge(b, "br0");
	link_del(b, 4711, "gone");
	nl_batch_add(b, msg_new(RTM_SETLINK, 0, &nothing, sizeof(nothing), 0), 0, "set nothing");
}

static void check_three_bridges(struct nl_wire *w)
{
	auto_batch struct nl_batch *b = nl_batch_new();

	three_bridges(b);
	FAILS(nl_batch_commit(w, b, &e), -EEXIST, "create bridge 'br0': File exists (EEXIST)");
	ASSERT_EQ(nl_batch_result(b, 0), 0);
	ASSERT_EQ(nl_batch_result(b, 1), -EEXIST);
	ASSERT_EQ(nl_batch_result(b, 2), 0);
	ASSERT_EQ(nl_batch_result(b, 3), -EINVAL);
}

/* The recorded wire sends a request before the recording starts, so its sequence numbers differ
 * from the replay's. */
static void test_recording_can_be_replayed(void **state)
{
	auto_fd int fd = memfd_create("record", MFD_CLOEXEC);
	auto_nl struct nl_wire *w = NULL;
	struct link *list;
	char path[64];
	struct kern_lab l;
	size_t n;

	(void)state;
	kern_open(&l);
	kern_link(&l, "lo");
	OK(nl_record_to(l.w, fd, &e));
	check_three_bridges(l.w);
	OK(link_list(l.w, &list, &n, &e));
	free(list);
	kern_close(&l);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	OK(nl_open_replay(&w, path, &e));
	check_three_bridges(w);
	ASSERT_EQ(nl_replay_finished(w, NULL), -EPROTO);
	OK(link_list(w, &list, &n, &e));
	ASSERT_EQ(n, 2);
	assert_non_null(link_find(list, n, "br0"));
	free(list);
	OK(nl_replay_finished(w, &e));
}

static void test_recorded_failures_are_replayed(void **state)
{
	auto_nl struct nl_wire *w = kern_replay("batch.nl");

	(void)state;
	check_three_bridges(w);
	OK(nl_replay_finished(w, &e));
}

static void test_replay_refuses_a_request_that_was_not_recorded(void **state)
{
	auto_nl struct nl_wire *w = kern_replay("batch.nl");
	auto_batch struct nl_batch *b = nl_batch_new();
	auto_nl struct nl_wire *again = kern_replay("batch.nl");

	(void)state;
	add_bridge(b, "br1");
	FAILS(nl_batch_commit(w, b, &e), -EPROTO,
	      "create bridge 'br1': tests/replay/batch.nl:3: the request is not the recorded one: "
	      "byte 38 is 31, expected 30");
	ASSERT_EQ(nl_batch_result(b, 0), -EPROTO);
	nl_batch_reset(b);
	add_bridge(b, "br0");
	FAILS(nl_batch_commit(again, b, &e), -EPROTO,
	      "create bridge 'br0': tests/replay/batch.nl:3: the request is not the recorded one: "
	      "56 bytes, expected 176");
}

static void test_invalid_recordings_are_refused(void **state)
{
	static const struct {
		const char *text, *expected;
	} rows[] = {
		{"x", ":1: expected '> HEX', '< HEX' or a comment"},
		{"# fine\n\n> 0", ":3: odd number of hex digits"},
		{"> 0g", ":1: expected lower-case hex digits"},
		{"# protocol smoke", ":1: unknown protocol"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_null(replay_text(rows[i].text));
		ASSERT_STR_EQ_MSG(e.text, rows[i].expected, "rows[%zu]", i);
		ASSERT_EQ_MSG(e.code, -EINVAL, "rows[%zu]", i);
	}
}

static void test_replay_without_an_answer_times_out(void **state)
{
	auto_nl struct nl_wire *w = NULL;
	struct link found;

	(void)state;
	w = replay_text("> 280000001200010000000000000000000000000001000000000000000000000008001d00"
			"08000000\n");
	assert_non_null(w);
	ASSERT_EQ(link_get_index(w, 1, &found, &e), -ETIMEDOUT);
}

/* Counts the messages of a dump; forget() resets the counter before an interrupted dump is
 * requested again. */
static int count(void *msg, void *arg)
{
	(void)msg;
	++*(int *)arg;
	return 0;
}

static void forget(void *arg)
{
	*(int *)arg = 0;
}

static struct nl_msg *dump_request(void)
{
	return msg_new(RTM_GETLINK, NLM_F_DUMP, NULL, 0, 0);
}

#define DUMP "> 10000000120001030000000000000000\n"
#define ENTRY                                                                                      \
	"1000000010000200"                                                                         \
	"0000000000000000"
#define TORN                                                                                       \
	"1000000010001200"                                                                         \
	"0000000000000000"
#define DONE                                                                                       \
	"1400000003000200"                                                                         \
	"0000000000000000"                                                                         \
	"00000000"

static void test_interrupted_dump_is_repeated(void **state)
{
	auto_nl struct nl_wire *w = NULL;
	int n = 0;

	(void)state;
	w = replay_text(DUMP "< " ENTRY ENTRY "\n< " TORN "\n< " DONE "\n" DUMP "< " ENTRY DONE
			     "\n");
	assert_non_null(w);
	OK(nl_request(w, dump_request(), count, forget, &n, &e));
	ASSERT_EQ(n, 1);
	OK(nl_replay_finished(w, &e));
}

static void test_dump_interrupted_each_time_is_an_error(void **state)
{
	auto_nl struct nl_wire *w = NULL;
	int n = 0;

	(void)state;
#define ONCE DUMP "< " TORN DONE "\n"
	w = replay_text(ONCE ONCE ONCE ONCE ONCE ONCE);
	assert_non_null(w);
	ASSERT_EQ(nl_request(w, dump_request(), count, forget, &n, &e), -EINTR);
	ASSERT_STR_EQ(
		e.text,
		"Interrupted system call (EINTR): the list changed, or parts of the answer were "
		"lost, each time it was read");
	ASSERT_EQ(e.kind, ERR_AGAIN);
	OK(nl_replay_finished(w, &e));
}

static int refuse(void *msg, void *arg)
{
	(void)msg;
	++*(int *)arg;
	return -ELOOP;
}

/* After an error of a callback the rest of the dump does not affect the next request. */
static void test_rest_of_a_dump_is_discarded_when_its_callback_fails(void **state)
{
	auto_nl struct nl_wire *w = NULL;
	int n = 0;

	(void)state;
	w = replay_text(DUMP "< " ENTRY ENTRY "\n< " ENTRY DONE "\n" DUMP "< " DONE "\n");
	assert_non_null(w);
	ASSERT_EQ(nl_request(w, dump_request(), refuse, forget, &n, &e), -ELOOP);
	ASSERT_EQ(n, 1);
	OK(nl_request(w, dump_request(), count, forget, &n, &e));
	OK(nl_replay_finished(w, &e));
}

static void test_malformed_answers_are_errors(void **state)
{
	static const char *const answers[] = {
		"10000000020000000000000000000000", /* an error without its code */
		"ff00000010000200"
		"0000000000000000", /* longer than the datagram */
		"0f00000010000200"
		"0000000000000000", /* shorter than its header */
		"10",
		"",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
		auto_nl struct nl_wire *w = NULL;
		char text[512];
		int n = 0;

		snprintf(text, sizeof(text), DUMP "< %s\n", answers[i]);
		w = replay_text(text);
		assert_non_null(w);
		ASSERT_EQ_MSG(nl_request(w, dump_request(), count, forget, &n, &e), -EBADMSG,
			      "answers[%zu]", i);
		ASSERT_STR_EQ_MSG(e.text, "Bad message (EBADMSG): malformed answer from the kernel",
				  "answers[%zu]", i);
	}
}

static void use_batch(struct nl_wire *w)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	int r;

	three_bridges(b);
	r = nl_batch_commit(w, b, &e);
	assert_true(r == 0 || e.text[0]);
	for (size_t i = 0; i < 4; i++)
		assert_in_range(nl_batch_result(b, i) + 5000, 0, 5000);
}

static void test_mutated_acks_do_not_crash(void **state)
{
	(void)state;
	kern_mutate("batch.nl", 3000, use_batch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_batch_continues_after_a_failed_message),
		cmocka_unit_test(test_batch_of_300_messages_gets_all_acks),
		cmocka_unit_test(test_messages_with_lost_acks_are_reported),
		cmocka_unit_test(test_too_small_buffer_grows),
		cmocka_unit_test(test_batch_with_an_invalid_name_is_not_sent),
		cmocka_unit_test(test_deleting_missing_objects_is_tolerated),
		cmocka_unit_test(test_code_of_a_netlink_error_decides_its_kind_and_text),
		cmocka_unit_test(test_error_without_privilege_names_the_capability),
		cmocka_unit_test(test_socket_stays_in_the_namespace_it_was_opened_in),
		cmocka_unit_test(test_reopened_socket_is_in_the_requested_namespace),
		cmocka_unit_test(
			test_netlink_protocol_missing_in_the_kernel_is_reported_as_unavailable),
		cmocka_unit_test(test_recording_can_be_replayed),
		cmocka_unit_test(test_recorded_failures_are_replayed),
		cmocka_unit_test(test_replay_refuses_a_request_that_was_not_recorded),
		cmocka_unit_test(test_invalid_recordings_are_refused),
		cmocka_unit_test(test_replay_without_an_answer_times_out),
		cmocka_unit_test(test_interrupted_dump_is_repeated),
		cmocka_unit_test(test_dump_interrupted_each_time_is_an_error),
		cmocka_unit_test(test_rest_of_a_dump_is_discarded_when_its_callback_fails),
		cmocka_unit_test(test_malformed_answers_are_errors),
		cmocka_unit_test(test_mutated_acks_do_not_crash),
	};

	return T_RUN(tests, NULL, NULL);
}
