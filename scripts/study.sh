#!/usr/bin/env bash
# The ablation study of docs/study on this machine: scripts/study.sh [part ...]; without arguments every part, in this order.
# Stop it with Ctrl-C and start it again, here or on another machine: what is under docs/study/data is not run again, and
# what was begun here goes on. Records of finished runs are kept there as they come. JOBS=1: one run at a time.
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

methods=sft,grpo,force_r,force_r_eda,full
controls=gec_only,gec_no_wrong_prefix,full_no_wrong_prefix,gec_masked,gec_shaped,gec_supervised,eda_only,gec_wrong_label
controls+=,gec_wrong_answer,gec_foreign_reference,gec_statistics_only,full_sampled_baseline,compute_matched_grpo
moderate="data=arithmetic_moderate optimizer.lr=2e-4"

# A part is a multirun under outputs/study; several lines of one name are one. The first override varies slowest, so that a
# study that is cut short has whole seeds. Options that conf/ does not have are left out.
#     part              overrides
table="
      hard_methods      seed=0 ablation=base,$methods
      hard_methods      seed=1,2,3,4 ablation=$methods
      hard_controls     seed=0,1,2 ablation=$controls
      moderate_methods  seed=0 ablation=base,$methods $moderate
      moderate_methods  seed=1,2 ablation=$methods $moderate
"

# An override of a group with those of its options that exist; nothing if there are none.
existing() {
  local key=${1%%=*} options=() option
  [ -d "conf/$key" ] || { echo "$1"; return; }
  for option in $(tr , ' ' <<< "${1#*=}"); do
    if [ -e "conf/$key/$option.yaml" ]; then options+=("$option"); else echo "study: no $key=$option" >&2; fi
  done
  [ ${#options[@]} -eq 0 ] || (IFS=,; echo "$key=${options[*]}")
}

keep() {
  .venv/bin/python scripts/keep_records.py "outputs/study/$1" "docs/study/data/$1"
}

run_line() {
  local part=$1 folder=outputs/study/$1 overrides=() override found status=0
  shift
  for override in "$@"; do
    found=$(existing "$override")
    [ -n "$found" ] || return 0
    overrides+=("$found")
  done
  echo "study: $part: ${overrides[*]}"
  .venv/bin/python scripts/keep_records.py --back "docs/study/data/$part" "$folder" || return 1
  (while sleep 60; do keep "$part"; done) & keeper=$!
  trap 'kill "$keeper"' EXIT
  .venv/bin/edge-lightning fit -m "${overrides[@]}" "hydra.sweep.dir=$folder" "resume=$folder" \
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
