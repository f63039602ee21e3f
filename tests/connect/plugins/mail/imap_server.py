"""A small IMAP server in a thread: one mailbox, the commands that the source uses, faults on demand."""

from __future__ import annotations

import re
import socketserver
import threading
from contextlib import contextmanager


class Mailbox:
    """Messages by their UIDs, with flags."""

    def __init__(self, messages):
        self.messages = dict(enumerate(messages, 1))
        self.flags = {uid: set() for uid in self.messages}
        self.validity, self.down, self.port = 7, False, 0


class _Session(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True

    def handle(self):
        box = self.server.box
        self.say("* OK ready")
        for line in self.rfile:
            if box.down:
                return
            tag, command, *rest = line.decode().split()
            uid_command = rest.pop(0) if command.upper() == "UID" else ""
            answer = getattr(self, f"do_{(uid_command or command).lower()}")(box, rest)
            if answer is None:
                self.say(f"{tag} OK done")
            else:
                self.say(f"{tag} {answer}")

    def say(self, text):
        self.wfile.write(text.encode() + b"\r\n")

    def do_capability(self, box, rest):
        self.say("* CAPABILITY IMAP4rev1 UIDPLUS")

    def do_login(self, box, rest):
        return None if rest[1].strip('"') == "pw" else "NO wrong password"

    def do_select(self, box, rest):
        if rest[0] != '"INBOX"':
            return "NO no such mailbox"
        self.say(f"* {len(box.messages)} EXISTS")
        self.say(f"* OK [UIDVALIDITY {box.validity}] ok")
        return None

    do_examine = do_select

    def do_status(self, box, rest):
        self.say(f'* STATUS "INBOX" (UIDVALIDITY {box.validity})')

    def do_noop(self, box, rest):
        pass

    def do_search(self, box, rest):
        first = int(rest[1].split(":")[0])
        found = [uid for uid in box.messages if uid >= first] or list(box.messages)[-1:]  # 9:* includes the last one
        self.say("* SEARCH " + " ".join(str(uid) for uid in found))

    def do_fetch(self, box, rest):
        uid = int(rest[0])
        content = box.messages[uid]
        if "SIZE" in rest[1]:
            self.say(f"* {uid} FETCH (UID {uid} RFC822.SIZE {len(content)})")
        else:
            self.wfile.write(f"* {uid} FETCH (UID {uid} BODY[] {{{len(content)}}}\r\n".encode() + content + b")\r\n")

    def do_store(self, box, rest):
        for uid in rest[0].split(","):
            box.flags[int(uid)].update(re.findall(r"\\\w+", rest[2]))

    def do_expunge(self, box, rest):
        for uid in [uid for uid in box.messages if "\\Deleted" in box.flags[uid]]:
            del box.messages[uid]


@contextmanager
def serving_mailbox(messages):
    """A mailbox that is served for as long as the block lasts; `port` is where."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Session) as server:
        server.daemon_threads = True
        server.box = box = Mailbox(messages)
        box.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield box
        server.shutdown()
        thread.join()
