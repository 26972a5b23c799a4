/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

/* Shortens s to at most n bytes, including the "..." that it appends; no UTF-8 sequence is
 * split. */
static void cut(char *s, size_t n)
{
	static const char mark[] = "...";

	n -= sizeof(mark) - 1;
	while (n > 0 && ((unsigned char)s[n] & 0xc0) == 0x80)
		n--;
	memcpy(s + n, mark, sizeof(mark));
}

/* Like vsnprintf(), but truncates between UTF-8 sequences; returns the length of the text in
 * `into`. */
static size_t format(char *into, size_t size, const char *fmt, va_list ap)
{
	int n = vsnprintf(into, size, fmt, ap);

	if (n < 0)
		into[0] = '\0';
	else if ((size_t)n >= size)
		cut(into, size - 1);
	return strlen(into);
}

static int negative(int code)
{
	return code > 0 ? -code : code;
}

/* `text` is not part of *e: all setters format into a local buffer first, because their
 * arguments may point into *e. */
static void begin(struct err *e, enum err_kind kind, int code, const char *text)
{
	e->code = negative(code);
	e->kind = kind;
	e->details[0] = '\0';
	memcpy(e->text, text, strlen(text) + 1);
}

static int set(struct err *e, enum err_kind kind, int code, const char *fmt, va_list ap)
{
	char text[ERR_TEXT_MAX];

	if (!e)
		return negative(code);
	format(text, sizeof(text), fmt, ap);
	begin(e, kind, code, text);
	return e->code;
}

int err_set(struct err *e, int code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	code = set(e, ERR_OTHER, code, fmt, ap);
	va_end(ap);
	return code;
}

int err_kind(struct err *e, enum err_kind kind, int code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	code = set(e, kind, code, fmt, ap);
	va_end(ap);
	return code;
}

int err_sys(struct err *e, int code, const char *fmt, ...)
{
	const char *name = errno_text(code);
	char text[ERR_TEXT_MAX];
	va_list ap;
	size_t n;

	if (!e)
		return negative(code);
	va_start(ap, fmt);
	/* the errno is always shown in full: the text before it is truncated instead */
	n = format(text, sizeof(text) - strlen(name) - 2, fmt, ap);
	va_end(ap);
	snprintf(text + n, sizeof(text) - n, ": %s", name);
	begin(e, ERR_OTHER, code, text);
	return e->code;
}

int err_wrap(struct err *e, int code, const char *fmt, ...)
{
	char text[ERR_TEXT_MAX];
	const char *inner;
	va_list ap;
	size_t n;

	code = negative(code);
	if (!e)
		return code;
	inner = e->text[0] ? e->text : errno_text(code);
	va_start(ap, fmt);
	/* the context gets at most half of the room: the innermost text names the failure */
	n = format(text, sizeof(text) / 2, fmt, ap);
	va_end(ap);
	if ((size_t)snprintf(text + n, sizeof(text) - n, ": %s", inner) >= sizeof(text) - n)
		cut(text, sizeof(text) - 1);
	memcpy(e->text, text, strlen(text) + 1);
	if (!e->code)
		e->code = code;
	return code;
}

void err_details(struct err *e, const char *fmt, ...)
{
	char text[ERR_DETAILS_MAX];
	va_list ap;

	if (!e)
		return;
	va_start(ap, fmt);
	format(text, sizeof(text), fmt, ap);
	va_end(ap);
	memcpy(e->details, text, strlen(text) + 1);
}

void err_default_kind(struct err *e, enum err_kind kind)
{
	if (e && e->kind == ERR_OTHER)
		e->kind = kind;
}

void err_clear(struct err *e)
{
	if (!e)
		return;
	e->code = 0;
	e->kind = ERR_OTHER;
	e->text[0] = e->details[0] = '\0';
}

/*
 * Messages of the GNU C library, which `ip` and most other programs print; those of musl differ. An
 * array of characters instead of pointers, because a position-independent program pays a relocation
 * at its start for each pointer in a table, and most runs never read this one.
 */
#define TEXT(e, text) [e] = text " (" #e ")"

