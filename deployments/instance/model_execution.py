# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Calls a model's code, of which nothing may get out but its outcomes."""

import logging
from collections.abc import Sequence

from backends.api.backend import ExecuteBatch, ModelInstance
from backends.api.errors import InternalError, TritonError, error_from_code
from deployments.instance.model_signals import MODEL_CODE
from deployments.instance.work import Work
from deployments.scheduling.shape_buckets import ShapeBuckets

_log = logging.getLogger(__name__)


def run_model(instance: ModelInstance, batch: ExecuteBatch, model_name: str) -> TritonError | None:
    """Execute a batch and return what it raised, which refers to the batch no more."""
    try:
        try:
            MODEL_CODE.is_running = True
            instance.execute(batch)
        finally:
            MODEL_CODE.is_running = False
    except TritonError as error:
        # A new error, because a traceback would keep the batch's inputs alive.
        return error_from_code(error.code, error.message)
    except BaseException as cause:
        # Also SystemExit: a model that calls sys.exit must not end the thread unanswered.
        _log.exception("model '%s' failed to execute", model_name)
        return InternalError(
            f"Failed to process the request(s) for model '{model_name}', message: "
            f"{type(cause).__name__}: {cause}"
        )
    return None


def pad(buckets: ShapeBuckets, works: Sequence[Work], model_name: str) -> TritonError | None:
    """Pad the inputs of a batch to their shape buckets and return what went wrong."""
    try:
        for work in works:
            work.lengths = buckets.pad(work.request)
    except Exception as error:
        _log.exception("inputs of model '%s' could not be padded", model_name)
        return InternalError(
            f"inputs of model '{model_name}' could not be padded to their shape buckets: "
            f"{type(error).__name__}: {error}"
        )
    return None


def close_model(instance: ModelInstance, model_name: str) -> None:
    """Close a model, whatever it raises."""
    try:
        try:
            MODEL_CODE.is_running = True
            instance.close()
        finally:
            MODEL_CODE.is_running = False
    except Exception:
        _log.exception("model '%s' failed to close", model_name)
