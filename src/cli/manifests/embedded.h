/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CLI_MANIFESTS_EMBEDDED_H
#define UNIRAIL_CLI_MANIFESTS_EMBEDDED_H

/*
 * The manifests of deploy and the chart's rules, packed into the binary by tools/embed:
 *
 *	auto_embedded struct embedded d;
 *	embedded_open(&d);
 *	const char *text = embedded_text(&d, "agent.yaml");
 */

#include <stddef.h>

struct embedded {
	char *data;
	size_t len;
};

void embedded_open(struct embedded *d);
void embedded_done(struct embedded *d);
#define auto_embedded __attribute__((cleanup(embedded_done)))

/* Returns the text of a file; NULL: there is no such file. */
const char *embedded_text(const struct embedded *d, const char *name);
/*
 * Returns the name of the file after `name`, in the order of the Makefile's EMBEDDED; NULL: there
 * is none. name: NULL (the first file), or a pointer that this function has returned.
 */
const char *embedded_next(const struct embedded *d, const char *name);

/* Unpacks n bytes into a buffer of `size` bytes. Returns the unpacked length, or -EBADMSG. */
long embedded_unpack(const unsigned char *p, size_t n, char *to, size_t size);

#endif
