# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import pytest

from backends.api.model_config import ModelConfig
from backends.config.pbtxt import parse_pbtxt
from cluster.repository.agents.policy import AgentPolicy
from deployments.model_files.contracts import AgentCall, ModelFile, ModelFiles

SIGNED = AgentPolicy(require_signed=True, trusted_keys="/keys")
VERIFY = AgentCall("verify", (("keys", "/keys"),))


def config(*names: str) -> ModelConfig:
    agents = ", ".join(f'{{ name: "{name}" }}' for name in names)
    return parse_pbtxt(f"model_repository_agents {{ agents [ {agents} ] }}", "config.pbtxt")


def calls(policy: AgentPolicy, *names: str, has_manifest: bool = False) -> list[str]:
    return [call.name for call in policy.calls_of(config(*names), has_manifest=has_manifest)]


def test_agents_run_in_the_order_of_the_config():
    assert calls(AgentPolicy(), "unpack", "checksum", "unpack") == ["unpack", "checksum", "unpack"]


def test_parameters_are_those_of_the_config():
    text = (
        'model_repository_agents { agents [ { name: "checksum" '
        'parameters [ { key: "b" value: "2" }, { key: "a" value: "1" } ] } ] }'
    )
    parsed = parse_pbtxt(text, "config.pbtxt")
    (call,) = AgentPolicy().calls_of(parsed, has_manifest=False)
    assert call == AgentCall("checksum", (("a", "1"), ("b", "2")))


@pytest.mark.parametrize("given", [None, ModelConfig("m")])
def test_a_model_without_agents_has_none(given: ModelConfig | None):
    assert AgentPolicy().calls_of(given, has_manifest=False) == ()


def test_a_manifest_is_verified_first_unless_the_config_says_so_itself():
    assert calls(AgentPolicy(), "decrypt", has_manifest=True) == ["manifest", "decrypt"]
    assert calls(AgentPolicy(), "verify", has_manifest=True) == ["verify"]
    assert calls(AgentPolicy(), "unpack", "manifest", has_manifest=True) == ["unpack", "manifest"]


@pytest.mark.parametrize("has_manifest", [True, False])
def test_signatures_are_verified_of_every_model_when_they_are_required(*, has_manifest: bool):
    for given in (None, ModelConfig("m"), config("decrypt"), config("verify", "decrypt")):
        assert SIGNED.calls_of(given, has_manifest=has_manifest)[0] == VERIFY
    assert calls(SIGNED, "verify", "decrypt", has_manifest=has_manifest) == ["verify", "decrypt"]


def test_keys_that_a_config_names_do_not_replace_those_the_server_trusts():
    text = (
        'model_repository_agents { agents [ { name: "verify" '
        'parameters [ { key: "keys" value: "/mine" } ] } ] }'
    )
    found = SIGNED.calls_of(parse_pbtxt(text, "config.pbtxt"), has_manifest=True)
    assert found == (VERIFY, AgentCall("verify", (("keys", "/mine"),)))


def test_the_keys_the_server_trusts_are_the_default_of_verify():
    policy = AgentPolicy(trusted_keys="/keys")
    assert policy.calls_of(config("verify"), has_manifest=False) == (VERIFY,)


def files(*paths: str, digested: tuple[str, ...] = ()) -> ModelFiles:
    digest = "0" * 64
    listed = (ModelFile(path, 1, "e", digest if path in digested else "") for path in paths)
    return ModelFiles("s3://bucket/m", tuple(listed))


@pytest.mark.parametrize(
    ("paths", "digested", "expected"),
    [
        (("1/model.onnx",), (), []),
        (("1/manifest.json", "1/manifest.sig", "1/model.onnx"), ("1/model.onnx",), []),
        (("1/manifest.json", "1/model.onnx", "1/more"), ("1/model.onnx",), ["manifest"]),
        (("1/model.onnx", "config.pbtxt", "manifest.json"), (), ["manifest"]),
    ],
)
def test_a_manifest_is_compared_by_an_agent_where_the_digests_do_not_tell_all(
    paths: tuple[str, ...], digested: tuple[str, ...], expected: list[str]
):
    calls = AgentPolicy().calls_of_version(None, files(*paths, digested=digested), 1)
    assert [call.name for call in calls] == expected


def test_signatures_of_a_version_are_verified_when_they_are_required():
    assert SIGNED.calls_of_version(None, files("1/model.onnx"), 1) == (VERIFY,)


def test_a_version_is_asked_for_its_own_checksums_and_those_of_shared_files():
    keys = ("MD5:1/model.onnx", "MD5:2/model.onnx", "SHA256:labels.txt")
    parameters = " ".join(f'parameters {{ key: "{key}" value: "0" }}' for key in keys)
    text = f'model_repository_agents {{ agents [ {{ name: "checksum" {parameters} }} ] }}'
    parsed = parse_pbtxt(text, "config.pbtxt")
    (call,) = AgentPolicy().calls_of_version(parsed, files("2/model.onnx", "labels.txt"), 2)
    assert call == AgentCall("checksum", (("MD5:2/model.onnx", "0"), ("SHA256:labels.txt", "0")))
