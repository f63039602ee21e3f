"""Pages of HTML from templates: Jinja2 writes every value as text, so that a record is never taken for markup."""

from __future__ import annotations

from ottla.web.exchange import Response

HTML = "text/html; charset=utf-8"
_HEADERS = (
    ("Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cache-Control", "no-store"),
)


class Pages:
    """Renders the templates in the folder `templates` of a package. A name that a template misses is an error."""

    def __init__(self, package: str) -> None:
        from jinja2 import Environment, PackageLoader, StrictUndefined

        loader = PackageLoader(package)
        self._templates = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)

    def page(self, template: str, *, status: int = 200, **values: object) -> Response:
        """A page. Scripts and styles come from files alone: a page with either in its text loses it."""
        return Response(self._templates.get_template(template).render(values).encode(), HTML, status, _HEADERS)