static const char texts[][60] = {
	TEXT(EPERM, "Operation not permitted"),
	TEXT(ENOENT, "No such file or directory"),
	TEXT(ESRCH, "No such process"),
	TEXT(EINTR, "Interrupted system call"),
	TEXT(EIO, "Input/output error"),
	TEXT(ENXIO, "No such device or address"),
	TEXT(E2BIG, "Argument list too long"),
	TEXT(ENOEXEC, "Exec format error"),
	TEXT(EBADF, "Bad file descriptor"),
	TEXT(ECHILD, "No child processes"),
	TEXT(EAGAIN, "Resource temporarily unavailable"),
	TEXT(ENOMEM, "Cannot allocate memory"),
	TEXT(EACCES, "Permission denied"),
	TEXT(EFAULT, "Bad address"),
	TEXT(ENOTBLK, "Block device required"),
	TEXT(EBUSY, "Device or resource busy"),
	TEXT(EEXIST, "File exists"),
	TEXT(EXDEV, "Invalid cross-device link"),
	TEXT(ENODEV, "No such device"),
	TEXT(ENOTDIR, "Not a directory"),
	TEXT(EISDIR, "Is a directory"),
	TEXT(EINVAL, "Invalid argument"),
	TEXT(ENFILE, "Too many open files in system"),
	TEXT(EMFILE, "Too many open files"),
	TEXT(ENOTTY, "Inappropriate ioctl for device"),
	TEXT(ETXTBSY, "Text file busy"),
	TEXT(EFBIG, "File too large"),
	TEXT(ENOSPC, "No space left on device"),
	TEXT(ESPIPE, "Illegal seek"),
	TEXT(EROFS, "Read-only file system"),
	TEXT(EMLINK, "Too many links"),
	TEXT(EPIPE, "Broken pipe"),
	TEXT(EDOM, "Numerical argument out of domain"),
	TEXT(ERANGE, "Numerical result out of range"),
	TEXT(EDEADLK, "Resource deadlock avoided"),
	TEXT(ENAMETOOLONG, "File name too long"),
	TEXT(ENOLCK, "No locks available"),
	TEXT(ENOSYS, "Function not implemented"),
	TEXT(ENOTEMPTY, "Directory not empty"),
	TEXT(ELOOP, "Too many levels of symbolic links"),
	TEXT(ENOMSG, "No message of desired type"),
	TEXT(EIDRM, "Identifier removed"),
	TEXT(ECHRNG, "Channel number out of range"),
	TEXT(EL2NSYNC, "Level 2 not synchronized"),
	TEXT(EL3HLT, "Level 3 halted"),
	TEXT(EL3RST, "Level 3 reset"),
	TEXT(ELNRNG, "Link number out of range"),
	TEXT(EUNATCH, "Protocol driver not attached"),
	TEXT(ENOCSI, "No CSI structure available"),
	TEXT(EL2HLT, "Level 2 halted"),
	TEXT(EBADE, "Invalid exchange"),
	TEXT(EBADR, "Invalid request descriptor"),
	TEXT(EXFULL, "Exchange full"),
	TEXT(ENOANO, "No anode"),
	TEXT(EBADRQC, "Invalid request code"),
	TEXT(EBADSLT, "Invalid slot"),
	TEXT(EBFONT, "Bad font file format"),
	TEXT(ENOSTR, "Device not a stream"),
	TEXT(ENODATA, "No data available"),
	TEXT(ETIME, "Timer expired"),
	TEXT(ENOSR, "Out of streams resources"),
	TEXT(ENONET, "Machine is not on the network"),
	TEXT(ENOPKG, "Package not installed"),
	TEXT(EREMOTE, "Object is remote"),
	TEXT(ENOLINK, "Link has been severed"),
	TEXT(EADV, "Advertise error"),
	TEXT(ESRMNT, "Srmount error"),
	TEXT(ECOMM, "Communication error on send"),
	TEXT(EPROTO, "Protocol error"),
	TEXT(EMULTIHOP, "Multihop attempted"),
	TEXT(EDOTDOT, "RFS specific error"),
	TEXT(EBADMSG, "Bad message"),
	TEXT(EOVERFLOW, "Value too large for defined data type"),
	TEXT(ENOTUNIQ, "Name not unique on network"),
	TEXT(EBADFD, "File descriptor in bad state"),
	TEXT(EREMCHG, "Remote address changed"),
	TEXT(ELIBACC, "Can not access a needed shared library"),
	TEXT(ELIBBAD, "Accessing a corrupted shared library"),
	TEXT(ELIBSCN, ".lib section in a.out corrupted"),
	TEXT(ELIBMAX, "Attempting to link in too many shared libraries"),
	TEXT(ELIBEXEC, "Cannot exec a shared library directly"),
	TEXT(EILSEQ, "Invalid or incomplete multibyte or wide character"),
	TEXT(ERESTART, "Interrupted system call should be restarted"),
	TEXT(ESTRPIPE, "Streams pipe error"),
	TEXT(EUSERS, "Too many users"),
	TEXT(ENOTSOCK, "Socket operation on non-socket"),
	TEXT(EDESTADDRREQ, "Destination address required"),
	TEXT(EMSGSIZE, "Message too long"),
	TEXT(EPROTOTYPE, "Protocol wrong type for socket"),
	TEXT(ENOPROTOOPT, "Protocol not available"),
	TEXT(EPROTONOSUPPORT, "Protocol not supported"),
	TEXT(ESOCKTNOSUPPORT, "Socket type not supported"),
	TEXT(EOPNOTSUPP, "Operation not supported"),
	TEXT(EPFNOSUPPORT, "Protocol family not supported"),
	TEXT(EAFNOSUPPORT, "Address family not supported by protocol"),
	TEXT(EADDRINUSE, "Address already in use"),
	TEXT(EADDRNOTAVAIL, "Cannot assign requested address"),
	TEXT(ENETDOWN, "Network is down"),
	TEXT(ENETUNREACH, "Network is unreachable"),
	TEXT(ENETRESET, "Network dropped connection on reset"),
	TEXT(ECONNABORTED, "Software caused connection abort"),
	TEXT(ECONNRESET, "Connection reset by peer"),
	TEXT(ENOBUFS, "No buffer space available"),
	TEXT(EISCONN, "Transport endpoint is already connected"),
	TEXT(ENOTCONN, "Transport endpoint is not connected"),
	TEXT(ESHUTDOWN, "Cannot send after transport endpoint shutdown"),
	TEXT(ETOOMANYREFS, "Too many references: cannot splice"),
	TEXT(ETIMEDOUT, "Connection timed out"),
	TEXT(ECONNREFUSED, "Connection refused"),
	TEXT(EHOSTDOWN, "Host is down"),
	TEXT(EHOSTUNREACH, "No route to host"),
	TEXT(EALREADY, "Operation already in progress"),
	TEXT(EINPROGRESS, "Operation now in progress"),
	TEXT(ESTALE, "Stale file handle"),
	TEXT(EUCLEAN, "Structure needs cleaning"),
	TEXT(ENOTNAM, "Not a XENIX named type file"),
	TEXT(ENAVAIL, "No XENIX semaphores available"),
	TEXT(EISNAM, "Is a named type file"),
	TEXT(EREMOTEIO, "Remote I/O error"),
	TEXT(EDQUOT, "Disk quota exceeded"),
	TEXT(ENOMEDIUM, "No medium found"),
	TEXT(EMEDIUMTYPE, "Wrong medium type"),
	TEXT(ECANCELED, "Operation canceled"),
	TEXT(ENOKEY, "Required key not available"),
	TEXT(EKEYEXPIRED, "Key has expired"),
	TEXT(EKEYREVOKED, "Key has been revoked"),
	TEXT(EKEYREJECTED, "Key was rejected by service"),
	TEXT(EOWNERDEAD, "Owner died"),
	TEXT(ENOTRECOVERABLE, "State not recoverable"),
	TEXT(ERFKILL, "Operation not possible due to RF-kill"),
	TEXT(EHWPOISON, "Memory page has hardware error"),
};

/* ENOTSUPP is not an errno of user space, but some drivers return it (include/linux/errno.h) */
enum { KERNEL_ENOTSUPP = 524 };

const char *errno_text(int code)
{
	static _Thread_local char unknown[24];
	unsigned int n = code < 0 ? 0U - (unsigned int)code : (unsigned int)code;

	if (n < ARRAY_LEN(texts) && texts[n][0])
		return texts[n];
	if (n == KERNEL_ENOTSUPP)
		return "Operation not supported (ENOTSUPP)";
	snprintf(unknown, sizeof(unknown), "errno %u", n);
	return unknown;
}
