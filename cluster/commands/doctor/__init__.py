# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""``manta doctor``: what leaves a running or planned server open, and how to close it."""
