"""llama.cpp as a peer: a decoder layer as a GGUF file, in any of its formats of weights.

Needs the packages llama-cpp-python and gguf.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import llama_cpp as lib
import numpy as np
import torch

VOCABULARY = 32
"""As few as possible: the layer is what counts."""
FORMATS = {"f32": "F32", "bf16": "BF16", "int8": "Q8_0", "int4": "Q4_0"}


def write(
    file: Path, weights: Mapping[str, torch.Tensor], heads: int, groups: int, capacity: int, bits: str
) -> None:
    """A model of the architecture Qwen2 with one layer: ``weights`` by llama.cpp's names of them."""
    kind, (inner, hidden) = gguf.GGMLQuantizationType[FORMATS[bits]], weights["ffn_up.weight"].shape
    writer = gguf.GGUFWriter(file, "qwen2")
    writer.add_block_count(1)
    writer.add_context_length(capacity)
    writer.add_embedding_length(hidden)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_head_count_kv(groups)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(1e6)
    writer.add_vocab_size(VOCABULARY)
    writer.add_tokenizer_model("no_vocab")
    for name in ("token_embd.weight", "output.weight"):
        writer.add_tensor(name, np.zeros((VOCABULARY, hidden), np.float32))
    writer.add_tensor("output_norm.weight", np.ones(hidden, np.float32))
    for name, weight in weights.items():
        array = weight.detach().float().numpy()
        if array.ndim == 1:
            writer.add_tensor(f"blk.0.{name}", array)
        else:
            writer.add_tensor(f"blk.0.{name}", gguf.quantize(array, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class Llama:
    """A loaded model, which takes hidden states in place of tokens."""

    def __init__(self, file: Path, threads: int, capacity: int) -> None:
        lib.llama_backend_init()
        parameters = lib.llama_model_default_params()
        parameters.use_mmap = False  # weights are repacked for the CPU where that is faster
        self._model = lib.llama_model_load_from_file(str(file).encode(), parameters)
        if not self._model:
            raise RuntimeError(f"llama.cpp does not load {file}")
        context = lib.llama_context_default_params()
        context.n_ctx = context.n_batch = context.n_ubatch = capacity
        context.n_threads = context.n_threads_batch = threads
        context.type_k = context.type_v = lib.GGML_TYPE_F32
        context.embeddings, context.no_perf = True, True
        self._context = lib.llama_init_from_model(self._model, context)

    def __call__(self, x: np.ndarray[Any, Any], first: int) -> np.ndarray[Any, Any]:
        """The normed result of the last of x[n, hidden], which stand from position ``first`` on; what the
        cache held from there on is dropped.
        """
        lib.llama_memory_seq_rm(lib.llama_get_memory(self._context), 0, first, -1)
        count, hidden = x.shape
        batch = lib.llama_batch_init(count, hidden, 1)
        try:
            ctypes.memmove(batch.embd, np.ascontiguousarray(x, np.float32).ctypes.data, x.size * 4)
            batch.n_tokens = count
            for k in range(count):
                batch.pos[k], batch.n_seq_id[k], batch.seq_id[k][0] = first + k, 1, 0
                batch.logits[k] = k == count - 1
            if lib.llama_decode(self._context, batch):
                raise RuntimeError("llama_decode failed")
        finally:
            lib.llama_batch_free(batch)
        made = lib.llama_get_embeddings_ith(self._context, -1)
        return np.ctypeslib.as_array(made, (hidden,)).copy()
