/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Features of mbedTLS 3.6 LTS that unirail needs: TLS 1.2 and 1.3, client and server, ECDSA and RSA
 * certificates with verification, client certificates, and the creation of a self-signed
 * certificate for the webhooks. The linker removes unused functions. Randomness comes from
 * getrandom(2), which mbedtls_psa_external_get_random() in src/base/random.c calls: on musl, mbedTLS itself
 * would open /dev/random.
 */
/* platform */
#define MBEDTLS_HAVE_ASM
#define MBEDTLS_HAVE_TIME
#define MBEDTLS_HAVE_TIME_DATE          /* check notBefore/notAfter */
#define MBEDTLS_PLATFORM_C
#define MBEDTLS_VERSION_C
#define MBEDTLS_ERROR_C                 /* messages of error codes */
#define MBEDTLS_THREADING_C             /* PSA keystore is global */
#define MBEDTLS_THREADING_PTHREAD
#define MBEDTLS_DEPRECATED_REMOVED
/* RNG */
#define MBEDTLS_PSA_CRYPTO_EXTERNAL_RNG  /* getrandom(2), see above */
/* PSA is mandatory for TLS 1.3 */
#define MBEDTLS_PSA_CRYPTO_C
/* symmetric */
#define MBEDTLS_AES_C
/* saves 6 KB of tables, which processors with AES instructions do not use */
#define MBEDTLS_AES_FEWER_TABLES
#define MBEDTLS_AESNI_C
#define MBEDTLS_AESCE_C
#define MBEDTLS_GCM_C
#define MBEDTLS_CHACHA20_C
#define MBEDTLS_POLY1305_C
#define MBEDTLS_CHACHAPOLY_C
#define MBEDTLS_CIPHER_C
/* hashes */
#define MBEDTLS_MD_C
#define MBEDTLS_SHA224_C
#define MBEDTLS_SHA256_C
#define MBEDTLS_SHA384_C
#define MBEDTLS_SHA512_C
#define MBEDTLS_HKDF_C                  /* 3.6: PSA HKDF for the TLS 1.3 key schedule */
/* public key */
#define MBEDTLS_BIGNUM_C
#define MBEDTLS_RSA_C
#define MBEDTLS_PKCS1_V15
#define MBEDTLS_PKCS1_V21               /* RSA-PSS: TLS 1.3 needs it */
#define MBEDTLS_X509_RSASSA_PSS_SUPPORT /* TLS 1.3 + RSA */
#define MBEDTLS_ECP_C
#define MBEDTLS_ECDH_C
#define MBEDTLS_ECDSA_C
#define MBEDTLS_ECP_DP_SECP256R1_ENABLED
#define MBEDTLS_ECP_DP_SECP384R1_ENABLED
#define MBEDTLS_ECP_DP_SECP521R1_ENABLED
#define MBEDTLS_ECP_DP_CURVE25519_ENABLED
#define MBEDTLS_ECP_NIST_OPTIM
/* saves 10 KB of tables; a handshake takes a millisecond longer */
#define MBEDTLS_ECP_FIXED_POINT_OPTIM 0
#define MBEDTLS_PK_C
#define MBEDTLS_PK_PARSE_C
/* X.509 */
#define MBEDTLS_ASN1_PARSE_C
#define MBEDTLS_ASN1_WRITE_C
#define MBEDTLS_OID_C
#define MBEDTLS_BASE64_C
#define MBEDTLS_PEM_PARSE_C
#define MBEDTLS_X509_USE_C
#define MBEDTLS_X509_CRT_PARSE_C
#define MBEDTLS_X509_CREATE_C
#define MBEDTLS_X509_CRT_WRITE_C
#define MBEDTLS_PK_WRITE_C
#define MBEDTLS_PEM_WRITE_C
/* TLS */
#define MBEDTLS_SSL_TLS_C
#define MBEDTLS_SSL_CLI_C
#define MBEDTLS_SSL_SRV_C
#define MBEDTLS_SSL_PROTO_TLS1_2
#define MBEDTLS_SSL_PROTO_TLS1_3
#define MBEDTLS_SSL_TLS1_3_COMPATIBILITY_MODE
#define MBEDTLS_SSL_TLS1_3_KEY_EXCHANGE_MODE_EPHEMERAL_ENABLED
#define MBEDTLS_SSL_TLS1_3_KEY_EXCHANGE_MODE_PSK_EPHEMERAL_ENABLED /* sessions are resumed, with fresh keys */
#define MBEDTLS_SSL_SESSION_TICKETS
#define MBEDTLS_SSL_TICKET_C
#define MBEDTLS_SSL_KEEP_PEER_CERTIFICATE
#define MBEDTLS_KEY_EXCHANGE_ECDHE_RSA_ENABLED
#define MBEDTLS_KEY_EXCHANGE_ECDHE_ECDSA_ENABLED
#define MBEDTLS_SSL_SERVER_NAME_INDICATION
#define MBEDTLS_SSL_EXTENDED_MASTER_SECRET
#define MBEDTLS_SSL_ALPN
#define MBEDTLS_SSL_MAX_FRAGMENT_LENGTH
/* RAM: 2 x 16 KiB records + overhead per connection; the server may send 16 KiB records, our requests are small */
#define MBEDTLS_SSL_IN_CONTENT_LEN  16384
#define MBEDTLS_SSL_OUT_CONTENT_LEN 4096
