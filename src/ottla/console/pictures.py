"""Pictures in SVG as files of their own: a page shows them as images, so nothing in them can run."""

from __future__ import annotations

from ottla.web.exchange import Response

_HEADERS = (
    # A picture has its styles in itself. Opened alone, it may run nothing and load nothing either.
    ("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox; frame-ancestors 'none'"),
    ("X-Content-Type-Options", "nosniff"),
    ("Cache-Control", "no-store"),
)


def picture(svg: bytes) -> Response:
    """The response that holds a picture."""
    return Response(svg, "image/svg+xml", 200, _HEADERS)
