"""Errors of requests to the API server are translated to KubeError: any other error would end the operator."""

from __future__ import annotations

import json

import pytest

from kafkafeatures.kube.errors import RAISED, Unavailable, translated


@pytest.mark.parametrize("body", [b"<html>sign in</html>", b"", b"\xff\xfe"], ids=["HTML", "empty", "no UTF-8"])
def test_an_answer_that_is_no_json_makes_the_api_server_unavailable(body: bytes) -> None:
    with pytest.raises(RAISED) as raised:
        json.loads(body)
    error = translated(raised.value, "GET /apis")
    assert isinstance(error, Unavailable)
    assert str(error).startswith("GET /apis: the answer is not JSON")
