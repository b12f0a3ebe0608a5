#!/usr/bin/env bash
# Table 2 of EDGE-GRPO: Qwen2.5-Math-7B, both data sets, all rows. See paper_table.sh. Not yet run on hardware.
size=7b
source "$(dirname "${BASH_SOURCE[0]}")/paper_table.sh"
