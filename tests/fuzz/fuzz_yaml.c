/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The input is a document. Valid YAML becomes valid JSON; a kubeconfig is parsed or refused, and
 * a parsed one has a server, a CA, and each certificate with its key.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "fuzz.h"
#include "kube/config.h"
#include "wire/json/json.h"
#include "wire/yaml/yaml.h"

enum { JSON_MAX = 4 << 20 };

static void check_json(struct span text)
{
	auto_json struct json_doc *doc = NULL;
	struct err e = ERR_INIT;
	struct buf json;
	int r;

	buf_init(&json, JSON_MAX);
	r = yaml_to_json(text, &json, &e);
	if (!fuzz_refused(r, &e)) {
		must(json_parse(&doc, buf_span(&json), JSON_MAX, &e) == 0);
	} else {
		must(e.text[0] >= '1' && e.text[0] <= '9');
		must(!strchr(e.text, '\n'));
	}
	buf_done(&json);
}

static void check_conf(struct span text)
{
	struct kube_conf c = {0};
	struct err e = ERR_INIT;
	int r = kube_conf_parse(&c, text, "/dir", NULL, &e);

	if (fuzz_refused(r, &e)) {
		must(!c.host && !c.token);
		return;
	}
	must(c.host && *c.host && c.port && c.prefix);
	must(!c.ca_file || *c.ca_file == '/');
	must(!(c.ca_file && c.ca_pem) && (c.ca_file || c.ca_pem));
	must((c.cert_file || c.cert_pem) == (c.key_file || c.key_pem));
	must(!(c.token && c.token_file));
	kube_conf_done(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* A separate copy, so that reads beyond it are detected. */
	char *bytes = memcpy(xmalloc(size), data, size);
	struct span text = {bytes, size};

	check_json(text);
	check_conf(text);
	free(bytes);
	return 0;
}
