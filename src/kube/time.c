/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/time.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/num.h"

/* Sets *ret to the minutes of "Z" or of an offset such as "+01:00". */
static int offset_minutes(const char *s, int *ret)
{
	uint64_t h, m;

	if (strcmp(s, "Z") == 0 || strcmp(s, "z") == 0) {
		*ret = 0;
		return 0;
	}
	if ((*s != '+' && *s != '-') || strlen(s) != 6 || s[3] != ':' ||
	    num_u64((struct span){s + 1, 2}, 0, 23, &h) < 0 ||
	    num_u64((struct span){s + 4, 2}, 0, 59, &m) < 0)
		return -EINVAL;
	*ret = (int)(h * 60 + m) * (*s == '-' ? -1 : 1);
	return 0;
}

static int fraction_ms(const char **s)
{
	int ms = 0, unit = 100;

	if (**s != '.')
		return 0;
	for ((*s)++; **s >= '0' && **s <= '9'; (*s)++, unit /= 10)
		ms += (**s - '0') * unit;
	return ms;
}

int kube_time_parse(const char *text, int64_t *ret)
{
	struct tm tm = {0};
	const char *at = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
	int minutes, ms;

	if (!at || tm.tm_year < 70)
		return -EINVAL;
	ms = fraction_ms(&at);
	if (offset_minutes(at, &minutes) < 0)
		return -EINVAL;
	*ret = ((int64_t)timegm(&tm) - minutes * 60) * 1000 + ms;
	return 0;
}

void kube_time_text(int64_t ms, char ret[static KUBE_TIME_MAX])
{
	time_t s = ms / 1000;
	struct tm tm;

	strftime(ret, KUBE_TIME_MAX, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&s, &tm));
}

void kube_micro_time_text(int64_t ms, char ret[static KUBE_TIME_MAX])
{
	time_t s = ms / 1000;
	struct tm tm;
	char part[24];

	strftime(part, sizeof(part), "%Y-%m-%dT%H:%M:%S", gmtime_r(&s, &tm));
	snprintf(ret, KUBE_TIME_MAX, "%s.%03d000Z", part, (int)(ms % 1000));
}
