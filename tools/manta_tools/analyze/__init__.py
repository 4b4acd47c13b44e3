# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""``manta analyze``: searches for the configuration of models that serves a load best."""
