# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Pages of listings in XML.

The clouds' own clients make objects of many fields from each entry, which takes them 80 to 300 us:
minutes for a repository of a million files. What a poll needs of an entry is read here in 5.
"""

import base64
from urllib.parse import unquote, unquote_plus
from xml.etree.ElementTree import XML, Element, ParseError, tostring

from cluster.repository.stores.contracts import StoredFile


def read_s3(body: bytes) -> tuple[tuple[StoredFile, ...], bytes] | None:
    """Read an answer to ListObjectsV2.

    Returns:
        Its files, and the answer without them; None when it is no listing.
    """
    root = _parse(body)
    # Some stores name no namespace.
    space = "" if root is None else root.tag[: root.tag.rfind("}") + 1]
    if root is None or root.tag != f"{space}ListBucketResult":
        return None
    is_quoted = root.findtext(f"{space}EncodingType") == "url"
    names = [f"{space}{name}" for name in ("Key", "Size", "ETag")]
    files = []
    for entry in root.findall(f"{space}Contents"):
        key, size, etag = (entry.findtext(name) or "" for name in names)
        key = unquote_plus(key) if is_quoted else key
        files.append(StoredFile(key, int(size), etag.strip('"')))
        root.remove(entry)
    return tuple(files), tostring(root)


def read_azure(body: bytes) -> tuple[tuple[StoredFile, ...], str] | None:
    """Read an answer to List Blobs.

    Returns:
        Its files, and the marker of the next page, empty after the last; None when it is no
        listing.
    """
    root = _parse(body)
    if root is None or root.tag != "EnumerationResults":
        return None
    files = tuple(map(_blob, root.iterfind("Blobs/Blob")))
    return files, root.findtext("NextMarker") or ""


def _blob(entry: Element) -> StoredFile:
    name, about = entry.find("Name"), entry.find("Properties")
    if name is None or about is None:
        raise ValueError("an entry of the listing has no Name or no Properties")
    path = name.text or ""
    # Characters that XML cannot hold.
    if name.get("Encoded") == "true":
        path = unquote(path)
    size, etag, md5 = (
        about.findtext(each) or "" for each in ("Content-Length", "Etag", "Content-MD5")
    )
    return StoredFile(path, int(size or 0), etag.strip('"'), base64.b64decode(md5).hex())


def _parse(body: bytes) -> Element | None:
    # As the clouds' clients do; expat itself bounds what entities grow to.
    try:
        return XML(body)
    except ParseError:
        return None
