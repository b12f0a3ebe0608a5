#!/usr/bin/env bash
# The ablation study of docs/study on this machine: scripts/study.sh [part ...]; without arguments every part, in this order.
# Stop it with Ctrl-C and start it again, here or on another machine: what is under docs/study/data is not run again, and
# what was begun here goes on. Records of finished runs are kept there as they come. JOBS=1: one run at a time.
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

methods=sft,grpo,force_r,force_r_eda,full
controls=gec_only,gec_no_wrong_prefix,full_no_wrong_prefix,gec_masked,gec_shaped,gec_supervised,eda_only,gec_wrong_label
controls+=,gec_wrong_answer,gec_foreign_reference,gec_statistics_only,full_sampled_baseline,compute_matched_grpo
credits=eapo,full_eapo,ep_grpo,ep_grpo_eg,ep_grpo_ips,ep_grpo_eg_ips,ep_grpo_ips_zvd,entropy_adv,top_entropy,hapo,rl_zvp
credits+=,dapo,dr_grpo,higher_temperature,more_rollouts
# hard_full_again is the whole method by the code that ran hard_credits, which it is compared with.
halves="rollout.updates_per_rollout=2 rollout.mini_batches=2"
moderate="data=arithmetic_moderate optimizer.lr=2e-4"
any="fidelity.verified_references_only=false"

# A part is a multirun under outputs/study; several lines of one name are one. The methods come first, then seed 0 of all other
# parts, so that a study that is cut short has a little of everything.
#     part                 overrides
table="
      hard_methods         seed=0 ablation=base,$methods
      hard_methods         seed=1,2,3,4 ablation=$methods
      moderate_methods     seed=0 ablation=base $moderate
"
for seed in 0 1 2; do
  table+="
      hard_controls        seed=$seed ablation=$controls
      hard_credits         seed=$seed ablation=$credits
      hard_full_again      seed=$seed ablation=full
      hard_why             seed=$seed ablation=gec_only correction.answer=0.0 correction.reference=0.5
      hard_why             seed=$seed ablation=gec_only correction.answer=0.5 correction.reference=0.0
      hard_why             seed=$seed ablation=full credit.floor=1.0
      hard_why             seed=$seed ablation=full credit.ceiling=1.0
      hard_why             seed=$seed ablation=full credit.advantages=positive,negative
      hard_aggregation     seed=$seed ablation=gec_only,full objective.aggregation=token_mean
      moderate_methods     seed=$seed ablation=$methods,gec_only $moderate
"
  [ "$seed" = 2 ] || table+="
      hard_lr              seed=$seed ablation=$methods,gec_only optimizer.lr=2e-4,8e-4
      moderate_lr          seed=$seed ablation=$methods,gec_only data=arithmetic_moderate optimizer.lr=5e-5,1e-4
      hard_mixes           seed=$seed ablation=full correction.answer=0.0 correction.reference=0.5
      hard_mixes           seed=$seed ablation=full correction.answer=0.5 correction.reference=0.0
      hard_mixes           seed=$seed ablation=full correction.reflect=0.0 correction.answer=0.5 correction.reference=0.5
      hard_mixes           seed=$seed ablation=full correction.reflect=0.8 correction.answer=0.1 correction.reference=0.1
      hard_kl              seed=$seed ablation=full,grpo objective.kl_coefficient=0.04
      hard_off_policy      seed=$seed ablation=full,gec_only rollout.updates_per_rollout=4
      hard_halves          seed=$seed ablation=grpo,full,gec_only,full_eapo,hapo,rl_zvp $halves
      hard_references      seed=$seed ablation=full,sft data.corrupted_solutions=0.25,0.5 $any
"
done
token_mean="objective.aggregation=token_mean reward=boxed_and_format fidelity.advantage_ddof=1"
table+="
      hard_aggregation     seed=0 ablation=gec_only,full $token_mean
      hard_reference_code  seed=0 ablation=full fidelity=reference_code
      hard_reference_code  seed=0 ablation=full fidelity.retokenize=true
      hard_reference_code  seed=0 ablation=full fidelity.detach=false
      hard_reference_code  seed=0 ablation=full fidelity.mean_over=step
      hard_reference_code  seed=0 ablation=full fidelity.entropy_over_padding=true
      hard_controls        seed=3,4 ablation=gec_only
"

keep() {
  .venv/bin/python scripts/keep_records.py "outputs/study/$1" "docs/study/data/$1"
}

run_line() {
  local part=$1 folder=outputs/study/$1 status=0
  shift
  echo "study: $part: $*"
  .venv/bin/python scripts/keep_records.py --back "docs/study/data/$part" "$folder" || return 1
  # Ended between two rounds of keeping, never within one. A sleep left behind must hold no pipe.
  (trap exit TERM; while sleep 60 > /dev/null 2>&1 & wait $!; do keep "$part"; done) & keeper=$!
  trap 'kill "$keeper"' EXIT
  .venv/bin/edge-lightning fit -m "$@" "hydra.sweep.dir=$folder" "resume=$folder" \
    hydra/launcher=joblib "hydra.launcher.n_jobs=${JOBS:-2}" || status=$?
  kill "$keeper"
  trap - EXIT
  wait "$keeper" 2> /dev/null || true
  keep "$part" || [ "$status" -ne 0 ] || status=1
  return "$status"
}

asked=("$@")
worst=0
for part in "${asked[@]}"; do
  grep -q "^ *$part " <<< "$table" || { echo "study: no part $part; see the table in scripts/study.sh" >&2; exit 1; }
done
while read -r -u 3 part overrides; do
  [ -n "$part" ] || continue
  [ ${#asked[@]} -eq 0 ] || [[ " ${asked[*]} " == *" $part "* ]] || continue
  status=0
  # shellcheck disable=SC2086  # the overrides are words
  run_line "$part" $overrides || status=$?
  [ "$status" -ne 130 ] || exit 130
  [ "$status" -eq 0 ] || worst=$status
done 3<<< "$table"
exit "$worst"
