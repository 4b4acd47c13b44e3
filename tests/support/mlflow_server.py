# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A tracking server of MLflow on loopback: its model registry and its artifact proxy."""

import json
from base64 import b64encode
from dataclasses import dataclass, field
from urllib.parse import parse_qs, unquote, urlsplit

from tests.support.loopback_server import LoopbackServer, QuietHandler

PAGE = 2


@dataclass(eq=False)
class MlflowServer(LoopbackServer):
    """The server.

    Attributes:
        user: Name and password that requests need; empty for none.
        requests: Paths that came.
        versions: Rows of registered versions, by name and number.
        aliases: Numbers by name and alias.
        artifacts: Contents by their paths behind the proxy.
        uris: Where the artifacts of a version are, by name and number.
    """

    user: str = ""
    requests: list[str] = field(default_factory=list)
    versions: dict[tuple[str, int], dict[str, object]] = field(default_factory=dict)
    aliases: dict[tuple[str, str], int] = field(default_factory=dict)
    artifacts: dict[str, bytes] = field(default_factory=dict)
    uris: dict[tuple[str, int], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__(_Handler)

    @property
    def environ(self) -> dict[str, str]:
        user, _, password = self.user.partition(":")
        names = {"MLFLOW_TRACKING_USERNAME": user, "MLFLOW_TRACKING_PASSWORD": password}
        return names if user else {}

    def register(
        self,
        name: str,
        number: int,
        files: dict[str, bytes],
        *,
        status: str = "READY",
        uri: str = "",
    ) -> None:
        path = f"1/models/{name}-{number}/artifacts"
        self.artifacts |= {f"{path}/{each}": body for each, body in files.items()}
        self.uris[name, number] = uri or f"mlflow-artifacts:/{path}"
        self.versions[name, number] = {
            "name": name,
            "version": str(number),
            "creation_timestamp": 1000 + number,
            "last_updated_timestamp": 1000 + number,
            "source": f"models:/m-{name}-{number}",
            "status": status,
        }


class _Handler(QuietHandler):
    protocol_version = "HTTP/1.1"
    here: MlflowServer

    def respond(self) -> None:
        at = urlsplit(self.path)
        self.here.requests.append(self.path)
        given = {key: values[0] for key, values in parse_qs(at.query).items()}
        user = self.here.user
        wanted = f"Basic {b64encode(user.encode()).decode()}" if user else None
        if self.headers.get("Authorization") != wanted:
            self.answer(401, b"You are not authenticated.")
            return
        path = at.path.removeprefix("/api/2.0/")
        rest = _METHODS.get(path)
        if rest is not None:
            said = rest(self.here, given)
            status = 404 if "error_code" in said else 200
            self.answer(status, json.dumps(said).encode())
        elif path == "mlflow-artifacts/artifacts":
            self.answer(200, json.dumps({"files": _listed(self.here, given["path"])}).encode())
        else:
            self._download(unquote(path.removeprefix("mlflow-artifacts/artifacts/")))

    def _download(self, path: str) -> None:
        """Send all of it, without its length, as MLflow does."""
        body = self.here.artifacts.get(path)
        if body is None:
            self.answer(404, b'{"error_code": "RESOURCE_DOES_NOT_EXIST"}')
            return
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for chunk in (body[: len(body) // 2], body[len(body) // 2 :]):
            if chunk:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        self.wfile.write(b"0\r\n\r\n")


def _listed(server: MlflowServer, folder: str) -> list[dict[str, object]]:
    below = {
        path.removeprefix(f"{folder}/"): body
        for path, body in server.artifacts.items()
        if path.startswith(f"{folder}/")
    }
    folders = {path.partition("/")[0] for path in below if "/" in path}
    rows: list[dict[str, object]] = [{"path": each, "is_dir": True} for each in sorted(folders)]
    return rows + [
        {"path": path, "is_dir": False, "file_size": str(len(body))}
        for path, body in sorted(below.items())
        if "/" not in path
    ]


def _row(server: MlflowServer, name: str, number: int) -> dict[str, object]:
    row = server.versions.get((name, number))
    missing: dict[str, object] = {
        "error_code": "RESOURCE_DOES_NOT_EXIST",
        "message": "no such version",
    }
    return missing if row is None else {"model_version": row}


def _get(server: MlflowServer, given: dict[str, str]) -> dict[str, object]:
    return _row(server, given["name"], int(given["version"]))


def _alias(server: MlflowServer, given: dict[str, str]) -> dict[str, object]:
    return _row(server, given["name"], server.aliases.get((given["name"], given["alias"]), 0))


def _uri(server: MlflowServer, given: dict[str, str]) -> dict[str, object]:
    return {"artifact_uri": server.uris[given["name"], int(given["version"])]}


def _search(server: MlflowServer, given: dict[str, str]) -> dict[str, object]:
    name = given["filter"].removeprefix("name=")[1:-1]
    rows = [row for (of, _), row in sorted(server.versions.items()) if of == name]
    begin = int(given.get("page_token", "0"))
    said: dict[str, object] = {"model_versions": rows[begin : begin + PAGE]}
    if begin + PAGE < len(rows):
        said["next_page_token"] = str(begin + PAGE)
    return said


_METHODS = {
    "mlflow/model-versions/get": _get,
    "mlflow/model-versions/get-download-uri": _uri,
    "mlflow/model-versions/search": _search,
    "mlflow/registered-models/alias": _alias,
}
