"""The policy: a transformers causal language model, its tokenizer, and packed log-probabilities.

Left out: sliding-window attention, logit soft-capping and logit scaling; such models are refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoTokenizer

from edge_lightning.attention import PACKED, layout_of
from edge_lightning.errors import UserError
from edge_lightning.head import compute_dtype, logprobs_and_entropies
from edge_lightning.hub import look_on_disk_where_nothing_answers
from edge_lightning.layers import is_compiled
from edge_lightning.lora import LowRankAdapters
from edge_lightning.padding import padding_entropies
from edge_lightning.prompts import plain_ids
from edge_lightning.sharding import is_sharded, whole_parameters
from edge_lightning.tokens import Forward, TokenBatch


class Policy(nn.Module):
    """A causal language model with its tokenizer and the ids that end a response.

    Attributes:
        adapters: what is trained of it; None: all of its weights.
    """

    def __init__(self, model: nn.Module, tokenizer, *, temperature: float = 1.0):
        super().__init__()
        self.model = model
        self.tokenizer = tokenizer
        self.temperature = temperature
        self.eos_ids = end_of_sequence_ids(model, tokenizer)
        self.adapters: LowRankAdapters | None = None

    @classmethod
    def load(
        cls, path: str | Path, *, dtype: str = "float32", temperature: float = 1.0, trust_remote_code: bool = False
    ) -> Policy:
        """Load a transformers folder or hub id. Weights are read from safetensors alone, which hold no code.

        Args:
            trust_remote_code: run code that comes with the model.
        Raises:
            UserError: nothing is there, or the model needs what the packed pass does not do, or code of its own.
        """
        code = {"trust_remote_code": trust_remote_code}  # None would ask on the terminal
        if not Path(path).is_dir():
            look_on_disk_where_nothing_answers()
        try:
            tokenizer = AutoTokenizer.from_pretrained(path, **code)
            model = AutoModelForCausalLM.from_pretrained(
                path, dtype=getattr(torch, dtype), attn_implementation=PACKED, use_safetensors=True, **code
            )
        except (OSError, ValueError, KeyError) as error:
            reason = str(error).strip().splitlines()[0]
            if "trust_remote_code" in str(error):
                raise UserError(
                    f"model.path={path}: it brings code of its own, which is not run unless asked for; read it, then set "
                    "model.trust_remote_code=true, or choose another model"
                ) from error
            raise UserError(
                f"model.path={path}: a transformers folder or hub id expected; {reason}; set model.path=DIR"
            ) from error
        except SafetensorError as error:
            raise UserError(
                f"{_damaged_weights(Path(path))}: whole safetensors expected, they are damaged ({error}); put whole ones "
                "back, or choose another model"
            ) from error
        if hasattr(model, "peft_config"):
            raise UserError(f"model.path={path}: a whole model expected, adapters of one came; merge them into it first")
        refuse_unsupported(model.config, path)
        return cls(model, tokenizer, temperature=temperature)

    @property
    def max_positions(self) -> int:
        """The longest sequence that the model was built for, in tokens."""
        return int(self.model.config.max_position_embeddings)

    def adapt(self, adapters: LowRankAdapters, *, seed: int) -> None:
        """Train adapters from now on, and no other weight. Raises UserError where the model has no layers for them."""
        adapters.add_to(self.model, seed=seed)
        self.adapters = adapters

    def trained_parameters(self) -> list[nn.Parameter]:
        """What the optimizer sees."""
        return [parameter for parameter in self.parameters() if parameter.requires_grad]

    def merged_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Weights of the plain model that computes what this policy does, by their names; see LowRankAdapters.merged.

        Of a sharded policy one layer is whole at a time, and all ranks go through them together.
        """
        named = ((name.removeprefix("model."), weight) for name, weight in whole_parameters(self))
        return named if self.adapters is None else self.adapters.merged(named)

    def encode(self, text: str) -> tuple[int, ...]:
        """Ids of a text by itself, without special tokens around it or in it: see prompts.plain_ids."""
        return plain_ids(text, self.tokenizer)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of the ids, special tokens left out."""
        return self.tokenizer.decode(list(ids), skip_special_tokens=True)

    def forward(self, batch: TokenBatch, *, padded_to: int | None = None) -> Forward:
        """Log-probabilities and entropies of the response tokens of a packed row.

        Args:
            padded_to: add the entropies at the padding that brings each response to this length, at the cost of a second
                pass; None: there is no padding.
        """
        head, device = self.model.get_output_embeddings(), batch.input_ids_T.device
        hidden = self.model.base_model(
            input_ids=batch.input_ids_T[None],
            position_ids=batch.position_ids_T[None],
            attention_mask=torch.ones(1, 1, 1, 1, dtype=torch.bool, device=device),  # 4D: left alone
            use_cache=False,
            packed_layout=layout_of(batch.spans, device, compute_dtype(head.weight), one_block=is_compiled(self.model)),
        ).last_hidden_state[0]
        logprobs_N, entropies_N = logprobs_and_entropies(
            hidden[batch.predictor_N], head.weight, batch.target_N, temperature=self.temperature, bias_V=head.bias
        )
        padding_entropy_B = None
        if padded_to is not None:
            pad_id = self.eos_ids[0] if self.tokenizer.pad_token_id is None else self.tokenizer.pad_token_id
            padding_entropy_B = padding_entropies(self.model, batch, padded_to, pad_id=pad_id, temperature=self.temperature)
        return Forward(logprobs_N, entropies_N, batch.response_N, batch.place_N, padding_entropy_B)

    def checksum(self) -> str:
        """A hash of up to 64 values of every weight, evenly spread: tells policies apart, not adversaries.

        Of a sharded policy it is the same as of a whole one, and all ranks take it together.
        """
        samples = {}
        for name, weight in whole_parameters(self):
            values = weight.detach().flatten()
            samples[name] = values[:: max(1, values.numel() // 64)][:64].double().cpu()
        found = hashlib.blake2b(digest_size=16)
        for name, _ in self.named_parameters():
            found.update(name.removeprefix("model.").encode() + samples[name].numpy().tobytes())
        return found.hexdigest()

    def save(self, folder: str | Path, *, write: bool = True) -> None:
        """Write a transformers folder: configuration, weights, tokenizer.

        Adapters are merged into the weights, and shards put together, which are held once more in main memory meanwhile.

        Args:
            write: False on the ranks that only lend their shards; all ranks of a sharded policy call it.
        """
        weights = None
        if is_sharded(self):
            weights = {name: weight.detach().to("cpu", copy=True) for name, weight in self._whole_weights() if write}
        elif self.adapters is not None:
            weights = dict(self.adapters.merged(self.model.state_dict().items(), device=torch.device("cpu")))
        if write:
            self.model.save_pretrained(folder, state_dict=weights)
            self.tokenizer.save_pretrained(folder)

    def _whole_weights(self) -> Iterator[tuple[str, Tensor]]:
        """Everything that a transformers folder holds: merged weights, and buffers, which are never sharded."""
        yield from self.merged_parameters()
        sharded = dict(self.model.named_parameters(remove_duplicate=False))
        yield from ((name, value) for name, value in self.model.state_dict().items() if name not in sharded)

    def save_config(self, folder: str | Path) -> None:
        """Write configuration and tokenizer, without weights: what an engine is built from."""
        self.model.config.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)


def _damaged_weights(folder: Path) -> Path:
    """The first weights of a folder that can't be read; the folder, or the hub id, where none is found."""
    for path in sorted(folder.glob("*.safetensors")):
        try:
            with safe_open(path, "pt"):
                pass
        except SafetensorError:
            return path
    return folder


def end_of_sequence_ids(model: nn.Module, tokenizer) -> tuple[int, ...]:
    """The ids that end a response, the tokenizer's own first.

    Raises:
        UserError: neither the tokenizer nor the generation configuration names one.
    """
    named = [tokenizer.eos_token_id]
    generation = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    named += generation if isinstance(generation, list) else [generation]
    ids = tuple(dict.fromkeys(i for i in named if i is not None))
    if not ids:
        raise UserError("the tokenizer names no end-of-sequence token; set eos_token in its tokenizer_config.json")
    return ids


def refuse_unsupported(config, path: str | Path) -> None:
    """Raise UserError for what the packed pass or the chunked head would compute wrongly."""
    text = config.get_text_config()
    for key in ("final_logit_softcapping", "attn_logit_softcapping", "logit_scale", "logits_scaling"):
        if getattr(text, key, None) not in (None, 1, 1.0):
            raise UserError(f"model.path={path}: {key}={getattr(text, key)} is not supported; choose another model")
    if any(kind != "full_attention" for kind in getattr(text, "layer_types", None) or ()):
        kinds = sorted(set(text.layer_types))
        raise UserError(f"model.path={path}: full attention in every layer expected, {kinds} came; choose another model")
