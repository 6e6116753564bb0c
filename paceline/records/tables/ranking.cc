#include "paceline/records/tables/ranking.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "paceline/records/stats/standard_error.h"
#include "paceline/records/tables/missed_paces.h"
#include "paceline/records/tables/terminal_text.h"

namespace paceline::report {

namespace {

enum class Measure { kAccuracy, kLoss, kNone };

std::optional<double> value_of(const RunGroup& group, Measure measure) {
  return mean_of_all(group, [&](const Summary& run) -> std::optional<double> {
    if (!run.last_evaluation || measure == Measure::kNone) return std::nullopt;
    return measure == Measure::kAccuracy ? run.last_evaluation->accuracy : run.last_evaluation->loss;
  });
}

// The mean time to the target; nothing unless every run has reached it.
std::optional<double> time_of(const RunGroup& group) {
  return mean_of_all(group, [](const Summary& run) { return run.time_to_target_s(); });
}

bool any_has(const std::vector<const RunGroup*>& groups, Measure measure) {
  return std::any_of(groups.begin(), groups.end(),
                     [&](const RunGroup* group) { return value_of(*group, measure).has_value(); });
}

// The ends of runs, compared by a measure that any of them has. A run without a finite value of it has
// diverged, and is not near the best.
class Ends {
 public:
  explicit Ends(const std::vector<const RunGroup*>& groups) {
    if (groups.empty()) return;
    measure_ = any_has(groups, Measure::kAccuracy) ? Measure::kAccuracy
               : any_has(groups, Measure::kLoss)   ? Measure::kLoss
                                                   : Measure::kNone;
    for (const RunGroup* group : groups) {
      if (measure_ != Measure::kNone && !value_of(*group, measure_)) continue;
      if (best_ == nullptr || worse(*best_, *group) > 0) best_ = group;
    }
  }

  bool within_margin(const RunGroup& group) const {
    if (measure_ == Measure::kNone) return true;
    if (!value_of(group, measure_)) return false;
    const double best = std::abs(*value_of(*best_, measure_));
    const double margin = measure_ == Measure::kAccuracy ? kAccuracyMargin : kOtherMargin * best;
    return worse(group, *best_) <= margin + kRounding * best;
  }

  // Requires: any.
  const RunGroup& best() const { return *best_; }

  std::string margin_text() const {
    switch (measure_) {
      case Measure::kAccuracy:
        return fmt::format(" among those that end within {:.0f} point of the best ({} %)",
                           100 * kAccuracyMargin, percent(*value_of(*best_, measure_), 2));
      case Measure::kLoss:
        return fmt::format(" among those that end within {:.0f} % of the best (loss {:.4g})",
                           100 * kOtherMargin, *value_of(*best_, measure_));
      case Measure::kNone:
        break;
    }
    return "";
  }

  // A phrase like "ends 5.27 points lower than dssp:3-15".
  std::string how_much_worse(const RunGroup& group, const RunGroup& other) const {
    if (!value_of(group, measure_)) return "its end is not a finite number";
    if (measure_ == Measure::kAccuracy)
      return fmt::format("ends {:.2f} points lower than {}", 100 * worse(group, other),
                         printable(other.policy));
    return fmt::format("ends with a loss of {:.4g} instead of {:.4g}", *value_of(group, measure_),
                       *value_of(other, measure_));
  }

 private:
  // How much worse one ends than the other; negative: better.
  double worse(const RunGroup& group, const RunGroup& other) const {
    if (measure_ == Measure::kNone) return 0;
    const double sign = measure_ == Measure::kAccuracy ? -1 : 1;
    return sign * (*value_of(group, measure_) - *value_of(other, measure_));
  }

