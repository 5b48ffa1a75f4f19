/* One event with the fields of a trace record. LTTng adds the time. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER nostall
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "lttng.h"

#if !defined(NOSTALL_LTTNG_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define NOSTALL_LTTNG_H
#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_EVENT(
	nostall, record,
	LTTNG_UST_TP_ARGS(uint64_t, ip, uint64_t, parent),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer_hex(uint64_t, ip, ip)
		lttng_ust_field_integer_hex(uint64_t, parent, parent)))
#endif

#include <lttng/tracepoint-event.h>
