"""A small run as it lies on disk, with groups and texts by hand, and a tokenizer that knows every character."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from edge_lightning.credit.base import Constants
from edge_lightning.experience import Rollout
from edge_lightning.training.record import write_rollout
from edge_lightning.training.update import Update
from edge_lightning.types import Grade, Problem, Provenance
from tests.by_hand import response

HOSTILE = "</script><img src=x onerror=\"document.title='owned'\"> & \u2028 é"
CUE, EOS = " Wait!", 256


@lru_cache
def tokenizer() -> Tokenizer:
    """One token a byte, and an end of sequence."""
    letters = {letter: i for i, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    made = Tokenizer(models.BPE(vocab=letters, merges=[]))
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    made.add_special_tokens(["<|end|>"])
    return made


def encoded(text: str) -> tuple[int, ...]:
    return tuple(tokenizer().encode(text).ids)


def member(problem: Problem, index: int, first: str, *, cue: str = "", rest: str = "", right=(False, False), **changes):
    """A response: what was sampled first, a cue that was put in, what was sampled then."""
    ids = encoded(first), encoded(cue), (*encoded(rest), EOS)
    mask = [True] * len(ids[0]) + [False] * len(ids[1]) + [True] * len(ids[2])
    made = response(sum(ids, ()), index=index, problem=problem, prompt_ids=encoded(problem.text), sampled_mask=mask)
    grades = [Grade(float(it), it, {"accuracy": float(it)}) for it in right]
    provenance = Provenance.REFLECTED if cue else Provenance.SAMPLED
    whole = {"text": first + cue + rest, "sampled_text": first, "sampled_grade": grades[0], "grade": grades[1]}
    return replace(made, provenance=provenance, **(whole | changes))


def write_step(folder, number: int, groups: list[list], advantages: list[float], phat: list[float], entropies=None) -> None:
    """A step of equally large groups; token t of response i has entropy (i + 1) / 10 unless `entropies` says otherwise."""
    responses = [it for group in groups for it in group]
    lengths = [len(it.completion_ids) for it in responses]
    response_N = torch.repeat_interleave(torch.arange(len(responses)), torch.tensor(lengths))
    advantages_B, phat_B = torch.tensor(advantages), torch.tensor(phat)
    group_B = torch.arange(len(groups)).repeat_interleave(len(groups[0]))
    rollout = Rollout([group[0].problem for group in groups], number, number, responses, advantages_B, group_B)
    nothing_N = torch.full((len(response_N),), torch.nan)
    update = Update(
        response_N=response_N,
        logprobs_N=-torch.ones(len(response_N)),
        entropies_N=(response_N + 1) / 10 if entropies is None else entropies,
        token_advantages_N=(advantages_B / phat_B)[response_N],
        ratio_N=nothing_N,
        clipped_N=nothing_N,
        kl_N=nothing_N,
        trained_responses=len(responses),
        constants=Constants(advantages_B, phat_B, phat_B > 100),
        losses=[0.0],
        gradient_norms=[1.0],
    )
    write_rollout(folder, rollout, update)


def write_run(folder):
    """Step 3: one group that correction untied, one that it left all wrong. Step 4: a group that was right by itself."""
    (folder / "rollouts").mkdir(parents=True)
    (folder / "policy").mkdir()
    tokenizer().save(str(folder / "policy" / "tokenizer.json"))
    (folder / "config.yaml").write_text("command: fit\n")
    easy, hard, third = (Problem(name, f"{name}: 2 + 3?", ("5",)) for name in ("easy", "hard", "third"))
    untied = [member(easy, 0, "It is 4."), member(easy, 1, HOSTILE, cue=CUE, rest=" 5.", right=(False, True))]
    lost = [member(hard, 0, "7", cue=CUE, rest=" 8"), member(hard, 1, "9")]
    write_step(folder / "rollouts", 3, [untied, lost], [-1.0, 1.0, 0.0, 0.0], [2 / 3, 4 / 3, 6 / 7, 8 / 7])
    solved = [member(third, 0, "5", right=(True, True)), member(third, 1, "six", cue=CUE, rest=" 5", right=(False, True))]
    write_step(folder / "rollouts", 4, [solved], [0.0, 0.0], [2 / 3, 4 / 3])
    return folder


def finish_run(folder) -> None:
    (folder / "summary.json").write_text(json.dumps({"name": "made-by-hand", "status": "finished"}))
