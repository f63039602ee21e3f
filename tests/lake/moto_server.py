"""moto's server, with conditional puts one after the other, as in S3.

moto looks whether there is an object and then writes one: of two threads that look before either writes, both would be
told that theirs is the one.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

from moto.s3.responses import S3Response
from moto.server import main

_ONE_AT_A_TIME = threading.Lock()
_put_object = S3Response.put_object


def _put_alone(self: S3Response, *arguments: Any, **more: Any) -> Any:
    if "If-None-Match" not in self.headers and "If-Match" not in self.headers:
        return _put_object(self, *arguments, **more)
    with _ONE_AT_A_TIME:
        return _put_object(self, *arguments, **more)


if __name__ == "__main__":
    S3Response.put_object = _put_alone
    main(sys.argv[1:])
