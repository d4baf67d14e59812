"""A repeat is answered only to a key that may do what the first one did."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import httpx


async def test_a_narrow_key_is_not_handed_the_reply_of_a_wider_one(served: Any) -> None:
    headers = {"Authorization": f"Bearer {served.owner_key}"}
    body = {"infer": "none", "text": "the crane stands idle", "scopes": [["yard"]]}
    named = {"Idempotency-Key": uuid4().hex}
    async with httpx.AsyncClient(base_url=served.base, headers=headers) as client:
        grants = {"memory:write": ["yard"]}
        narrow = (await client.post(served.base + "/keys", json={"grants": grants})).json()["key"]
        first = await client.post(served.base + "/facts", json=body, headers=named)
        again = await client.post(served.base + "/facts", json=body, headers=named)
        assert first.json() == again.json()
        other = await client.post(
            served.base + "/facts", json=body, headers=named | {"Authorization": f"Bearer {narrow}"}
        )
    assert other.status_code == 200
    assert other.json()["turnId"] != first.json()["turnId"]


async def test_a_secret_is_never_kept_for_a_repeat(served: Any) -> None:
    headers = {"Authorization": f"Bearer {served.owner_key}", "Idempotency-Key": uuid4().hex}
    async with httpx.AsyncClient(base_url=served.base, headers=headers) as client:
        name = uuid4().hex
        made = await client.post(served.base + "/keys", json={"name": name})
        assert made.status_code == 201
        again = await client.post(served.base + "/keys", json={"name": name})
    assert again.status_code == 409
    assert "key" not in again.json()
