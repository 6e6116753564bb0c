#include "paceline/decisions/control/contribution_watch.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace paceline::control {

namespace {

constexpr std::int64_t kWindow = 100;  // contributions of a worker
constexpr int kMost = 3;
constexpr std::size_t kNorms = 64;
constexpr std::size_t kFewestNorms = 16;

constexpr char kWhatToTry[] =
    "Go on from the last checkpoint with a lower optimizer.lr, or with optimizer.clip";
constexpr char kOrLookAtSamples[] = ". If it has not learnt before, look for nan and inf in these samples";

bool overlap(const Lease& one, const Lease& other) {
  bool overlap = false;
  one.for_each_run([&](std::int64_t begin, std::int64_t end) {
    other.for_each_run([&](std::int64_t from, std::int64_t to) { overlap |= begin < to && from < end; });
  });
  return one.epoch == other.epoch && overlap;
}

}  // namespace

ContributionWatch::Judgement ContributionWatch::judge(const Contribution& contribution, std::size_t workers) {
  Worker& worker = workers_[contribution.worker];
  ++worker.contributions;
  while (!worker.bad.empty() && worker.bad.front().at <= worker.contributions - kWindow)
    worker.bad.pop_front();
  if (!contribution.not_finite.empty()) return judge_bad(contribution, workers, false);
  if (far_from_the_others(contribution.norm)) return judge_bad(contribution, workers, true);
  worker.good = std::max(worker.good, std::optional(contribution.version));
  bad_since_.clear();
  bad_in_a_row_ = 0;
  std::erase_if(tries_, [&](const Tries& tries) { return overlap(tries.lease, contribution.lease); });
  for (Tries& tries : tries_) tries.others_good = tries.others_good || contribution.version >= tries.since;
  return {};
}

ContributionWatch::Judgement ContributionWatch::judge_bad(const Contribution& contribution,
                                                          std::size_t workers, bool far) {
  Worker& worker = workers_[contribution.worker];
  worker.bad.push_back({worker.contributions, contribution.version});
  const std::string what =
      far ? fmt::format("{}: the norm of its gradient, {:.3g}, is far from the others', {:.3g}",
                        contribution.worker, contribution.norm, median())
          : fmt::format("{}: '{}' is not finite in its gradient{}", contribution.worker,
                        contribution.not_finite,
                        contribution.loss ? fmt::format(", at a loss of {:.4g}", *contribution.loss) : "");
  const std::string where =
      fmt::format("{} (version {}, {})", what, contribution.version, in_words(contribution.lease));
  if (!far) {
    bad_since_.insert(contribution.worker);
    ++bad_in_a_row_;
    const Tries& tries = tries_of(contribution);
    if (bad_in_a_row_ >= kMost && bad_since_.size() >= workers) {
      return {Verdict::kEndRun,
              fmt::format(
                  "the training diverges: the latest {} gradients, of all workers, were not finite. {}. {}{}",
                  bad_in_a_row_, where, kWhatToTry,
                  contribution.loss && !std::isfinite(*contribution.loss) ? kOrLookAtSamples : "")};
    }
    if (tries.times >= kMost && tries.workers.size() > 1 && tries.others_good) {
      return {Verdict::kEndRun,
              fmt::format(
                  "{} give a gradient that is not finite, {} times, on {}, and others do not. {}. Look at "
                  "these samples",
                  in_words(contribution.lease), tries.times, fmt::join(tries.workers, ", "), where)};
    }
  }
  if (workers > 1 && worker.bad.size() >= kMost && alone_with_it(contribution.worker)) {
    return {Verdict::kGiveUpWorker,
            fmt::format("{}; {} of its last {} were no good, and none of the others'. Look at this machine",
                        where, worker.bad.size(), std::min(worker.contributions, kWindow))};
  }
  return {Verdict::kDiscard, where + "; it is discarded, and its samples are issued again"};
}

ContributionWatch::Tries& ContributionWatch::tries_of(const Contribution& contribution) {
  auto found = std::find_if(tries_.begin(), tries_.end(),
                            [&](const Tries& one) { return overlap(one.lease, contribution.lease); });
  if (found == tries_.end())
    found = tries_.insert(found, {.lease = contribution.lease, .since = contribution.version, .workers = {}});
  found->workers.insert(contribution.worker);
  ++found->times;
  return *found;
}

// Norms change by orders of magnitude in the course of a training, so those that are far count as well from
// now on.
bool ContributionWatch::far_from_the_others(double norm) {
  if (outlier_factor_ == 0 || norm == 0) return false;
  const bool far = norms_.size() >= kFewestNorms && norm > outlier_factor_ * median();
  norms_.push_back(norm);
  if (norms_.size() > kNorms) norms_.pop_front();
  return far;
}

double ContributionWatch::median() const {
  std::vector<double> sorted(norms_.begin(), norms_.end());
  if (sorted.empty()) return 0;
  const auto middle = sorted.begin() + std::ssize(sorted) / 2;
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

// False if another worker has bad contributions too: then the fault is not this machine's. If the training
// diverges, a fast worker may have three before another has its first; so another worker must have had a good
// one at the first of these versions or later.
bool ContributionWatch::alone_with_it(const std::string& worker) const {
  const std::deque<Bad>& bad = workers_.at(worker).bad;
  const Version since = bad[bad.size() - kMost].version;
  bool another_did_well = false;
  for (const auto& [name, other] : workers_) {
    if (name == worker) continue;
    if (!other.bad.empty() && other.bad.back().at > other.contributions - kWindow) return false;
    another_did_well = another_did_well || other.good >= since;
  }
  return another_did_well;
}

}  // namespace paceline::control
