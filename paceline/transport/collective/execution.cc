#include "paceline/transport/collective/execution.h"

#include <algorithm>
#include <utility>

#include "paceline/base/check.h"
#include "paceline/transport/collective/weighted_sum.h"

namespace paceline::collective {

Execution::Execution(const Plan& plan, int rank, std::vector<float> weights, Fabric& fabric)
    : steps_(steps_of(plan, rank)), rank_(rank), weights_(std::move(weights)), fabric_(fabric) {
  PACELINE_CHECK(static_cast<int>(weights_.size()) == plan.ranks, "{} weights for {} ranks", weights_.size(),
                 plan.ranks);
}

Standing Execution::advance(std::int64_t most) {
  if (gone_) return {Standing::kPeerGone, *gone_};
  const auto all = static_cast<std::int64_t>(steps_.size());
  const std::int64_t stop = std::min(all, most < all ? finished_ + most : all);
  while (finished_ < stop) {
    const Step& step = steps_[static_cast<std::size_t>(finished_)];
    if (step.peer != rank_) {
      const std::optional<std::int64_t> there = fabric_.finished(step.peer);
      if (!there) {
        gone_ = step.peer;
        return {Standing::kPeerGone, step.peer};
      }
      if (*there < step.needs) return {Standing::kBlocked, step.peer, step.needs};
    }
    carry_out(step);
    fabric_.publish(++finished_);
  }
  return {finished_ == all ? Standing::kDone : Standing::kStopped};
}

void Execution::carry_out(const Step& step) {
  const float* from = fabric_.read(step.peer, step.source, step.range);
  float* to = fabric_.write(step.range);
  const float weight = step.source == Source::kInput ? weights_[static_cast<std::size_t>(step.peer)] : 1.0f;
  switch (step.op) {
    case Op::kProduct:
      return product(to, from, weight, step.range.size());
    case Op::kAccumulate:
      return accumulate(to, from, weight, step.range.size());
    case Op::kCopy:
      std::copy_n(from, step.range.size(), to);
  }
}

}  // namespace paceline::collective
