# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Faults at random under mixed load."""

import os

# Ray forks to start a GCS again, while our clients' threads are inside gRPC: its handlers of forks
# then end the child before it is a GCS. They are read when gRPC is first used.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
