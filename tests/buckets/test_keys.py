"""A listing of a bucket is read as servers of several kinds write it."""

from __future__ import annotations

import pytest

from fanstore.buckets.address import parse, why_no_path
from fanstore.buckets.keys import _parsed
from fanstore.errors import UsageError

PAGE = """<ListBucketResult {space}>{encoding}<Contents><Key>p/{key}</Key><Size>3</Size>
<LastModified>2026-01-02T03:04:05.678Z</LastModified><ETag>&quot;x&quot;</ETag></Contents>
<CommonPrefixes><Prefix>p/{key}/</Prefix></CommonPrefixes><IsTruncated>{more}</IsTruncated>
<NextContinuationToken>a+b%20</NextContinuationToken></ListBucketResult>"""
AWS = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
URL = "<EncodingType>url</EncodingType>"


@pytest.mark.parametrize(
    ("space", "encoding", "key", "name"),
    [
        (AWS, URL, "a+b", "a b"),
        ("", URL, "a%2Bb%25%20c", "a+b% c"),
        (AWS, URL, "%C3%BC", "\u00fc"),
        (AWS, "", "a+b%20", "a+b%20"),
    ],
)
def test_keys_as_they_are(space: str, encoding: str, key: str, name: str) -> None:
    text = PAGE.format(space=space, encoding=encoding, key=key, more="true")
    page = _parsed(text.encode(), 2)
    assert [each.key for each in page.objects] == [name]
    assert page.prefixes == [name + "/"]
    assert page.next == "a+b%20"
    assert page.objects[0].mtime_ns == 1767323045_678_000_000
    assert _parsed(text.replace("true", "false").encode(), 2).next == ""


def test_what_is_no_path() -> None:
    bad = ("", "/a", "a//b", "a/", "./a", "a/..", "a\0", "\x7f", "n" * 256, "\u00fc" * 128)
    assert all(why_no_path(key) for key in bad)
    assert not any(map(why_no_path, ("a", "a/b", "...", "a b", "n" * 255, "\u00fc" * 127)))


def test_addresses() -> None:
    for text in ("s3://b/p", "s3://b/p/"):
        assert (parse(text).bucket, parse(text).prefix) == ("b", "p/")
        assert str(parse(text)) == "s3://b/p"
    assert str(parse("s3://b")) == str(parse("s3://b/")) == "s3://b"
    web = parse("https://host:80/b/p/q")
    assert (web.server, web.bucket, web.prefix) == ("https://host:80", "b", "p/q/")
    assert str(web) == "https://host:80/b/p/q"
    for text in ("https://host", "https://host/", "https:///b", "http://host/b//p"):
        with pytest.raises(UsageError):
            parse(text)
    for text in ("s3://b/a/../c", "s3://b//p", "s3://b/p//", "ftp://b/p", "s3://", "s3:///p"):
        with pytest.raises(UsageError):
            parse(text)
