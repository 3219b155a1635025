"""A mail server for the tests: keeps what it accepts as files, and refuses by the name of the recipient.

    server.py FOLDER USER PASSWORD OPEN STARTTLS IMPLICIT

OPEN, STARTTLS and IMPLICIT are ports of 127.0.0.1. The first knows neither TLS nor a login; the other two want both.

    refused@…     550 for the recipient         greylisted@…  451 the first time, then taken
    unwanted@…    554 for the content           full@…        452 for the content
    silent@…      takes the content and is never heard of again
    hangs-up@…    takes the content and closes the connection
    closing@…     421 for the recipient
"""

import asyncio
import itertools
import os
import ssl
import sys

from aiosmtpd.smtp import SMTP, AuthResult

folder, user, password = sys.argv[1:4]
# After a restart the letters go on where they were.
numbers = itertools.count(1 + sum(name.endswith(".eml") for name in os.listdir(folder)))
greylisted = set()


class Handler:
    async def handle_RCPT(self, server, session, envelope, address, options):
        name = address.split("@")[0]
        if name == "refused":
            return "550 5.1.1 no such mailbox"
        if name == "closing":
            return "421 4.3.2 closing"
        if name == "greylisted" and address not in greylisted:
            greylisted.add(address)
            return "451 4.7.1 greylisted, come back later"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        names = {address.split("@")[0] for address in envelope.rcpt_tos}
        if "silent" in names:
            await asyncio.Event().wait()
        if "hangs-up" in names:
            server.transport.close()
            return "250 OK"
        if "unwanted" in names:
            return "554 5.7.1 looks like spam"
        if "full" in names:
            return "452 4.3.1 disk full"
        login = getattr(session.auth_data, "login", b"") or b""
        head = [
            b"from " + envelope.mail_from.encode(),
            b"to " + " ".join(envelope.rcpt_tos).encode(),
            b"user " + login,
            b"tls " + (b"yes" if session.ssl else b"no"),
            b"",
            b"",
        ]
        # Whole or not at all, and there before it is called accepted.
        path = os.path.join(folder, f"{next(numbers):06}")
        with open(path + ".part", "wb") as file:
            file.write(b"\n".join(head) + envelope.original_content)
        os.rename(path + ".part", path + ".eml")
        return "250 OK"


class Login:
    """What a login was, so that a letter can tell whose it is."""

    def __init__(self, login):
        self.login = login


def authenticate(server, session, envelope, mechanism, data):
    is_right = data.login == user.encode() and data.password == password.encode()
    return AuthResult(success=is_right, handled=False, auth_data=Login(data.login) if is_right else None)


async def main():
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(os.path.join(folder, "certificate.pem"), os.path.join(folder, "key.pem"))
    loop = asyncio.get_running_loop()
    login = {"authenticator": authenticate, "auth_required": True}
    ways = [
        ({}, None),
        ({"tls_context": context, "require_starttls": True, **login}, None),
        # aiosmtpd knows of no TLS that it has not begun itself.
        ({"auth_require_tls": False, **login}, context),
    ]
    for (settings, implicit), port in zip(ways, sys.argv[4:7]):
        def protocol(settings=settings):
            return SMTP(Handler(), hostname="testbed", enable_SMTPUTF8=True, loop=loop, **settings)

        await loop.create_server(protocol, "127.0.0.1", int(port), ssl=implicit)
    await asyncio.Event().wait()


asyncio.run(main())
