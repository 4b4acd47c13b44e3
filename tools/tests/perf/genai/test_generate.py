# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0

"""Triton's generate endpoints over the ingress's own HTTP, whose model returns its prompt."""

import json

import pytest

from manta_tools.perf.genai.command import profile
from manta_tools.perf.genai.parsing import parse_profile
from tests.support.http_plane import running


@pytest.mark.parametrize("more", [(), ("--streaming",)])
async def test_the_ingress_is_measured(tmp_path, more):
    names = ("--text-input-name", "INPUT0", "--text-output-name", "OUTPUT0")
    kind = ("-m", "id_bytes", "--endpoint-type", "generate", "--isl", "15")
    async with running() as server:
        url = ("-u", f"127.0.0.1:{server.port}", "--artifact-dir", str(tmp_path))
        options, passed = parse_profile([*kind, *names, *url, *more])
        assert await profile(options, passed) == 0
    (path,) = tmp_path.glob("*/profile_export_genai_perf.json")
    found = json.loads(path.read_text())
    assert found["request_count"]["avg"] == 10.0
    assert found["output_sequence_length"]["avg"] == found["input_sequence_length"]["avg"] == 15.0
    export = json.loads((path.parent / "profile_export.json").read_text())
    assert export["endpoint"] == f"v2/models/id_bytes/generate{'_stream' if more else ''}"
