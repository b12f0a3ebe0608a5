#!/usr/bin/env bash
# Table 1 of EDGE-GRPO: Qwen2.5-Math-1.5B, both data sets, all rows. See paper_table.sh. Not yet run on hardware.
size=1_5b
source "$(dirname "${BASH_SOURCE[0]}")/paper_table.sh"
