# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What stands for Manta wherever it runs; installed, all other packages are in this one."""
