# SPDX-License-Identifier: Apache-2.0
"""Creates Spiderpool's objects, and sends reviews directly to the webhook port, for the tests of the webhooks and of attacks on them."""
import http.client
import ssl

SPIDER = "/apis/spiderpool.spidernet.io/v2beta1"
PATH = "/validate-spiderpool-spidernet-io-v2beta1-spiderippool"


def pool(name, subnet, **spec):
    base = subnet.rsplit(".", 1)[0]
    return {"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool", "metadata": {"name": name},
            "spec": {"subnet": subnet, "ips": [f"{base}.10-{base}.20"], **spec}}


def create(cluster, o, query=""):
    plural = o["kind"].lower() + "s"
    ns = o["metadata"].get("namespace")
    path = f"{SPIDER}/namespaces/{ns}/{plural}" if ns else f"{SPIDER}/{plural}"
    return cluster.request("POST", path + query, o)


def send(c, path, body, method="POST", ca=None, timeout=20, length=None, **headers):
    """Sends a request to the webhook port and returns (status, bytes). With `ca` it verifies the server's certificate. length: the value
    of Content-Length, instead of the length of the body."""
    context = ssl.create_default_context(cadata=ca)
    if not ca:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    conn = http.client.HTTPSConnection("127.0.0.1", c.webhook_port, context=context, timeout=timeout)
    if length is not None:
        headers["Content-Length"] = str(length)
    try:
        conn.request(method, path, body, {"Content-Type": "application/json", **headers})
        r = conn.getresponse()
        return r.status, r.read()
    finally:
        conn.close()
