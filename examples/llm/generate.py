"""Generates text with a small decoder, in eager mode and compiled by graphwright; prints tokens per second.

    python examples/llm/generate.py [--prompt TEXT] [--tokens 200] [--batch 1] [--weights int8] [--steps 300]

Nothing is downloaded: the tokenizer (byte-level BPE) and the model (of the Llama family) are trained on the
help texts of Python, in half a minute. Needs the packages transformers and tokenizers.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pydoc_data.topics import topics
from typing import Any

import torch
from tokenizers import ByteLevelBPETokenizer
from transformers import LlamaConfig, LlamaForCausalLM

VOCABULARY, WINDOW, ROWS = 1000, 64, 8
"""Vocabulary size, sequence length and batch size of the training."""


def learn_tokens(text: str) -> ByteLevelBPETokenizer:
    """A tokenizer trained on ``text``."""
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator([text], vocab_size=VOCABULARY, show_progress=False)
    return tokenizer


def learn(tokens: torch.Tensor, steps: int) -> LlamaForCausalLM:
    """A decoder trained on ``steps`` batches of ``tokens``."""
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, intermediate_size=352, tie_word_embeddings=True, bos_token_id=0,
        eos_token_id=None,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(steps):
        starts = torch.randint(len(tokens) - WINDOW, (ROWS,))
        rows = torch.stack([tokens[start : start + WINDOW] for start in starts])
        optimizer.zero_grad()
        model(input_ids=rows, labels=rows).loss.backward()
        optimizer.step()
    return model.eval()


def generate(model: LlamaForCausalLM, prompt: torch.Tensor, count: int) -> tuple[torch.Tensor, float]:
    """The prompt and ``count`` greedily chosen tokens; tokens per second over all rows."""
    start = time.perf_counter()
    with torch.no_grad():
        made = model.generate(
            prompt,
            max_new_tokens=count,
            do_sample=False,
            repetition_penalty=1.3,
            pad_token_id=0,
            cache_implementation="static",
        )
    return made, made[:, prompt.shape[1] :].numel() / (time.perf_counter() - start)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, generate twice in eager mode and twice compiled, and print the second run of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--prompt", default="The for statement is used to")
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--weights", choices=["f32", "int8", "int4"], default="f32")
    parser.add_argument("--steps", type=int, default=300)
    given = parser.parse_args(arguments)
    torch.manual_seed(0)
    text = "\n".join(topics.values())
    tokenizer = learn_tokens(text)
    model = learn(torch.tensor(tokenizer.encode(text).ids), given.steps)
    prompt = torch.tensor([tokenizer.encode(given.prompt).ids] * given.batch)
    options: dict[str, Any] = {} if given.weights == "f32" else {"weights": given.weights}
    compiled = torch.compile(model.forward, backend="graphwright", options=options)
    for name, forward in {"eager": model.forward, "graphwright": compiled}.items():
        model.forward = forward  # type: ignore[method-assign]  # what generate() calls
        generate(model, prompt, given.tokens)
        made, speed = generate(model, prompt, given.tokens)
        print(f"{name}: {speed:.0f} tokens/s\n{tokenizer.decode(made[0].tolist())}\n")


if __name__ == "__main__":
    main()
