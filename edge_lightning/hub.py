"""The hub where there is no network: its libraries would ask five times for each file, half a minute, before they look at
what is on disk already."""

from __future__ import annotations

import socket
import urllib.request
from urllib.parse import urlparse


def look_on_disk_where_nothing_answers() -> None:
    """Have the hub's libraries look on disk alone if the hub's name leads nowhere; a proxy may know more, and is asked."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE or urllib.request.getproxies():
        return
    try:
        socket.getaddrinfo(urlparse(constants.ENDPOINT).hostname, 443)
    except OSError:
        constants.HF_HUB_OFFLINE = True
