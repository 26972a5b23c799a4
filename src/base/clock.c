/* SPDX-License-Identifier: Apache-2.0 */
#include <time.h>

#include "base/loop.h"

int64_t now_mono_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

int64_t now_mono_ms(void)
{
	return now_mono_us() / 1000;
}

int64_t now_real_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}
