# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Model configuration: config.pbtxt read, viewed and normalised; step conditions."""
