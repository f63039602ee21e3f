"""`ssl.SSLContext`s from settings, and a context that follows its files."""

from __future__ import annotations

import contextlib
import os
import ssl
from collections.abc import Callable, Iterator
from hashlib import sha256

from ottla.tls.settings import TlsSettings
from ottla.tls.stores import Key, StoreUnreadable, names_revoked, pem_key, pem_trusted, read_key, read_trusted

TlsContext = ssl.SSLContext
"""For rooms without sockets, which hand a context on."""
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


class ServerContext(ssl.SSLContext):
    """The context of a listener, with the SHA-256 of the certificate that it shows."""

    certificate_hash = b""


def server_context(settings: TlsSettings) -> ServerContext:
    """The context of a listener; StoreUnreadable says what is missing or wrong."""
    if not settings.has_key:
        raise StoreUnreadable("a listener with TLS needs a key and a certificate: set ssl.keystore.location")
    context = ServerContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = _AUTH[settings.client_auth]
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    if settings.client_auth != "none" and trusted(settings) is None:
        raise StoreUnreadable(f"ssl.client.auth={settings.client_auth} needs certificates: set ssl.truststore.location")
    _fill(context, settings)
    return context


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """The context of a client: the system's trusted certificates where the settings name none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = bool(settings.endpoint_identification)
    context.verify_mode = ssl.CERT_REQUIRED
    if trusted(settings) is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    _fill(context, settings)
    return context


def trusted(settings: TlsSettings) -> str | None:
    """The certificates that the settings trust, as PEM; None where they name none."""
    if settings.truststore_certificates is not None:
        return pem_trusted(settings.truststore_certificates, "ssl.truststore.certificates")
    if settings.truststore_location is not None:
        return read_trusted(settings.truststore_location, settings.truststore_password)
    return None


def own_key(settings: TlsSettings) -> Key | None:
    """The key and chain of this side; None where the settings name none."""
    if settings.keystore_certificate_chain is not None:
        return pem_key(
            settings.keystore_key or "", settings.keystore_certificate_chain, settings.key_password, "ssl.keystore.key"
        )
    if settings.keystore_location is not None:
        return read_key(settings.keystore_location, settings.keystore_password, settings.key_password)
    return None


def _fill(context: ssl.SSLContext, settings: TlsSettings) -> None:
    versions = [_VERSIONS[each] for each in settings.enabled_protocols]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    older = [each for each in settings.cipher_suites if not each.startswith("TLS_AES") and "CHACHA20" not in each]
    if older:
        try:
            context.set_ciphers(":".join(_openssl_name(each) for each in older))
        except ssl.SSLError:
            raise StoreUnreadable(f"ssl.cipher.suites names none that is known: {', '.join(older)}") from None
    if (certificates := trusted(settings)) is not None:
        try:
            with _in_memory(certificates) as path:
                context.load_verify_locations(path)
        except ssl.SSLError as fault:
            raise StoreUnreadable(f"the trusted certificates cannot be read: {fault.reason}") from None
        if names_revoked(certificates):
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    if (key := own_key(settings)) is not None:
        _load(context, key)
        if isinstance(context, ServerContext):
            first = key.chain[: key.chain.index(ssl.PEM_FOOTER) + len(ssl.PEM_FOOTER)]
            context.certificate_hash = sha256(ssl.PEM_cert_to_DER_cert(first)).digest()


def _load(context: ssl.SSLContext, key: Key) -> None:
    """Python loads keys from files alone: these lie in memory for that moment."""
    try:
        with _in_memory(key.chain) as chain, _in_memory(key.key) as private:
            context.load_cert_chain(chain, private, password=lambda: key.password or "")
    except ssl.SSLError as fault:
        why = (
            "they do not belong together"
            if fault.reason == "KEY_VALUES_MISMATCH"
            else ("the key's password is another, or the key is damaged")
        )
        raise StoreUnreadable(f"the private key and its certificate cannot be used: {why}") from None


@contextlib.contextmanager
def _in_memory(text: str) -> Iterator[str]:
    descriptor = os.memfd_create("ottla-tls", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _openssl_name(java: str) -> str:
    """OpenSSL's name of a cipher suite in Java's words: TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384."""
    if "_WITH_" not in java:
        return java
    exchange, _, rest = java.removeprefix("TLS_").partition("_WITH_")
    rest = rest.replace("AES_128", "AES128").replace("AES_256", "AES256").replace("_POLY1305_SHA256", "_POLY1305")
    return f"{exchange}_{rest}".replace("RSA_AES", "AES", 1 if exchange == "RSA" else 0).replace("_", "-")


class FollowedContext:
    """A context made anew once its files have changed: new connections have it, the others go on with theirs.

    A file that cannot be read any more, or does not fit, leaves the old context in place; `complain` is told once.
    """

    def __init__(
        self, settings: TlsSettings, make: Callable[[TlsSettings], ssl.SSLContext], complain: Callable[[str], None]
    ) -> None:
        self._settings = settings
        self._make = make
        self._complain = complain
        self._seen = self._look()
        self.context = make(settings)

    def follow(self) -> bool:
        """Look at the files; True if there is a new context."""
        seen = self._look()
        if seen == self._seen:
            return False
        self._seen = seen
        try:
            self.context = self._make(self._settings)
        except StoreUnreadable as fault:
            self._complain(f"{fault}; the certificates read before stay in use")
            return False
        return True

    def _look(self) -> tuple[tuple[int, int, int], ...]:
        seen = []
        for path in self._settings.files:
            try:
                found = os.stat(path)
                seen.append((found.st_ino, found.st_mtime_ns, found.st_size))
            except OSError:
                seen.append((0, 0, 0))
        return tuple(seen)


def following_context(settings: TlsSettings, complain: Callable[[str], None]) -> ssl.SSLContext:
    """A listener's context for servers that take one for good: each handshake has the files as they are then."""
    followed = FollowedContext(settings, server_context, complain)
    first = followed.context

    def begun(connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        followed.follow()
        if followed.context is not first:
            connection.context = followed.context

    first.sni_callback = begun
    return first
