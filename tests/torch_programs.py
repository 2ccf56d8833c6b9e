"""Architectures as people load them: transformers of Hugging Face with random weights, and a denoising U-Net, as PyTorch modules.

Each is made small for tests, or with the widths of a published model for benchmarks. Nothing is downloaded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tensorproof.frontends.torch_export import TorchModel

Ranges = dict[str, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Size:
    """How large a program is made: its layers, its width and heads, and the length of what it reads."""

    layers: int
    width: int
    heads: int
    length: int

    @property
    def inner(self) -> int:
        """The width between the two products of a feed-forward layer."""
        return 4 * self.width


SMALL = Size(layers=2, width=64, heads=4, length=8)

#: Numbers of words that the programs know.
WORDS = 1000


@dataclass(frozen=True, slots=True)
class Program:
    """A module with an example of its inputs, and what its inputs lie between."""

    module: nn.Module
    example: dict[str, Tensor]
    ranges: Ranges


def _words(name: str, length: int) -> dict[str, Tensor]:
    return {name: torch.randint(0, WORDS, (2, length), generator=torch.Generator().manual_seed(0))}


def _masked_words(length: int) -> tuple[dict[str, Tensor], Ranges]:
    """Token ids with a mask that hides the end of one sentence."""
    mask = torch.ones(2, length, dtype=torch.int64)
    mask[1, length // 2 :] = 0
    return {**_words("input_ids", length), "attention_mask": mask}, {"input_ids": (0.0, WORDS - 1.0), "attention_mask": (0.0, 1.0)}


def _program(make: Callable[[], nn.Module], example: dict[str, Tensor], ranges: Ranges) -> Program:
    from transformers.utils import logging

    logging.set_verbosity_error()
    torch.manual_seed(0)
    return Program(make().eval(), example, ranges)


def bert(size: Size) -> Program:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        num_hidden_layers=size.layers,
        hidden_size=size.width,
        num_attention_heads=size.heads,
        intermediate_size=size.inner,
        vocab_size=WORDS,
    )
    return _program(lambda: BertModel(config), *_masked_words(size.length))


def gpt2(size: Size) -> Program:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_layer=size.layers, n_embd=size.width, n_head=size.heads, vocab_size=WORDS, use_cache=False)
    return _program(lambda: GPT2LMHeadModel(config), *_masked_words(size.length))


def t5(size: Size) -> Program:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        num_layers=size.layers,
        d_model=size.width,
        num_heads=size.heads,
        d_kv=size.width // size.heads,
        d_ff=size.inner,
        vocab_size=WORDS,
        use_cache=False,
    )
    example, ranges = _masked_words(size.length)
    example |= _words("decoder_input_ids", size.length - 2)
    return _program(lambda: T5ForConditionalGeneration(config), example, {**ranges, "decoder_input_ids": ranges["input_ids"]})


def vit(size: Size) -> Program:
    from transformers import ViTConfig, ViTForImageClassification

    patches = math.isqrt(2 * size.length)
    config = ViTConfig(
        num_hidden_layers=size.layers,
        hidden_size=size.width,
        num_attention_heads=size.heads,
        intermediate_size=size.inner,
        image_size=8 * patches,
        patch_size=8,
    )
    # Pixels are brought to [-1, 1] before they come in.
    pixels = torch.rand(1, 3, 8 * patches, 8 * patches, generator=torch.Generator().manual_seed(0)) * 2.0 - 1.0
    return _program(lambda: ViTForImageClassification(config), {"pixel_values": pixels}, {"pixel_values": (-1.0, 1.0)})


def llama(size: Size) -> Program:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        num_hidden_layers=size.layers,
        hidden_size=size.width,
        num_attention_heads=size.heads,
        num_key_value_heads=size.heads // 2,
        intermediate_size=size.inner,
        vocab_size=WORDS,
        use_cache=False,
    )
    return _program(lambda: LlamaForCausalLM(config), *_masked_words(size.length))


def whisper(size: Size) -> Program:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(
        encoder_layers=size.layers,
        decoder_layers=size.layers,
        d_model=size.width,
        encoder_attention_heads=size.heads,
        decoder_attention_heads=size.heads,
        encoder_ffn_dim=size.inner,
        decoder_ffn_dim=size.inner,
        vocab_size=WORDS,
        max_source_positions=4 * size.length,
        use_cache=False,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    # Log-mel features, as Whisper's feature extractor scales them.
    features = torch.rand(1, 80, 8 * size.length, generator=torch.Generator().manual_seed(0)) * 2.0 - 0.75
    example = {"input_features": features, **_words("decoder_input_ids", size.length)}
    ranges = {"input_features": (-1.5, 1.5), "decoder_input_ids": (0.0, WORDS - 1.0)}
    return _program(lambda: WhisperForConditionalGeneration(config), example, ranges)


class _Residual(nn.Module):
    """Two convolutions with group normalisation; the embedded time is added between them."""

    def __init__(self, inner: int, outer: int, time: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(8, inner), nn.GroupNorm(8, outer)
        self.conv1, self.conv2 = nn.Conv2d(inner, outer, 3, padding=1), nn.Conv2d(outer, outer, 3, padding=1)
        self.time = nn.Linear(time, outer)
        self.skip = nn.Conv2d(inner, outer, 1) if inner != outer else nn.Identity()

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        y = self.conv1(nn.functional.silu(self.norm1(x)))
        y = y + self.time(nn.functional.silu(time))[:, :, None, None]
        return self.skip(x) + self.conv2(nn.functional.silu(self.norm2(y)))


class _Attention(nn.Module):
    """Self-attention over the places of an image, written by hand."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(8, width)
        self.qkv, self.out = nn.Conv2d(width, 3 * width, 1), nn.Conv2d(width, width, 1)
        self.heads = heads

    def forward(self, x: Tensor) -> Tensor:
        batch, width, height, breadth = x.shape
        parts = self.qkv(self.norm(x)).view(batch, 3, self.heads, width // self.heads, height * breadth)
        query, key, value = parts.unbind(1)
        weights = torch.softmax(query.transpose(-2, -1) @ key * (width // self.heads) ** -0.5, -1)
        mixed = value @ weights.transpose(-2, -1)
        return x + self.out(mixed.reshape(batch, width, height, breadth))


def _sinusoids(time: Tensor, width: int) -> Tensor:
    """Positions as sines and cosines of falling frequencies (Vaswani et al., Attention is all you need, section 3.5)."""
    frequencies = torch.exp(-math.log(10_000.0) * torch.arange(width // 2) / (width // 2))
    angles = time[:, None].float() * frequencies[None]
    return torch.cat((angles.sin(), angles.cos()), -1)


class UNet(nn.Module):
    """A denoising U-Net: one level of halved resolution with attention, skips, and the step of the diffusion as input."""

    def __init__(self, layers: int, width: int, heads: int) -> None:
        super().__init__()
        time = 4 * width
        self.width = width
        self.embed = nn.Sequential(nn.Linear(width, time), nn.SiLU(), nn.Linear(time, time))
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.down = nn.ModuleList([_Residual(width, width, time) for _ in range(layers)])
        self.halve = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.middle = nn.ModuleList([_Residual(2 * width, 2 * width, time) for _ in range(layers)])
        self.attention = _Attention(2 * width, heads)
        self.unhalve = nn.Conv2d(2 * width, width, 3, padding=1)
        self.up = nn.ModuleList([_Residual(2 * width, width, time) for _ in range(layers)])
        self.norm, self.last = nn.GroupNorm(8, width), nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, image: Tensor, step: Tensor) -> Tensor:
        time = self.embed(_sinusoids(step, self.width))
        x = self.first(image)
        skips: list[Tensor] = []
        for block in self.down:
            x = block(x, time)
            skips.append(x)
        x = self.halve(x)
        for block in self.middle:
            x = self.attention(block(x, time))
        x = self.unhalve(nn.functional.interpolate(x, scale_factor=2.0, mode="nearest"))
        for block in self.up:
            x = block(torch.cat((x, skips.pop()), 1), time)
        return self.last(nn.functional.silu(self.norm(x)))


def unet(size: Size) -> Program:
    side = 2 * math.isqrt(2 * size.length)
    image = torch.rand(2, 3, side, side, generator=torch.Generator().manual_seed(0)) * 2.0 - 1.0
    example = {"image": image, "step": torch.tensor([10, 900])}
    torch.manual_seed(0)
    network = UNet(size.layers, size.width, size.heads).eval()
    # Noise is normal, and kept within four deviations here.
    return Program(network, example, {"image": (-4.0, 4.0), "step": (0.0, 999.0)})


#: The programs, with the size of a published model of each kind (fewer layers where memory asks for it).
PROGRAMS: dict[str, tuple[Callable[[Size], Program], Size]] = {
    "BERT": (bert, Size(layers=12, width=768, heads=12, length=128)),
    "GPT-2": (gpt2, Size(layers=12, width=768, heads=12, length=128)),
    "T5": (t5, Size(layers=6, width=512, heads=8, length=64)),
    "ViT": (vit, Size(layers=12, width=768, heads=12, length=98)),
    "Llama": (llama, Size(layers=4, width=2048, heads=32, length=128)),
    "Whisper": (whisper, Size(layers=6, width=512, heads=8, length=64)),
    "U-Net": (unet, Size(layers=2, width=128, heads=4, length=128)),
}


def aten_names(made: TorchModel) -> set[str]:
    """The ATen operators that an exported program calls, in all of its graphs."""
    modules = [module for module in made.program.graph_module.modules() if isinstance(module, torch.fx.GraphModule)]
    calls = [str(node.target) for module in modules for node in module.graph.nodes if node.op == "call_function"]
    return {name.removeprefix("aten.") for name in calls if name.startswith("aten.")}
