"""Models of the package transformers, with random weights: name -> a model and its arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import transformers as hf
from torch import nn

Made = tuple[nn.Module, dict[str, Any]]

_SMALL = {
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128,
    "vocab_size": 100,
}  # fmt: skip


def _ids(rows: int = 2, columns: int = 16) -> torch.Tensor:
    return torch.randint(3, 100, (rows, columns))


def _image(size: int = 64) -> dict[str, Any]:
    return {"pixel_values": torch.randn(1, 3, size, size)}


def _text(cls: Any, config: Any, **more: Any) -> Callable[[], Made]:
    settings = {"use_cache": False} if "ForCausalLM" in cls.__name__ or "LMHead" in cls.__name__ else {}
    return lambda: (cls(config).eval(), {"input_ids": _ids(), **settings, **more})


def _seen(cls: Any, config: Any, size: int = 64) -> Callable[[], Made]:
    return lambda: (cls(config).eval(), _image(size))


def _pair(cls: Any, config: Any) -> Callable[[], Made]:
    """A model with an encoder and a decoder."""
    feeds = {"input_ids": _ids(1, 8), "decoder_input_ids": _ids(1, 8), "use_cache": False}
    return lambda: (cls(config).eval(), feeds)


def _heard(cls: Any, config: Any) -> Callable[[], Made]:
    return lambda: (cls(config).eval(), {"input_values": torch.randn(1, 4000)})


def _whisper() -> Made:
    config = hf.WhisperConfig(
        d_model=64, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=64, decoder_ffn_dim=64, vocab_size=100, max_source_positions=50, pad_token_id=0,
        bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    feeds = {"input_features": torch.randn(1, 80, 100), "decoder_input_ids": _ids(1, 8), "use_cache": False}
    return hf.WhisperModel(config).eval(), feeds


_GROUPED = {**_SMALL, "num_key_value_heads": 2}
_VISION = {key: value for key, value in _SMALL.items() if key != "vocab_size"}
_STAGES = {"hidden_sizes": [16, 32], "depths": [1, 1]}
_SPEECH = {**_VISION, "num_hidden_layers": 1, "conv_dim": [32] * 7}

TINY: Mapping[str, Callable[[], Made]] = {
    "albert": _text(hf.AlbertModel, hf.AlbertConfig(**_SMALL, embedding_size=32)),
    "bert": _text(hf.BertModel, hf.BertConfig(**_SMALL)),
    "bart": _pair(
        hf.BartModel,
        hf.BartConfig(
            d_model=64, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4,
            decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, vocab_size=100,
            pad_token_id=0, bos_token_id=1, eos_token_id=2,
        ),
    ),
    "beit": _seen(hf.BeitModel, hf.BeitConfig(**_VISION, image_size=32, patch_size=8), 32),
    "bloom": _text(hf.BloomForCausalLM, hf.BloomConfig(hidden_size=64, n_layer=2, n_head=4, vocab_size=100)),
    "convnext": _seen(hf.ConvNextModel, hf.ConvNextConfig(**_STAGES, num_stages=2)),
    "deberta_v2": _text(hf.DebertaV2Model, hf.DebertaV2Config(**_SMALL)),
    "deit": _seen(hf.DeiTModel, hf.DeiTConfig(**_VISION, image_size=32, patch_size=8), 32),
    "distilbert": _text(
        hf.DistilBertModel, hf.DistilBertConfig(dim=64, n_layers=2, n_heads=4, hidden_dim=128, vocab_size=100)
    ),
    "electra": _text(hf.ElectraModel, hf.ElectraConfig(**_SMALL, embedding_size=32)),
    "gemma": _text(hf.GemmaForCausalLM, hf.GemmaConfig(**_GROUPED, head_dim=16)),
    "gpt2": _text(hf.GPT2LMHeadModel, hf.GPT2Config(n_embd=64, n_layer=2, n_head=4, vocab_size=100)),
    "gpt_neox": _text(hf.GPTNeoXForCausalLM, hf.GPTNeoXConfig(**_SMALL)),
    "hubert": _heard(hf.HubertModel, hf.HubertConfig(**_SPEECH)),
    "llama": _text(hf.LlamaForCausalLM, hf.LlamaConfig(**_GROUPED)),
    "mistral": _text(hf.MistralForCausalLM, hf.MistralConfig(**_GROUPED)),
    "mobilenet_v2": _seen(hf.MobileNetV2Model, hf.MobileNetV2Config(image_size=64)),
    "mpnet": _text(hf.MPNetModel, hf.MPNetConfig(**_SMALL)),
    "opt": _text(
        hf.OPTForCausalLM,
        hf.OPTConfig(
            hidden_size=64, num_hidden_layers=2, num_attention_heads=4, ffn_dim=128, vocab_size=100,
            word_embed_proj_dim=64,
        ),
    ),
    "phi": _text(hf.PhiForCausalLM, hf.PhiConfig(**_SMALL)),
    "qwen2": _text(hf.Qwen2ForCausalLM, hf.Qwen2Config(**_GROUPED)),
    "resnet": _seen(hf.ResNetModel, hf.ResNetConfig(**_STAGES, embedding_size=16)),
    "roberta": _text(hf.RobertaModel, hf.RobertaConfig(**_SMALL)),
    "segformer": _seen(
        hf.SegformerModel,
        hf.SegformerConfig(
            hidden_sizes=[16, 32, 32, 32], depths=[1] * 4, num_attention_heads=[1, 2, 2, 2],
            decoder_hidden_size=32,
        ),
    ),
    "swin": _seen(
        hf.SwinModel,
        hf.SwinConfig(image_size=64, embed_dim=16, depths=[2, 2], num_heads=[2, 2], window_size=4),
    ),
    "t5": _pair(
        hf.T5Model, hf.T5Config(d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, vocab_size=100)
    ),
    "vit": _seen(hf.ViTModel, hf.ViTConfig(**_VISION, image_size=32, patch_size=8), 32),
    "wav2vec2": _heard(hf.Wav2Vec2Model, hf.Wav2Vec2Config(**_SPEECH)),
    "whisper": _whisper,
}  # fmt: skip


def _speech() -> Made:
    feeds = {"input_features": torch.randn(1, 80, 3000), "decoder_input_ids": _ids(1, 16), "use_cache": False}
    return hf.WhisperModel(hf.WhisperConfig()).eval(), feeds


def _full_text(cls: Any, config: Any, columns: int = 128, **more: Any) -> Callable[[], Made]:
    return lambda: (cls(config).eval(), {"input_ids": _ids(1, columns), **more})


_QWEN2 = hf.Qwen2Config(
    hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14,
    num_key_value_heads=2, tie_word_embeddings=True,
)  # fmt: skip
_SWIN = hf.SwinConfig(embed_dim=96, depths=[2, 2, 6, 2], num_heads=[3, 6, 12, 24], window_size=7)

FULL: Mapping[str, Callable[[], Made]] = {
    "bert": _full_text(hf.BertModel, hf.BertConfig()),
    "convnext": _seen(hf.ConvNextModel, hf.ConvNextConfig(), 224),
    "gpt2": _full_text(hf.GPT2LMHeadModel, hf.GPT2Config(), use_cache=False),
    "mobilenet_v2": _seen(hf.MobileNetV2Model, hf.MobileNetV2Config(), 224),
    "qwen2": _full_text(hf.Qwen2ForCausalLM, _QWEN2, use_cache=False),
    "resnet50": _seen(hf.ResNetModel, hf.ResNetConfig(), 224),
    "segformer": _seen(hf.SegformerModel, hf.SegformerConfig(), 512),
    "swin": _seen(hf.SwinModel, _SWIN, 224),
    "t5": _full_text(
        hf.T5Model, hf.T5Config(num_heads=8), 128, decoder_input_ids=_ids(1, 32), use_cache=False
    ),
    "vit": _seen(hf.ViTModel, hf.ViTConfig(), 224),
    "wav2vec2": lambda: (
        hf.Wav2Vec2Model(hf.Wav2Vec2Config()).eval(),
        {"input_values": torch.randn(1, 16000)},
    ),
    "whisper": _speech,
}
"""At sizes that are in use: one image, 128 tokens, 30 seconds of speech for whisper and one for wav2vec2."""
