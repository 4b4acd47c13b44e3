# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Pages of listings, as the clouds send them and as others do."""

import base64
from urllib.parse import quote, quote_plus
from xml.etree.ElementTree import XML
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.repository.stores.contracts import StoredFile
from cluster.repository.stores.listings import read_azure, read_s3

SPACE = ' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
# Of what XML 1.0 can hold.
KEYS = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"), min_size=1
)


def s3_page(keys: list[str], space: str = SPACE, *, is_quoted: bool = True) -> bytes:
    contents = "".join(
        f"<Contents><Key>{quote_plus(key) if is_quoted else escape(key)}</Key>"
        "<LastModified>2026-11-23T00:00:00.000Z</LastModified>"
        f"<ETag>&quot;{index:032x}&quot;</ETag><Size>{index}</Size>"
        "<Owner><ID>me</ID></Owner><StorageClass>STANDARD</StorageClass></Contents>"
        for index, key in enumerate(keys)
    )
    encoding = "<EncodingType>url</EncodingType>" if is_quoted else ""
    return (
        f'<?xml version="1.0" encoding="UTF-8"?><ListBucketResult{space}><Name>b</Name>{encoding}'
        f"{contents}<NextContinuationToken>next</NextContinuationToken></ListBucketResult>"
    ).encode()


@given(st.lists(KEYS, max_size=5), st.sampled_from([SPACE, ""]), st.booleans())
def test_a_page_of_s3_has_its_files_and_the_rest_stays(
    keys: list[str], space: str, is_quoted: bool
) -> None:
    found = read_s3(s3_page(keys, space, is_quoted=is_quoted))
    assert found is not None
    files, rest = found
    assert files == tuple(StoredFile(key, i, f"{i:032x}") for i, key in enumerate(keys))
    root = XML(rest)
    names = [each.tag.rpartition("}")[2] for each in root]
    assert names == ["Name", *["EncodingType"] * is_quoted, "NextContinuationToken"]
    assert root[-1].text == "next"


@pytest.mark.parametrize(
    "body", [b"", b"<Error><Code>SlowDown</Code></Error>", s3_page(["a"])[:-20], b"\0"]
)
def test_what_is_no_listing_is_left_to_the_clouds_client(body: bytes) -> None:
    assert read_s3(body) is None
    assert read_azure(body) is None


def azure_page(blobs: str, marker: str = "") -> bytes:
    return (
        '<?xml version="1.0" encoding="utf-8"?><EnumerationResults ContainerName="c">'
        f"<Prefix>m</Prefix><Blobs>{blobs}</Blobs><NextMarker>{marker}</NextMarker>"
        "</EnumerationResults>"
    ).encode()


def blob(name: str, md5: str = "") -> str:
    return (
        f"<Blob>{name}<Properties><Last-Modified>Mon</Last-Modified><Etag>0x8D</Etag>"
        f"<Content-Length>7</Content-Length><Content-MD5>{md5}</Content-MD5></Properties></Blob>"
    )


@given(st.lists(KEYS, max_size=5))
def test_a_page_of_azure_has_its_files(keys: list[str]) -> None:
    names = (f"<Name>{escape(key)}</Name>" for key in keys)
    found = read_azure(azure_page("".join(map(blob, names))))
    assert found == (tuple(StoredFile(key, 7, "0x8D") for key in keys), "")


def test_names_that_xml_cannot_hold_come_quoted_from_azure() -> None:
    quoted = quote("a\uffff/b")
    name = f'<Name Encoded="true">{quoted}</Name>'
    md5 = base64.b64encode(bytes(16)).decode()
    found = read_azure(azure_page(blob(name, md5), "2!next"))
    assert found == ((StoredFile("a\uffff/b", 7, "0x8D", "0" * 32),), "2!next")


def test_a_percent_sign_in_a_name_stays_what_it_is() -> None:
    found = read_azure(azure_page(blob("<Name>a%20b</Name>")))
    assert found is not None
    assert found[0][0].path == "a%20b"
    page = read_s3(s3_page(["a%20b"], is_quoted=False))
    assert page is not None
    assert page[0][0].path == "a%20b"
