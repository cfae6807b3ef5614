"""The page of PyTorch's operators lists all that have an op or a composition."""

from docs.torch_operators import PAGE, filled


def test_the_list_of_operators_is_complete() -> None:
    text = PAGE.read_text()
    assert filled(text) == text, "python -m docs.torch_operators"
    assert "| `add` | `Tensor`, `Scalar` | `Add` |" in text
    assert "| `cummax` | `default` | a composition |" in text
