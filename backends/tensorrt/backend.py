# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The TensorRT backend.

Triton: tensorrt_backend/src/tensorrt.cc TRITONBACKEND_ModelInitialize, src/model_state.cc
ModelState::AutoCompleteConfig
"""

from backends.api.backend import Backend, LoadContext, ModelInstance
from backends.api.model_config import ModelConfig
from backends.tensorrt.auto_complete import completed
from backends.tensorrt.engine import read_engine
from backends.tensorrt.instance import TensorRTInstance
from backends.tensorrt.library import TensorRT, cuda_runtime
from backends.tensorrt.memory import Gpu
from backends.tensorrt.settings import (
    plan_path,
    profile_indices,
    read_settings,
    require_gpu,
)
from backends.tensorrt.validation import check_config


class TensorRTBackend(Backend):
    """Runs plans."""

    def auto_complete(self, context: LoadContext) -> ModelConfig:
        """Fill in tensors, batch size and dynamic batching from the plan.

        Raises:
            ModuleNotFoundError: TensorRT or cuda-python is not installed.
            UnavailableError: The plan is missing.
            InvalidArgumentError: The instance is not on a GPU, or a tensor of the config is not the
                plan's, or not of the kind it is marked as.
            InternalError: The plan is not for this version of TensorRT, or contradicts the config
                about batching.
            UnsupportedError: It has tensors of a datatype that V2 lacks.
        """
        require_gpu(context)
        library = TensorRT(context.backend_config)
        gpu = Gpu(cuda_runtime(), context.device_id)
        native = library.engine(plan_path(context, gpu.compute_capability))
        return completed(context.config, read_engine(library.module, native))

    def load(self, context: LoadContext) -> ModelInstance:
        """Deserialize the plan on the instance's GPU.

        Raises:
            ModuleNotFoundError: TensorRT or cuda-python is not installed.
            UnavailableError: The plan, or a plugin, is missing.
            InvalidArgumentError: The instance is not on a GPU, a setting is wrong, or config and
                plan contradict each other.
            InternalError: The plan is not for this version of TensorRT, or takes inputs that the
                config lacks.
            UnsupportedError: It has tensors of a datatype that V2 lacks, or is for several GPUs.
        """
        require_gpu(context)
        settings = read_settings(context)
        library = TensorRT(context.backend_config)
        gpu = Gpu(cuda_runtime(), context.device_id)
        native = library.engine(plan_path(context, gpu.compute_capability))
        engine = read_engine(library.module, native)
        profiles = profile_indices(context, len(engine.profiles))
        check_config(context.config, engine, profiles)
        gpu.open_stream(settings.priority)
        return TensorRTInstance(context, library.module, native, engine, gpu, settings, profiles)
