"""A vLLM engine inside the trainer's process. The only file that imports vllm.

Token ids in, token ids out; weights come from pushes alone (the engine is built with dummy ones).
Left out: tensor parallelism (each rank has a whole engine), stop strings, text.
"""

from __future__ import annotations

import atexit
import os
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path

import torch
import torch.distributed as dist

from edge_lightning.engine import weight_push
from edge_lightning.engine.base import require_stall, require_version
from edge_lightning.engine.engine_log import EngineLog
from edge_lightning.engine.kv_cache import kv_cache_bytes, refusal
from edge_lightning.engine.limits import allowed_tokens
from edge_lightning.engine.process_state import engine_side
from edge_lightning.engine.torchvision import refuse_broken_torchvision
from edge_lightning.engine.watched import beat_after
from edge_lightning.errors import UserError, require_at_least_one
from edge_lightning.policy import Policy
from edge_lightning.types import Generation, Provenance, Request, Sampling

GIB = 2**30
CPU_BATCH_TOKENS = 4096  # vLLM's own default on CPU
CPU_BLOCK_TOKENS = 32  # its smallest; regenerations take a fifth less time than with its default of 128


class VllmEngine:
    """One engine a rank, built after the trainer's process group if there is one, by all ranks together."""

    provenance = Provenance.SAMPLED

    def __init__(
        self,
        *,
        policy: Policy,
        folder: str | Path,
        max_model_len: int,
        rank: int = 0,
        local_rank: int = 0,
        world_size: int = 1,
        dtype: str = "float32",
        max_num_seqs: int = 64,
        kv_cache_gib: float | None = None,
        gpu_memory_utilization: float = 0.3,
        enforce_eager: bool = True,
        block_size: int | None = None,
        enable_prefix_caching: bool = True,
        enable_sleep_mode: bool = False,
        seed: int = 0,
        stall_s: float | None = 1800.0,
        trust_remote_code: bool = False,
    ):
        """Start vLLM: some 6 s of import, then 3 s.

        Args:
            policy: lends its end-of-sequence ids and its shape; the weights come with the first push.
            folder: what policy.save_config wrote.
            max_model_len: the most tokens that prompt and response may have together.
            rank, local_rank, world_size: of this process among the trainer's.
            dtype: of weights and activations; only float32 equals a float32 policy to 1e-5.
            max_num_seqs: the most responses generated at once.
            kv_cache_gib: memory of the key-value cache; None: what max_num_seqs full responses take. CPU only.
            gpu_memory_utilization: share of the device for weights and cache; CUDA only, not yet run on hardware.
            enforce_eager: compile nothing.
            block_size: tokens of a cache block; a prefix is reused block by block. None: 32 on CPU, its smallest, on CUDA
                what vLLM takes.
            enable_sleep_mode: let `sleep` free the device while the policy trains; CUDA only, not yet run on hardware.
            seed: of the engine itself; requests bring their own.
            stall_s: the longest that no token is made before the engine is given up; None: not watched. See watched.py.
            trust_remote_code: run the code that came with a model whose architecture vLLM does not know.
        Raises:
            UserError: vLLM is not installed, cannot work here, or refuses the settings.
            RuntimeError: torch.distributed is not what rank and world_size say.
        """
        require_at_least_one("engine.max_num_seqs", max_num_seqs)
        self.stall_s = require_stall(stall_s)
        self.beat: Callable[[], None] = lambda: None
        on_cpu = not torch.cuda.is_available()
        if on_cpu and enable_sleep_mode:
            raise UserError("engine.enable_sleep_mode=true needs a CUDA device; set engine.enable_sleep_mode=false")
        refuse_broken_torchvision()
        self.max_model_len = max_model_len
        self.weights_version: int | None = None
        self._stop_token_ids = list(policy.eos_ids)
        self._log = EngineLog(Path(folder) / ("vllm.log" if rank == 0 else f"vllm_rank_{rank}.log"))
        self._sleeps = enable_sleep_mode
        self._asleep = False
        # vLLM compiles its sampling kernels even when eager: 4 to 18 s in the first call on CPU, for no speed after it.
        # TORCH_COMPILE_DISABLE would stop the trainer's compilations too.
        self._without_compiler = on_cpu and enforce_eager
        if on_cpu:
            block_size = block_size or CPU_BLOCK_TOKENS
            full = {"sequences": max_num_seqs, "max_model_len": max_model_len, "block_size": block_size, "dtype": dtype}
            cache = kv_cache_bytes(policy.model.config, **full) if kv_cache_gib is None else int(kv_cache_gib * GIB)
            memory = {"kv_cache_memory_bytes": cache}
        else:
            memory = {"gpu_memory_utilization": gpu_memory_utilization}
        # A prompt that is read in parts has its seeded generator wound back, which a CPU generator can't do: vLLM 0.32 ends
        # with "CPU Generator does not use offset" as soon as the waiting prompts exceed the tokens of one batch.
        whole_prompts = (
            {"enable_chunked_prefill": False, "max_num_batched_tokens": max(max_model_len, CPU_BATCH_TOKENS)}
            if on_cpu
            else {}
        )
        # The warnings are of vLLM's own use of deprecated names.
        with self._log.shown_on_failure(), engine_side(), warnings.catch_warnings(action="ignore", category=FutureWarning):
            os.environ.update(
                RANK=str(rank), LOCAL_RANK=str(local_rank), WORLD_SIZE=str(world_size), **self._log.environment
            )
            self._vllm = import_vllm()
            if on_cpu:
                weight_push.keep_plain_linears(self._vllm.model_executor.layers.utils)
            self._custom_ops = self._vllm._custom_ops if on_cpu else None
            self._owns_process_group = ensure_process_group(rank, world_size)
            try:
                self._llm = self._vllm.LLM(
                    model=str(folder),
                    load_format="dummy",
                    skip_tokenizer_init=True,
                    generation_config="vllm",
                    dtype=dtype,
                    max_model_len=max_model_len,
                    max_num_seqs=max_num_seqs,
                    enforce_eager=enforce_eager,
                    block_size=block_size,
                    enable_prefix_caching=enable_prefix_caching,
                    enable_sleep_mode=enable_sleep_mode,
                    seed=seed,
                    trust_remote_code=trust_remote_code,
                    distributed_executor_backend="external_launcher",
                    logprobs_mode="processed_logprobs",
                    disable_log_stats=True,
                    **memory,
                    **whole_prompts,
                )
            except ValueError as error:
                raise UserError(refusal(error, max_model_len, memory)) from error
        beat_after(self._llm.llm_engine, "step", self)
        # Until it is closed, an engine must not be collected: it would take the trainer's process group with it.
        atexit.register(self.close)

    def push_weights(self, policy: Policy, version: int) -> None:
        """Copy the policy's weights, drop the prefix cache, stamp the version. Wakes a sleeping engine.

        Raises:
            RuntimeError: the engine is closed, or did not take the weights.
        """
        self._require_open()
        self.weights_version = None  # half-pushed weights are no version
        with engine_side():
            if self._asleep:
                self._llm.wake_up(tags=["weights"])
            weight_push.push(self._llm, policy.merged_parameters(), custom_ops=self._custom_ops)
            if self._asleep:
                self._llm.wake_up(tags=["kv_cache"])
        self._asleep = False
        self.weights_version = version

    def generate(self, requests: Sequence[Request], sampling: Sampling, *, weights_version: int) -> list[Generation]:
        """One generation per request, in order; a response depends on its seed and not on its neighbours.

        Log-probabilities are log_softmax(logits / T), renormalised over what top_k and then top_p < 1 leave. Greedy ones are
        log_softmax(logits), whatever top_k and top_p.

        Raises:
            StaleWeightsError: another version was pushed last, or the engine sleeps.
            UserError: a prompt leaves no room for one token.
            RuntimeError: the engine is closed.
        """
        self._require_open()
        require_version(self, weights_version)
        prompts = [self._vllm.TokensPrompt(prompt_token_ids=list(request.prompt_ids)) for request in requests]
        params = [self._params(request, sampling) for request in requests]
        eager = torch.compiler.set_stance("force_eager") if self._without_compiler else nullcontext()
        with self._log.shown_on_failure(), engine_side(), eager:
            outputs = self._llm.generate(prompts, params, use_tqdm=False)
        return [as_generation(output.outputs[0]) for output in outputs]

    def sleep(self) -> None:
        """Free the device until the next push. Does nothing unless enable_sleep_mode. Not yet run on hardware.

        vLLM hangs when a sleeping engine is asked to generate; having no version, this one refuses.
        """
        if self._sleeps and not self._asleep:
            self._require_open()
            self.weights_version = None
            with engine_side():
                self._llm.sleep(level=2)  # weights are dropped, not kept: a push follows
            self._asleep = True

    def close(self) -> None:
        """Free the engine; the trainer's process group stays."""
        if self._llm is None:
            return
        atexit.unregister(self.close)
        self.weights_version = None
        with engine_side():
            shut_down(self._llm, keep_process_group=not self._owns_process_group)
        self._llm = None
        self._log.close()

    def _params(self, request: Request, sampling: Sampling):
        return self._vllm.SamplingParams(
            n=1,  # vLLM seeds the children of n > 1 with seed + 1, seed + 2, ...: another request's
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=0 if sampling.top_k is None else sampling.top_k,
            max_tokens=allowed_tokens(request, self.max_model_len),
            seed=request.seed,  # torch's CPU generator heeds the low 32 bits
            stop_token_ids=self._stop_token_ids,  # without a tokenizer vLLM knows no other end
            logprobs=0,  # the sampled token's alone
            flat_logprobs=True,
            detokenize=False,
        )

    def _require_open(self) -> None:
        if self._llm is None:
            raise RuntimeError("the vLLM engine is closed; build another one")


