"""Addresses of objects, such as s3://bucket/prefix or https://server/bucket/prefix, as users write
them in place of a path."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from fanstore.errors import UsageError

_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]*)://([^/]*)/?(.*)", re.DOTALL)
# Most keys: parts of ASCII that do not begin with a point.
_PART = r"[ !-,\-0-~][ !-.0-~]{0,254}"
_PLAIN = re.compile(rf"{_PART}(?:/{_PART})*")


@dataclass(frozen=True)
class Address:
    """The objects of a bucket whose keys begin with `prefix`, which is empty or ends with a slash.
    server: the URL of a server that anybody may read; "": that of the user's settings. scheme: of
    the address, s3 for https."""

    bucket: str
    prefix: str
    server: str = ""
    scheme: str = "s3"

    def __str__(self) -> str:
        return f"{self.server or self.scheme + ':/'}/{self.bucket}/{self.prefix}".rstrip("/")


def is_address(path: str) -> bool:
    """Returns whether a word is an address, not a path."""
    return _ADDRESS.fullmatch(path) is not None


def absolute(path: str) -> str:
    """Returns a path as an absolute one; an address as it is."""
    return path if is_address(path) else os.path.abspath(path)


def parse(text: str) -> Address:
    """Returns the parts of an address. Raises UsageError for one that cannot be read."""
    match = _ADDRESS.fullmatch(text)
    assert match is not None
    scheme, bucket, prefix = match.groups()
    server = ""
    if scheme in ("https", "http"):
        server = f"{scheme}://{bucket}"
        bucket, _, prefix = prefix.partition("/") if bucket else ("", "", "")
        scheme = "s3"
    elif scheme not in ("s3", "gs", "az"):
        known = "s3://, gs://, az:// and https://"
        raise UsageError(f"{text}: only {known} addresses are known, not {scheme}://")
    prefix = prefix.removesuffix("/")
    if not bucket:
        form = f"{server or scheme + ':/'}/BUCKET/PREFIX"
        raise UsageError(f"{text}: names no bucket: write {form}")
    if prefix and (why := why_no_path(prefix)):
        raise UsageError(f"{text}: the prefix {why}, so no paths can be made of its keys")
    return Address(bucket, prefix and prefix + "/", server, scheme)


def why_no_path(key: str) -> str:
    """Returns why a key is not the path of a file below a directory, or ""."""
    if _PLAIN.fullmatch(key):
        return ""
    if any(ord(c) < 32 or ord(c) == 127 for c in key):
        return "has a control character"
    parts = key.split("/")
    if not parts[-1]:
        return "ends with a slash"
    if not parts[0]:
        return "begins with a slash"
    if "" in parts:
        return "has an empty part"
    if "." in parts or ".." in parts:
        return 'has a part "." or ".."'
    if any(len(part.encode("utf-8", "surrogatepass")) > 255 for part in parts):
        return "has a part of more than 255 bytes"
    return ""
