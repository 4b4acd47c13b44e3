# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import pytest

from backends.llm.openvino.properties import device_properties
from tests.support.models import context_of

THREADS = "INFERENCE_NUM_THREADS"
SET = f'parameters {{ key: "{THREADS}" value {{ string_value: "1" }} }}'


@pytest.mark.parametrize(("config", "given", "used"), [("", 1, 2), ("", 3, 3), (SET, 3, 1)])
def test_an_instance_computes_with_two_threads_or_more_unless_told_otherwise(
    tmp_path, config, given, used
):
    context = context_of(tmp_path, f'name: "m" backend: "llm" {config}', thread_count=given)
    assert device_properties(context)[THREADS] == used
