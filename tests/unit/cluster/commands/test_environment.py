# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""``manta env``."""

import json
import subprocess

from cluster.commands.environment import collect, main, ray_variables


def test_rays_commands_show_the_token_and_find_the_cluster(tmp_path):
    environ = {"RAY_TMPDIR": str(tmp_path)}
    assert ray_variables(environ) == {"RAY_AUTH_MODE": "token"}
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray/ray_current_cluster").write_text("127.0.0.1:6379\n")
    assert ray_variables(environ)["RAY_ADDRESS"] == "127.0.0.1:6379"


def test_a_shell_takes_the_variables_and_the_report_is_comments(capsys):
    assert main([]) == 0
    script = capsys.readouterr().out + 'echo "$RAY_AUTH_MODE"'
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("token\n", "")


def test_the_report_names_variables_without_their_values(capsys):
    report = collect({"MANTA_API_KEY": "s3cret", "RAY_TMPDIR": "/t", "OTHER": "x"})
    assert report["variables"] == "MANTA_API_KEY, RAY_TMPDIR"
    assert "s3cret" not in json.dumps(report)
    assert "numpy" in report["packages"]
    assert collect({"KUBERNETES_SERVICE_HOST": "h"})["container"] == "yes"


def test_json_has_both(capsys):
    assert main(["--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == {"variables", "report"}
