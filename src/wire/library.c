/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/library.h"

#include <string.h>

#include <mbedtls/build_info.h>
#include <nghttp2/nghttp2.h>
#include <pb.h>
#include <yyjson.h>

#define NANOPB_PREFIX "nanopb-"

const char *wire_library_version(const char *name)
{
	if (!strcmp(name, "mbedtls"))
		return MBEDTLS_VERSION_STRING;
	if (!strcmp(name, "nghttp2"))
		return NGHTTP2_VERSION;
	if (!strcmp(name, "yyjson"))
		return YYJSON_VERSION_STRING;
	if (!strcmp(name, "nanopb")) /* "nanopb-0.4.9.1" */
		return NANOPB_VERSION + sizeof(NANOPB_PREFIX) - 1;
	return NULL;
}
