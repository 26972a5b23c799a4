/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_TESTS_TLS_CERTS_H
#define UNIRAIL_TESTS_TLS_CERTS_H

/*
 * Certificates for tests, valid for a hundred years (openssl, P-256): a CA; two certificates that
 * this CA has signed, of a server (localhost, 127.0.0.1, ::1) and of a client; and another CA. The
 * keys are used in tests only.
 */

#define TLS_TEST_CA                                                                                \
	"-----BEGIN CERTIFICATE-----\n"                                                            \
	"MIIBijCCATGgAwIBAgIUHoZz4WdaMjIrpECaXSa2XPYbnF0wCgYIKoZIzj0EAwIw\n"                       \
	"EjEQMA4GA1UEAwwHdGVzdC1jYTAgFw0yNjExMjExNzA0MzZaGA8yMTI2MTAyODE3\n"                       \
	"MDQzNlowEjEQMA4GA1UEAwwHdGVzdC1jYTBZMBMGByqGSM49AgEGCCqGSM49AwEH\n"                       \
	"A0IABD9u8u/fXBSegjMqHreyIlwS10QH7SdG/byKgOvIZURij4y2pG5cxHluh20e\n"                       \
	"GO7tqWJ1YljclHe5WLv8HQDomhajYzBhMB0GA1UdDgQWBBRG+AU7CtuUn+Y+orp+\n"                       \
	"L7Yx0kxkBTAfBgNVHSMEGDAWgBRG+AU7CtuUn+Y+orp+L7Yx0kxkBTAPBgNVHRMB\n"                       \
	"Af8EBTADAQH/MA4GA1UdDwEB/wQEAwIChDAKBggqhkjOPQQDAgNHADBEAiBTVweZ\n"                       \
	"yCiaQNTmRB449GH1fQvlsSuuF/H3vZLAJvFDYQIgOrYsO/LxNppYCpmyVInuJvPC\n"                       \
	"rj8A9/ogDl2rd2Z+0rg=\n"                                                                   \
	"-----END CERTIFICATE-----\n"

#define TLS_TEST_OTHER_CA                                                                          \
	"-----BEGIN CERTIFICATE-----\n"                                                            \
	"MIIBfTCCASOgAwIBAgIUNwyN5aZJri+jR52BqStgfv/sR3AwCgYIKoZIzj0EAwIw\n"                       \
	"EzERMA8GA1UEAwwIb3RoZXItY2EwIBcNMjYxMTIxMTcwNDM2WhgPMjEyNjEwMjgx\n"                       \
	"NzA0MzZaMBMxETAPBgNVBAMMCG90aGVyLWNhMFkwEwYHKoZIzj0CAQYIKoZIzj0D\n"                       \
	"AQcDQgAEDw8xizrPR+PlAb3wo8YYVlPWBKsKAT8GZV7QtHPDMbrn8Ws5DKjOf2iW\n"                       \
	"6ZGFhOBhaRCAyH3xXYvZO8Z28A/IY6NTMFEwHQYDVR0OBBYEFBfx8z6ireFls987\n"                       \
	"eP1X3uHMsxu8MB8GA1UdIwQYMBaAFBfx8z6ireFls987eP1X3uHMsxu8MA8GA1Ud\n"                       \
	"EwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDSAAwRQIhAP7zxrU0K+ifjvw0cpOZ1xt+\n"                       \
	"GEp2nvfHgljc4Me5ArGGAiB/vMWqPIhvr33SfHDKeQzIS1z/SsWEorCJnS6sUB+2\n"                       \
	"mw==\n"                                                                                   \
	"-----END CERTIFICATE-----\n"