  Measure measure_ = Measure::kNone;
  const RunGroup* best_ = nullptr;
};

// The missed paces of the first run that missed any.
std::string missed_by(const RunGroup& group) {
  for (const Summary* run : group.runs) {
    if (std::string missed = missed_paces(*run); !missed.empty()) return missed;
  }
  return "";
}

// "its training diverged with 2 of 3 seeds"; empty if no run of it did.
std::string how_it_diverged(const RunGroup& group) {
  const auto count = std::count_if(group.runs.begin(), group.runs.end(),
                                   [](const Summary* run) { return run->run.diverged; });
  if (count == 0) return "";
  if (group.runs.size() == 1) return "its training diverged";
  return fmt::format("its training diverged with {} of {} seeds", count, group.runs.size());
}

// How a policy failed to be the fastest, for a comparison without a fastest; empty if it never reached the
// target.
std::string how_it_missed(const RunGroup& group, const Ends& ends) {
  const auto reached = spread(group, [](const Summary& run) { return run.time_to_target_s(); });
  if (!reached) return "";
  if (reached->count < group.runs.size())
    return fmt::format("{} reached it with {} of {} seeds", printable(group.policy), reached->count,
                       group.runs.size());
  return fmt::format("{} reaches it after {} {}, but {}", printable(group.policy),
                     seconds_text(reached->mean), seconds_of(group.runs.front()->run.world),
                     ends.how_much_worse(group, ends.best()));
}

// Explains why no policy is the fastest. Adds nothing if there is no target, or no policy to rank.
void say_that_none_is(const std::vector<const RunGroup*>& ranked, const Ends& ends,
                      std::vector<std::string>& verdict) {
  if (ranked.empty() || !ranked.front()->runs.front()->run.target) return;
  std::vector<std::string> missed;
  for (const RunGroup* group : ranked) {
    if (std::string how = how_it_missed(*group, ends); !how.empty()) missed.push_back(std::move(how));
  }
  const bool seeds = !missed.empty() && ranked.front()->runs.size() > 1;
  verdict.push_back(fmt::format(
      "none{} has reached the target ({}){}", missed.empty() || ranked.size() == 1 ? "" : ends.margin_text(),
      to_string(*ranked.front()->runs.front()->run.target), seeds ? " with every seed" : ""));
  verdict.insert(verdict.end(), missed.begin(), missed.end());
}

bool was_evaluated(const RunGroup& group) {
  return std::all_of(group.runs.begin(), group.runs.end(),
                     [](const Summary* run) { return run->last_evaluation.has_value(); });
}

}  // namespace

Ranking rank(const std::vector<Summary>& runs, const PlannedRuns& planned) {
  Ranking ranking;
  const auto over = static_cast<std::size_t>(
      std::count_if(runs.begin(), runs.end(), [](const Summary& run) { return run.is_over(); }));
  if (over < planned.all) {
    const bool race = !runs.empty() && runs.front().run.target;
    ranking.verdict.push_back(fmt::format("{} of {} trainings are done{}", over, planned.all,
                                          race ? ", so it is open who is the fastest" : ""));
    return ranking;
  }
  const std::vector<RunGroup> groups = groups_of(runs);
  std::vector<const RunGroup*> ranked;
  // A run that was never evaluated has no end to compare, and reached no target. The last evaluation of one that
  // diverged is no end.
  for (const RunGroup& group : groups) {
    if (missed_by(group).empty() && how_it_diverged(group).empty() && was_evaluated(group))
      ranked.push_back(&group);
  }
  const Ends ends(ranked);
  const RunGroup* fastest = nullptr;
  const auto time_within_margin = [&](const RunGroup& group) {
    return ends.within_margin(group) ? time_of(group) : std::nullopt;
  };
  for (const RunGroup* group : ranked) {
    const std::optional<double> time = time_within_margin(*group);
    if (time && (fastest == nullptr || *time < *time_of(*fastest))) fastest = group;
  }
  if (fastest != nullptr) {
    ranking.fastest = fastest->policy;
    const Summary& first = *fastest->runs.front();
    std::vector<std::string> firsts;  // policies may do the same, for example cgp:S=0 and bsp
    for (const RunGroup* group : ranked) {
      const std::optional<double> time = time_within_margin(*group);
      if (time && *time <= *time_of(*fastest) * (1 + kRounding)) firsts.push_back(printable(group->policy));
    }
    ranking.verdict.push_back(
        fmt::format("{} {} the first to reach the target ({}){}: after {} {}{}", fmt::join(firsts, " and "),
                    firsts.size() > 1 ? "are" : "is", to_string(*first.run.target),
                    ranked.size() > 1 ? ends.margin_text() : "", seconds_text(*time_of(*fastest)),
                    seconds_of(first.run.world), fastest->runs.size() > 1 ? " on average" : ""));
  }
  if (fastest == nullptr) say_that_none_is(ranked, ends, ranking.verdict);
  for (const RunGroup* group : ranked) {
    const std::optional<double> time = time_of(*group);
    if (fastest == nullptr || !time || ends.within_margin(*group) || *time >= *time_of(*fastest)) continue;
    ranking.verdict.push_back(fmt::format("{} reaches it {:.2f} × as fast, but {}", printable(group->policy),
                                          *time_of(*fastest) / *time, ends.how_much_worse(*group, *fastest)));
  }
  for (const RunGroup& group : groups) {
    const std::string diverged = how_it_diverged(group), missed = missed_by(group);
    if (!diverged.empty())
      ranking.verdict.push_back(fmt::format("{} is not ranked: {}", printable(group.policy), diverged));
    if (missed.empty()) continue;
    ranking.verdict.push_back(
        fmt::format("{} is not ranked: {}; {}", printable(group.policy), missed, kPaceAdvice));
  }
  return ranking;
}

}  // namespace paceline::report
