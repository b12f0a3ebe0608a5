"""Low-rank adapters: the policy is W + (alpha / rank) B A, and B and A alone are trained.

Source: LoRA (arXiv:2106.09685), through the peft library. It puts its layers in the place of the model's linear ones; the
model's class, its decoder and its head stay what they are.
Left out: dropout, since scoring and training passes must give one log-probability; adapters of embeddings and of the head,
which is read weight by weight (head.py); gathering sharded weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from edge_lightning.errors import UserError, require_at_least_one
from edge_lightning.seeds import counter_seed

ALL_LINEAR = "all-linear"
ADAPTER = "default"  # peft's name for the first adapter of a layer


class LowRankAdapters:
    """The adapters of one model.

    Args:
        rank: columns of B and rows of A; a layer of n inputs and m outputs gets rank * (n + m) trained weights.
        alpha: B A is multiplied by alpha / rank; None: twice the rank.
        target_modules: names of the linear layers that get one, or the ends of their names; "all-linear": every one but the
            head.
    Raises:
        UserError: rank below 1, or alpha not above 0.
    """

    def __init__(self, *, rank: int = 32, alpha: float | None = None, target_modules: str | Sequence[str] = ALL_LINEAR):
        require_at_least_one("model.lora.rank", rank)
        if alpha is not None and not 0 < alpha < math.inf:
            raise UserError(f"model.lora.alpha={alpha}: above 0 expected, null: twice the rank")
        self.rank = rank
        self.alpha = 2 * rank if alpha is None else alpha
        self.target_modules = target_modules
        self._layers: dict[str, nn.Module] = {}
        self._own: frozenset[str] = frozenset()

    def add_to(self, model: nn.Module, *, seed: int) -> None:
        """Freeze the model and put adapters into it: A random, B = 0, both float32. It computes what it did before.

        A is a function of the seed alone; torch's global generator is left as it was.

        Raises:
            UserError: the model has no such layer.
        """
        from peft import LoraConfig, inject_adapter_in_model  # takes two seconds to import

        names = self._targets(model)
        config = LoraConfig(r=self.rank, lora_alpha=self.alpha, target_modules=names)
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(counter_seed(seed, "adapters"))  # torch.manual_seed would touch GPUs too
            inject_adapter_in_model(config, model, adapter_name=ADAPTER)
        model.train(model.training)  # the new layers are in the mode of the others
        self._layers = {name: model.get_submodule(name) for name in names}
        for layer in self._layers.values():  # small updates would be lost in half precision
            layer.lora_A.float()
            layer.lora_B.float()
        self._own = frozenset(name for name, weight in model.named_parameters() if weight.requires_grad)

    def merged(
        self, named_weights: Iterable[tuple[str, Tensor]], *, device: torch.device | None = None
    ) -> Iterator[tuple[str, Tensor]]:
        """The weights of a plain model that computes the same, under its names; the adapted one stays as it is.

            W' = W + (alpha / rank) B A,        in the dtype of W; weights without an adapter are passed on

        One merged weight exists at a time, if the caller keeps none.

        Args:
            named_weights: of the adapted model, named_parameters() or state_dict().items().
            device: where merged weights are put; None: where they are.
        """
        for name, weight in named_weights:
            if name in self._own:
                continue
            layer, _, leaf = name.partition(".base_layer.")
            adapted = layer in self._layers
            if adapted and leaf == "weight":
                weight = _merged(weight, self._layers[layer]).to(device)
            yield f"{layer}.{leaf}" if adapted else name, weight

    @contextmanager
    def switched_off(self) -> Iterator[None]:
        """The model computes W alone inside the block, W + (alpha / rank) B A after it, also where the block raises."""
        try:
            for layer in self._layers.values():
                layer.enable_adapters(False)
            yield
        finally:
            for layer in self._layers.values():
                layer.enable_adapters(True)

    def _targets(self, model: nn.Module) -> list[str]:
        head = model.get_output_embeddings()
        linear = [name for name, module in model.named_modules() if isinstance(module, nn.Linear) and module is not head]
        if not linear:
            kind = type(model).__name__
            raise UserError(
                f"model.lora: a model with linear layers beside its head expected, {kind} came; set model.lora=null"
            )
        if self.target_modules == ALL_LINEAR:
            return linear
        wanted = [self.target_modules] if isinstance(self.target_modules, str) else list(self.target_modules)
        of_it = {end: [name for name in linear if f".{name}".endswith(f".{end}")] for end in wanted}
        unknown = [end for end, names in of_it.items() if not names]
        if unknown or not wanted:
            known = ", ".join(dict.fromkeys(name.rpartition(".")[2] for name in linear))
            came = f"{unknown[0]!r} is none of its linear layers" if unknown else "nothing came"
            raise UserError(f"model.lora.target_modules={wanted}: all-linear or some of {known} expected, {came}")
        chosen = {name for names in of_it.values() for name in names}
        return [name for name in linear if name in chosen]


@torch.no_grad()
def _merged(weight: Tensor, layer: nn.Module) -> Tensor:
    return layer.get_delta_weight(ADAPTER).add_(weight).to(weight.dtype)
