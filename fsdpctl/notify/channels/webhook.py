"""Post a notice to a URL."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request

from fsdpctl.contract.notify import Notice, Webhook
from fsdpctl.notify.channels.error import DeliveryError
from fsdpctl.notify.secrets import SecretError, hide, read_secret
from fsdpctl.notify.text import webhook_body

_MAY_PASS = (408, 425, 429)
"""Answers from 400 to 499 after which another try may succeed."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirected POST would become a GET, which reaches no one."""

    def redirect_request(self, *_: object) -> None:
        return None


def post(webhook: Webhook, notice: Notice, timeout_s: float) -> None:
    """Send it, through the proxy of the environment if there is one. Raise DeliveryError."""
    try:
        url = read_secret(webhook.url)
    except SecretError as error:
        raise DeliveryError(str(error), is_final=True) from None
    if not url.startswith(("http://", "https://")):
        raise DeliveryError("the URL does not begin with https:// or http://", is_final=True)
    try:
        request = urllib.request.Request(
            url,
            json.dumps(webhook_body(webhook.form, notice)).encode(),
            {"Content-Type": "application/json", "User-Agent": "fsdpctl"},
        )
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=timeout_s) as answer:
            answer.read(1)
    except urllib.error.HTTPError as error:
        with error:
            is_final = error.code < 500 and error.code not in _MAY_PASS
            text = f"the server answered {error.code} {error.reason}"
        raise DeliveryError(hide(text, url), is_final=is_final) from None
    except urllib.error.URLError as error:
        raise DeliveryError(hide(f"the server cannot be reached: {error.reason}", url)) from None
    except (OSError, http.client.HTTPException) as error:
        raise DeliveryError(hide(f"{type(error).__name__}: {error}", url)) from None
    except ValueError as error:
        raise DeliveryError(hide(f"the URL cannot be used: {error}", url), is_final=True) from None
