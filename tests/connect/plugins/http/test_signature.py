"""Signatures of requests, by the examples of the services themselves."""

import base64
import hashlib
import hmac

import pytest

from ottla.connect.plugins.http.signature import FORMS, Form, refusal


def said(form, headers, body=b"Hello, World!", secrets=(b"It's a Secret to Everybody",), now_s=0.0):
    return refusal(form, secrets, headers, body, now_s=now_s, tolerance_s=300)


def test_githubs_own_example_is_trusted():
    given = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    assert said(FORMS["github"], {"x-hub-signature-256": given}) is None


def test_another_body_another_secret_and_no_signature_are_refused():
    headers = {"x-hub-signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"}
    assert said(FORMS["github"], headers, b"Hello, Moon!") == "the signature is of another secret or another body"
    assert said(FORMS["github"], headers, secrets=(b"other",)) is not None
    assert said(FORMS["github"], {}) == "there is no header x-hub-signature-256"
    assert said(FORMS["github"], {"x-hub-signature-256": "sha1=aa"}) is not None
    assert said(FORMS["github"], {"x-hub-signature-256": "sha256=zz"}) is not None


def test_the_secret_before_still_counts_while_it_is_changed():
    headers = {"x-hub-signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"}
    assert said(FORMS["github"], headers, secrets=(b"new", b"It's a Secret to Everybody")) is None


def stripe(now, *secrets):
    signed = [hmac.new(each, f"{now}.".encode() + b"Hello, World!", hashlib.sha256).hexdigest() for each in secrets]
    return {"stripe-signature": ",".join([f"t={now}", *(f"v1={each}" for each in signed), "v0=00"])}


def test_stripe_signs_the_time_and_may_send_several_signatures():
    assert said(FORMS["stripe"], stripe(1000, b"old", b"new"), secrets=(b"new",), now_s=1100) is None


def test_an_old_signature_is_refused():
    reason = said(FORMS["stripe"], stripe(1000, b"s"), secrets=(b"s",), now_s=1301)
    assert reason == "the signature is too old, or the clocks differ"
    assert (
        said(FORMS["stripe"], {"stripe-signature": "v1=00"}, now_s=0)
        == "there is no time in seconds beside the signature"
    )


def test_slacks_time_is_in_a_header_of_its_own():
    made = hmac.new(b"s", b"v0:77:x=1", hashlib.sha256).hexdigest()
    headers = {"x-slack-signature": f"v0={made}", "x-slack-request-timestamp": "77"}
    assert said(FORMS["slack"], headers, b"x=1", secrets=(b"s",), now_s=80) is None
    assert said(FORMS["slack"], headers | {"x-slack-request-timestamp": "78"}, b"x=1", secrets=(b"s",), now_s=80)


def test_shopify_signs_in_base64():
    made = base64.b64encode(hmac.new(b"s", b"{}", hashlib.sha256).digest()).decode()
    assert said(FORMS["shopify"], {"x-shopify-hmac-sha256": made}, b"{}", secrets=(b"s",)) is None


@pytest.mark.parametrize(
    ("template", "content", "sentence"),
    [
        ("sha256=", "${body}", r"has \$\{hex\} or \$\{base64\} once"),
        ("${hax}", "${body}", r"the template has \$\{hax\}"),
        ("${hex}", "${url}", r"the signed content has \$\{url\}"),
        ("${hex}", "x", r"the signed content has \$\{body\} once"),
        ("${hex}", "${timestamp}.${body}", "name its header"),
    ],
)
def test_a_form_that_cannot_be_used_is_refused(template, content, sentence):
    with pytest.raises(ValueError, match=sentence):
        Form("x", template, content)
