# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What to do about the complaints of a load, and which field each is about. A table."""

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Remedy:
    """A row.

    Attributes:
        pattern: What complaints it is for.
        fix: What to do.
        field: The config's fields it is about, those before others, with spaces between; empty when
            it is about no field.
    """

    pattern: re.Pattern[str]
    fix: str
    field: str = ""


def _rows(*rows: tuple[str, str, str]) -> tuple[Remedy, ...]:
    return tuple(Remedy(re.compile(pattern), fix, field) for pattern, field, fix in rows)


_NO_GPU = "use KIND_CPU, or load it where there are GPUs"
_BATCHING = "set max_batch_size to 0, or export the model with a batch dimension that varies"

# Ordered: the first row whose pattern occurs wins.
_REMEDIES: Final = _rows(
    # They say it themselves.
    (
        r"; (sign|upload) the model|sign and upload|--trusted-keys|upload the files|remove one of"
        r"|is not set where the server runs",
        "model_repository_agents",
        "",
    ),
    (
        r"Mismatched \w+ hash",
        "model_repository_agents",
        "copy the file anew, or correct the digest",
    ),
    (
        r"failed to parse key|Unsupported checksum",
        "model_repository_agents",
        "write MD5:<file> or SHA256:<file>",
    ),
    (r"did you mean", "", "write it so"),
    (r"failed to read text proto", "", "correct the text there"),
    (
        r"failed to open text file",
        "label_filename",
        "make the file readable, or remove what names it",
    ),
    (r"is larger than the \d+ bytes allowed", "", "make the file smaller"),
    (r"Could not determine backend", "", "set 'backend' in config.pbtxt"),
    (r"unexpected platform type", "platform", "set 'backend' to the backend's name"),
    (r"Ensemble model .* must have platform", "backend", "remove 'backend'"),
    (r"unexpected 'platform' and 'backend' pair", "platform", "remove 'platform'"),
    (r"'max_batch_size' must be", "max_batch_size", "set it to 0 or more"),
    (r"directory name must equal", "name", "remove 'name', or rename the directory"),
    (r"sequence batching preferred batch size", "preferred_batch_size", "use 1 to max_batch_size"),
    (r"preferred size must", "preferred_batch_size", "use sizes from 1 to max_batch_size"),
    (
        r"default priority level",
        "default_priority_level priority_levels",
        "set it from 1 to priority_levels",
    ),
    (r"priority queue policy must", "priority_queue_policy", "use keys from 1 to priority_levels"),
    (r"'preserve_ordering' is true", "preserve_ordering", "remove preserve_ordering"),
    (r"decoupled.*[Rr]esponse [Cc]ache|[Rr]esponse [Cc]ache", "response_cache", "remove it"),
    (r"ensemble scheduling cannot be set", "platform", 'set platform to "ensemble"'),
    (r"ensemble scheduling must be set", "platform", "add ensemble_scheduling"),
    (r"metric", "model_metrics", "complete the metric"),
    (r"must specify 'name'", "name", "give the tensor a name"),
    (r"must specify 'data_type'", "data_type", "add data_type, such as TYPE_FP32"),
    (r"must specify 'dims'", "dims", "add dims, without the batch dimension"),
    (r"empty reshape", "reshape", "remove reshape, or set max_batch_size above 0"),
    (r"reshape dimensions must", "reshape", "use 1 or more, or -1 for what varies"),
    (r"dimension must be integer", "dims", "use 1 or more, or -1 for what varies"),
    (r"dims and reshape", "reshape", "give both the same number of elements"),
    (r"NHWC/NCHW require", "format", "give it 3 dims, or remove format"),
    (r"hape tensors are only", "is_shape_tensor", "remove is_shape_tensor"),
    (r"Non-linear IO", "is_non_linear_format_io", "remove is_non_linear_format_io"),
    (r"batch input", "batch_input", "correct the batch_input"),
    (r"batch output", "batch_output", "correct the batch_output"),
    (r"unknown source input", "source_input", "name an input of this config"),
    (r"target output name", "target_name", "name each output once"),
    (r"kind KIND_GPU|GPUs with at least|invalid or unsupported gpu", "instance_group", _NO_GPU),
    (r"specifies one or more GPUs", "gpus", "remove gpus, or use KIND_GPU"),
    (r"profile", "profile", "remove profile"),
    (
        r"sequence batching (control|must|specifies)|CONTROL_SEQUENCE",
        "control_input",
        "correct the control_input",
    ),
    (r"[Ii]nitial.state", "initial_state", "correct the initial_state"),
    (r"[Ss]tate input name|growable", "state", "correct the state"),
    (r"minimum slot utilization", "minimum_slot_utilization", "set it from 0 to 1"),
    (r"instance group should not", "instance_group", "remove instance_group"),
    (r"optimization should not", "optimization", "remove optimization"),
    (r"model_warmup can not", "model_warmup", "remove model_warmup"),
    (r"must specify 'step'", "ensemble_scheduling", "add a step"),
    (r"must specify '(model_name|input_map|output_map)'", "step", "add it to the step"),
    (r"only once for ensemble", "output_map", "give each output a tensor of its own"),
    (r"for ensemble .* is not used|is unused in ensemble", "", "map it in a step, or remove it"),
    (r"is not written", "", "map an output of a step to it"),
    (
        r"mapping to non-existing input|mapped from non-existing output",
        "",
        "use the names of the model's own tensors as keys",
    ),
    (r"is not mapped to any", "input_map", "map it in the step's input_map"),
    (r"inconsistent (data type|shape)", "", "make the tensors of both models agree"),
    (r"allows maximum batch size", "max_batch_size", "lower the ensemble's max_batch_size"),
    (r"circular dependency", "model_name", "take a step out of the circle"),
    (r"required version \d+ is not loaded", "model_version", "use -1, or add the version"),
    (r"which has no loaded version", "model_name", "correct that model first"),
    (r"has a condition|condition on", "parameters", "correct the condition"),
    (r"not unique across all", "", "keep it in one of the repositories"),
    (r"model not found in any", "", "add it to the repository"),
    (
        r"at least one version must be",
        "version_policy",
        "add a directory named after its version, such as 1, or change version_policy",
    ),
    (r"outside model directory", "label_filename", "name a file in the model's directory"),
    (r"levels or \d+ entries", "", "remove the link"),
    (
        r"unable to find backend library|Python backend based backend",
        "backend",
        "correct 'backend', or add the library",
    ),
    (r"escapes backend directory", "runtime", "name a file, not a path"),
    (r"default_model_filename", "default_model_filename", "use a name in the version's directory"),
    (r"op_library_filename", "op_library_filename", "add the file, or correct its name"),
    (
        r"unable to find '|model file not found|[Cc]ould not open model file",
        "",
        "add the file, or name it in default_model_filename",
    ),
    (r"must have a name that ends in", "default_model_filename", "rename the file"),
    (r"triton_python_backend_stub", "", "remove it"),
    (r"SyntaxError", "", "correct the source"),
    (r"has no attribute 'TritonPythonModel'", "", "define class TritonPythonModel"),
    (r"does not implement `execute`", "", "define execute(self, requests)"),
    (r"cannot be read as an ONNX model", "", "export or copy it anew"),
    (r"has weights in the file", "", "copy both files"),
    (r"Accelerator", "execution_accelerators", "remove it"),
    (r"optimization graph level", "level", "use -1, 0, 1 or 2"),
    (r"execution_mode", "", "use 0 or 1"),
    (r"repository agent", "model_repository_agents", "correct its name, or install its package"),
    (r"histogram", "model_metrics", "complete the metric"),
    (r"model does not support batching", "max_batch_size", _BATCHING),
    (r"configuration expects \d+ inputs", "input", "list the model's inputs, or none at all"),
    (r"unexpected inference (input|output)", "", "use the model's own name"),
    (r"configuration expects datatype", "data_type", "use the model's datatype"),
    (r"unsupported datatype", "data_type", "use another datatype"),
    (r"should only provide 1", "dims", "use dims [ 1 ]"),
    (r"for the model to support batching", "max_batch_size", _BATCHING),
    (r"the model expects \d+ dimensions", "dims", "use the model's dims"),
    (r"for ragged input", "allow_ragged_batch", "remove allow_ragged_batch"),
    (r"optional input", "optional", "remove optional"),
    (r"identity model .* inputs and", "input", "give each input one output"),
    (r"they must be equal", "data_type", "give both the same data_type"),
    (r"warmup", "model_warmup", "correct the sample"),
    (r"shape_buckets|pad_value|unpad", "parameters", "correct the parameter"),
    (r"parameter", "parameters", "correct the parameter"),
    (r"UTF-8", "", "write it in UTF-8"),
)
_OTHERWISE: Final = Remedy(re.compile(""), "correct it there")


def remedy_of(complaint: str) -> Remedy:
    """Return what to do about a complaint of a load."""
    return next((row for row in _REMEDIES if row.pattern.search(complaint)), _OTHERWISE)
