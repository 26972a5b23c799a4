/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CLI_COMPLETION_H
#define UNIRAIL_CLI_COMPLETION_H

/*
 * Shell completion: collects from the applet table which words are possible at each position, and
 * writes the completion scripts for bash, zsh and fish.
 */

#include "base/applet.h"

struct complete_word {
	char *word;
	const char *help; /* may be "" */
};

/* A position: the words typed so far, without options: "", "pool", "pool list". */
struct complete_place {
	char *path;
	struct complete_word *next; /* words that may follow */
	size_t n_next;
	const struct opt *opts; /* terminated by {0}; NULL: none */
	bool options;		/* has at least --help */
	bool files, folders;	/* operands are files or directories */
};

struct complete {
	struct complete_place *places;
	size_t n;
};

enum complete_kind { COMPLETE_NOTHING, COMPLETE_CHOICE, COMPLETE_FILE, COMPLETE_FOLDER };

void complete_gather(struct complete *c);
void complete_done(struct complete *c);
/* Kind of an option's value, from its type and the placeholder in its help (FILE, PATH, DIR). */
enum complete_kind complete_value(const struct opt *o);
/* Quotes 'text' as one word for any shell. */
void complete_quote(struct buf *b, const char *text);
/* "a|b|c" -> "a b c" */
void complete_choices(struct buf *b, const char *choices);

void complete_bash(const struct complete *c, struct buf *b);
void complete_zsh(const struct complete *c, struct buf *b);
void complete_fish(const struct complete *c, struct buf *b);

#endif
