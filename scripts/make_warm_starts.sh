#!/usr/bin/env bash
# Make the shipped warm starts of the tiny policy anew: supervised training on short chains, one to three minutes each.
# Weights differ in the last bits between machines; the committed ones are what the studies start from.
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
for regime in hard moderate; do
  folder=outputs/fit/warm_up_$regime/shipped
  rm -rf "$folder"
  .venv/bin/edge-lightning fit experiment=warm_up_$regime hydra.run.dir="$folder" "$@"
  rm -rf "edge_lightning/assets/tiny_$regime"
  cp -r "$folder/checkpoints/hf" "edge_lightning/assets/tiny_$regime"
done
