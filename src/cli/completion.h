/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CLI_COMPLETION_H
#define UNIRAIL_CLI_COMPLETION_H

/*
 * Shell completion: collects the possible words of each position from the applet table, and writes
 * the completion scripts for bash, zsh and fish.
 */

#include "base/applet.h"

struct complete_word {
	char *word;
	const char *help; /* may be "" */
};

/* A position: the words typed so far, without options; for example "", "pool" or "pool list". */
struct complete_place {
	char *path;
	struct complete_word *next; /* words that may be typed next */
	size_t n_next;
	const struct opt *opts; /* terminated by {0}; NULL: only --help */
	bool files, dirs;	/* operands are files or directories */
};

struct complete {
	struct complete_place *places;
	size_t n;
};

enum complete_kind { COMPLETE_NOTHING, COMPLETE_CHOICE, COMPLETE_FILE, COMPLETE_DIR };

#endif
