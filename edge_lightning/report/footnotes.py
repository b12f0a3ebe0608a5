"""What a report says of its own figures."""

FOOTNOTES = """
- **Accuracy** is pass@1: the mean over problems of the share of a problem's responses that are right, after training.
  For a method that trains nothing it is that of the policy itself; it depends on no seed and stands beside each of
  them.
- **pass@k**: the chance that at least one of k responses to a problem is right, without bias (Chen et al., 2021,
  arXiv:2107.03374), mean over problems, then mean ± sd over seeds. The largest k above 1 that was evaluated.
- **mean ± sd**: over seeds, sd with n - 1. With one seed there is no sd.
- **95 % interval** of an accuracy or a difference: percentile bootstrap, 9999 resamples, fixed seed, in which seeds and
  problems are both drawn with replacement, independently of each other. With one seed only problems are drawn, so it
  says nothing of other seeds. With few seeds it is optimistic (too narrow), the more so the more seeds differ: n seeds
  show on average (n - 1) / n of the variance between them. Where no problem was ever right, or all always, the interval
  of an accuracy is the exact binomial one over problems; a difference that is the same on every problem has an interval
  without width, which says nothing.
- **Difference**: a method minus the baseline ({baseline}), on the same problems (paired by id) and between runs of the
  same seed; `pairs` is seeds x problems.
- **p, problems**: sign-flip test. A problem's difference is averaged over seeds; the hypothesis is that it is as likely
  positive as negative. It holds for these runs: it does not ask what other seeds would do. Exact for up to 16 problems
  with a difference, else 9999 random flips and the observed one, which gives no p below .0002.
- **Holm**: the same, adjusted for the number of methods compared on this benchmark in this section.
- **p, seeds (least)**: exact sign-flip test over the seeds' differences; in brackets the smallest p that so many seeds
  can give, 2^-(n-1). It asks what other seeds would do, and with few seeds it can't be small.
- **average**, where there are several benchmarks, is over the problems of all of them together, so a large benchmark
  weighs more.
- **Curves**: each run is smoothed by the mean of its last {window} steps; then the mean over seeds is drawn, and the
  band from the least to the largest of them. The range of the axis is that of the smooth curves, so a single step may
  leave it.
- **Tokens** are those of training: sampled (first answers, also those that correction replaced), regenerated (what
  reflections added), injected (put in and not sampled). **Seconds** are wall-clock, on whatever else the machine was
  doing.
- **not run**: other methods of the section have this seed. **missing**: a sweep was to run it and there is no record.
  **unfinished**: steps are on disk but no summary, so it is under way or was killed. **not started**: no step is on
  disk.
"""
