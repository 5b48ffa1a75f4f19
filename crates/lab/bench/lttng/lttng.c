/* For every number on standard input: so many events, and the nanoseconds they took. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "lttng.h"
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

int main(void)
{
	uint64_t events;

	while (scanf("%" SCNu64, &events) == 1) {
		struct timespec start, end;

		clock_gettime(CLOCK_MONOTONIC, &start);
		for (uint64_t i = 0; i < events; i++)
			lttng_ust_tracepoint(nostall, record, 0xffffffff81000000, 0xffffffff82000000);
		clock_gettime(CLOCK_MONOTONIC, &end);
		printf("%" PRId64 "\n", (int64_t)(end.tv_sec - start.tv_sec) * 1000000000
			+ end.tv_nsec - start.tv_nsec);
		fflush(stdout);
	}
}