def as_generation(completion) -> Generation:
    """vLLM's completion as ours; the end-of-sequence id is among its token ids."""
    return Generation(tuple(completion.token_ids), tuple(completion.logprobs.logprobs), completion.finish_reason)


def import_vllm():
    """The vllm module, told to run in this process and to be quiet.

    Raises:
        UserError: it is not installed.
    """
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # the push hands a function to the engine's own model
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")  # of who imports it without an EngineLog
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    try:
        import vllm
        import vllm.model_executor.layers.utils
    except ModuleNotFoundError as error:
        if error.name != "vllm":
            raise
        raise UserError("engine=vllm needs vLLM; install the project as .[cpu] or .[cuda], or set engine=hf") from error
    return vllm


def ensure_process_group(rank: int, world_size: int) -> bool:
    """Check the trainer's process group, or make one of this process alone; True if it was made here.

    vLLM would make one itself, at a port that another run may have taken.

    Raises:
        RuntimeError: ranks would not see each other. Lightning does not synchronise gradients then, without a word.
    """
    if dist.is_initialized():
        if (dist.get_rank(), dist.get_world_size()) != (rank, world_size):
            raise RuntimeError(
                f"engine built for rank {rank} of {world_size}, torch.distributed has rank {dist.get_rank()} of "
                f"{dist.get_world_size()}; build the engine after the trainer's process group"
            )
        return False
    if world_size != 1:
        raise RuntimeError(
            f"engine built for rank {rank} of {world_size} before torch.distributed was initialised; "
            "build it in Callback.setup"
        )
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    return True


def shut_down(llm, *, keep_process_group: bool) -> None:
    """Stop an engine and free its memory. vLLM would destroy the default process group, whoever made it."""
    from vllm.distributed import parallel_state

    def destroy_world_group() -> None:
        if parallel_state._WORLD is not None:
            parallel_state._WORLD.destroy()
        parallel_state._WORLD = parallel_state._NODE_COUNT = None

    destroy_all, destroy_group = parallel_state.destroy_distributed_environment, parallel_state.GroupCoordinator.destroy
    if keep_process_group:
        parallel_state.destroy_distributed_environment = destroy_world_group
    if not dist.is_initialized():  # the trainer destroyed its group, and vLLM's with it
        parallel_state.GroupCoordinator.destroy = lambda group: None
    try:
        llm.llm_engine.engine_core.shutdown()
    finally:
        parallel_state.destroy_distributed_environment = destroy_all
        parallel_state.GroupCoordinator.destroy = destroy_group
