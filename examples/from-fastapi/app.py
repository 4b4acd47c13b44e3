# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Before: a function behind FastAPI, one call a request (`uvicorn app:app`)."""

from fastapi import FastAPI
from pydantic import BaseModel


class Flat(BaseModel):
    """What the caller sends."""

    area: float
    rooms: int


app = FastAPI()


@app.post("/rent")
def rent(flat: Flat) -> dict[str, float]:
    """Estimate the rent of a flat."""
    return {"rent": 200 + 11.5 * flat.area + 40 * flat.rooms}
