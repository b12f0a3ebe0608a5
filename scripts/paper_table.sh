# Sourced by scripts/paper_1_5b.sh and paper_7b.sh, which set `size`: the runs of a table of EDGE-GRPO (arXiv 2507.21848), on
# Random-1K and Hard-1K, six rows, three seeds.
#
# Not yet run on hardware. The published runs have 8 GPUs, a response of the one problem of a step on each; a job takes
# one device here unless STRATEGY says otherwise: STRATEGY="strategy=ddp strategy.devices=8" (docs/scale.md).
# Random-1K and the policy come from the hub, Hard-1K and the benchmarks from the folder that EDGE_DATA names.
# Started again it goes on: finished jobs are skipped. Arguments are further overrides, a launcher's for example:
#   scripts/paper_1_5b.sh hydra/launcher=submitit_slurm hydra.launcher.gpus_per_node=1 hydra.launcher.timeout_min=2880
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
common=(experiment="paper_$size" evaluation=paper_suite "${STRATEGY:-strategy=single}" "$@")

status=0
sweep() {
  local folder=outputs/paper_$size/$data
  "${EDGE_LIGHTNING:-.venv/bin/edge-lightning}" fit -m "data=$data" "$@" "${common[@]}" \
    "hydra.sweep.dir=$folder" "resume=$folder" || status=$?
  [ "$status" -ne 130 ] || exit 130
}

for data in deepscaler_random_1k deepscaler_hard_1k; do
  sweep seed=0 ablation=base  # its evaluation has a seed of its own: once is enough
  # 1000 steps of one solution each, of the same problems save for those whose solution has over 1024 tokens.
  sweep seed=0,1,2 ablation=sft engine@evaluation.engine=vllm
  sweep seed=0,1,2 ablation=grpo,force_r,force_r_eda,full
done
exit "$status"
