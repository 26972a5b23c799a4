/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CLI_COMPLETION_H
#define UNIRAIL_CLI_COMPLETION_H

/*
 * What can be typed where, gathered from the applet table; completion.c, _zsh.c and _fish.c
 * write it in the words of a shell.
 */

#include "base/applet.h"

struct complete_word {
	char *word;
	const char *help; /* may be "" */
};

/* A place: the words typed so far, options left out. "", "pool", "pool list" */
struct complete_place {
	char *path;
	struct complete_word *next; /* words that may follow */
	size_t n_next;
	const struct opt *opts; /* ended by {0}; NULL: none */
	bool options;		/* --help at least */
	bool files, folders;	/* operands are such */
};

struct complete {
	struct complete_place *places;
	size_t n;
};

enum complete_kind { COMPLETE_NOTHING, COMPLETE_CHOICE, COMPLETE_FILE, COMPLETE_FOLDER };

void complete_gather(struct complete *c);
void complete_done(struct complete *c);
/* What an option's value is, by its type and the word in its help (FILE, PATH, DIR). */
enum complete_kind complete_value(const struct opt *o);
/* 'text' as one word of any shell. */
void complete_quote(struct buf *b, const char *text);
/* "a|b|c" -> "a b c" */
void complete_choices(struct buf *b, const char *choices);

void complete_bash(const struct complete *c, struct buf *b);
void complete_zsh(const struct complete *c, struct buf *b);
void complete_fish(const struct complete *c, struct buf *b);

#endif
