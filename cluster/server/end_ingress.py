# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Ends the ingress for an owner that is gone: what the controller keeps of it, and calls then.

The controller gets these functions with its owner, and lives without Serve, whose import takes a
second and 27 MB, until it calls one.
"""


def end_with_serve() -> None:
    """End the ingress as the owner would that has started Serve."""
    _end(and_serve=True)


def end_without_serve() -> None:
    """End the ingress as the owner would that has found Serve running."""
    _end(and_serve=False)


def _end(*, and_serve: bool) -> None:
    from cluster.server import serve_application  # noqa: PLC0415 - see above

    serve_application.delete(and_serve=and_serve)
