# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A process of each node that has imported what others need and forks them.

The raylet starts a client (`client.c`, `client.py`) where it would start Python. The client hands
its command line, environment and descriptors to the fork server (`serving`), which forks; the child
becomes the process that was wanted (`child`). What a fork cannot give the client starts itself, and
everything where there is no fork server. `starting` is the side of `manta serve`, `joined` that of
`ray start`.
"""
