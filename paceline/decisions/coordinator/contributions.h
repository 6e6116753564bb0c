// The gradients of a run's workers, as far as they may be wrong: which ones are discarded, and which workers were
// given up because of theirs. Pure.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "paceline/decisions/control/contribution_watch.h"
#include "paceline/decisions/coordinator/actions.h"

namespace paceline::coordinator {

class Contributions {
 public:
  using Verdict = control::ContributionWatch::Verdict;

  // `given_up`: workers that earlier attempts gave up, and why. The outbox outlives this.
  Contributions(double outlier_factor, std::map<std::string, std::string> given_up, Outbox& out)
      : out_(out), watch_(outlier_factor), given_up_(std::move(given_up)) {}

  // Tells people of a discarded contribution, and gives its worker up if it must.
  control::ContributionWatch::Judgement judge(const control::Contribution& one, std::size_t workers) {
    auto judged = watch_.judge(one, workers);
    if (judged.verdict == Verdict::kDiscard) tell_of_discarded(judged.why);
    if (judged.verdict == Verdict::kGiveUpWorker) give_up(one.worker, judged.why);
    return judged;
  }
  void give_up(const std::string& worker, const std::string& why) { wrong_workers_[worker] = why; }
  // The reason if the worker was given up, in this attempt or before.
  std::optional<std::string> why_given_up(const std::string& worker) const {
    for (const auto* all : {&given_up_, &wrong_workers_}) {
      if (const auto found = all->find(worker); found != all->end()) return found->second;
    }
    return std::nullopt;
  }
  // Workers that this attempt gave up, and why.
  const std::map<std::string, std::string>& wrong_workers() const { return wrong_workers_; }

  void iteration_had(double loss) {
    if (std::isfinite(loss)) last_loss_ = loss;
  }
  // The last loss of an iteration that was a finite number.
  std::optional<double> last_loss() const { return last_loss_; }

 private:
  // A model that has a few of them all the time does not fill the screen.
  void tell_of_discarded(const std::string& why) {
    constexpr std::int64_t kAll = 3;
    ++discarded_;
    const bool power_of_two = (discarded_ & (discarded_ - 1)) == 0;
    if (discarded_ > kAll && !power_of_two) return out_.tell(why);
    out_.tell_and_remember(discarded_ > kAll ? fmt::format("{} (the {}th such gradient)", why, discarded_)
                                             : why);
  }

  Outbox& out_;
  control::ContributionWatch watch_;
  const std::map<std::string, std::string> given_up_;
  std::map<std::string, std::string> wrong_workers_;
  std::int64_t discarded_ = 0;
  std::optional<double> last_loss_;
};

}  // namespace paceline::coordinator
