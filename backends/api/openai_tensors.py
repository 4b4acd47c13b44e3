# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Names by which a model that speaks OpenAI's API is asked; see docs/openai.md."""

from typing import Final

# Parameter of the config: the routes that the model answers, with commas between.
ROUTES: Final = "openai.routes"
# Parameter of a request: its route, as "chat/completions".
ROUTE: Final = "openai_route"
# Input: the body as it came. Output: one JSON object. Both BYTES [1].
REQUEST: Final = "openai_request"
RESPONSE: Final = "openai_response"