#define TLS_TEST_SERVER                                                                            \
	"-----BEGIN CERTIFICATE-----\n"                                                            \
	"MIIBrjCCAVSgAwIBAgIUJ2CxnLs8klGEdtyjtpmrdTwmd6EwCgYIKoZIzj0EAwIw\n"                       \
	"EjEQMA4GA1UEAwwHdGVzdC1jYTAgFw0yNjExMjExNzA0MzZaGA8yMTI2MTAyODE3\n"                       \
	"MDQzNlowETEPMA0GA1UEAwwGc2VydmVyMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcD\n"                       \
	"QgAErPiShBtJPGesJ0JkL4ri72FR2aPUriJqBVP5z2+ZiJ5mPeTdwUx+eIwPXbSk\n"                       \
	"rLJM/fhQHW1A64x4frDfKUMf+6OBhjCBgzATBgNVHSUEDDAKBggrBgEFBQcDATAs\n"                       \
	"BgNVHREEJTAjgglsb2NhbGhvc3SHBH8AAAGHEAAAAAAAAAAAAAAAAAAAAAEwHQYD\n"                       \
	"VR0OBBYEFOGe/+VADzvxg9M6o1nmNQv4H/TJMB8GA1UdIwQYMBaAFEb4BTsK25Sf\n"                       \
	"5j6iun4vtjHSTGQFMAoGCCqGSM49BAMCA0gAMEUCIQDTkxQQVcVyMZjjMhqbz0Zk\n"                       \
	"hs647NgjuoeVB8eLYlFcEAIgPNvbUAfmNkGZm4NGaG+WbLDGokb3Zm2jGaM53J39\n"                       \
	"m3M=\n"                                                                                   \
	"-----END CERTIFICATE-----\n"

#define TLS_TEST_SERVER_KEY                                                                        \
	"-----BEGIN PRIVATE KEY-----\n"                                                            \
	"MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgfY//Co+tk9MClKpI\n"                       \
	"S5ETXdtS7iKVledW54HdkJW4BUahRANCAASs+JKEG0k8Z6wnQmQviuLvYVHZo9Su\n"                       \
	"ImoFU/nPb5mInmY95N3BTH54jA9dtKSsskz9+FAdbUDrjHh+sN8pQx/7\n"                               \
	"-----END PRIVATE KEY-----\n"

#define TLS_TEST_CLIENT                                                                            \
	"-----BEGIN CERTIFICATE-----\n"                                                            \
	"MIIBfjCCASSgAwIBAgIUJ2CxnLs8klGEdtyjtpmrdTwmd6IwCgYIKoZIzj0EAwIw\n"                       \
	"EjEQMA4GA1UEAwwHdGVzdC1jYTAgFw0yNjExMjExNzA0MzZaGA8yMTI2MTAyODE3\n"                       \
	"MDQzNlowETEPMA0GA1UEAwwGY2xpZW50MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcD\n"                       \
	"QgAEaG0rhac/LuZF4OQugb90zzAi/e4Auj0UFksY72nGgoFRnFubNYpSHD0jIahM\n"                       \
	"VwijKSgf8QCr2sZ41g+dQ2x4tKNXMFUwEwYDVR0lBAwwCgYIKwYBBQUHAwIwHQYD\n"                       \
	"VR0OBBYEFN4FjylvxDakLX9Ytg89fTTCyrH5MB8GA1UdIwQYMBaAFEb4BTsK25Sf\n"                       \
	"5j6iun4vtjHSTGQFMAoGCCqGSM49BAMCA0gAMEUCIQCQQPoRpfMhGtvsQx05Oyer\n"                       \
	"LinD64nFeoTYJzr2/KWM2AIgGGGfO1NI5P3VSsvLuBFji6dZcwSxB/S+Rk+Mgbux\n"                       \
	"xgo=\n"                                                                                   \
	"-----END CERTIFICATE-----\n"

#define TLS_TEST_CLIENT_KEY                                                                        \
	"-----BEGIN PRIVATE KEY-----\n"                                                            \
	"MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg/DfbO1tcc/2+Aiqe\n"                       \
	"heKCWNWJrJN0GmThIcV6GtW0xF2hRANCAARobSuFpz8u5kXg5C6Bv3TPMCL97gC6\n"                       \
	"PRQWSxjvacaCgVGcW5s1ilIcPSMhqExXCKMpKB/xAKvaxnjWD51DbHi0\n"                               \
	"-----END PRIVATE KEY-----\n"

#endif
