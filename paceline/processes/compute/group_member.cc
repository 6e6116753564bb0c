#include "paceline/processes/compute/group_member.h"

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "paceline/parameters/ps/group_sum.h"
#include "paceline/transport/collective/execution.h"
#include "paceline/transport/collective/progress.h"

namespace paceline::compute {

namespace {

// The members' gradients, as this one reaches them.
class GroupFabric final : public collective::Fabric {
 public:
  GroupFabric(Version version, std::vector<const float*> inputs, memory::GradientWriter& own,
              const std::function<bool()>& complete)
      : version_(version), inputs_(std::move(inputs)), own_(own), complete_(complete) {}

  // A commit that is complete needs no sum any more, and its members' gradients may change.
  std::optional<std::int64_t> finished(int) override {
    if (complete_()) return std::nullopt;
    return 0;
  }
  // A reduction in shared memory reads inputs alone.
  const float* read(int rank, collective::Source, collective::Range range) override {
    return inputs_[static_cast<std::size_t>(rank)] + range.begin;
  }
  float* write(collective::Range range) override { return own_.sums().data() + range.begin; }
  void publish(std::int64_t finished) override {
    own_.publish_sums(collective::progress_word(version_.value(), finished));
  }

 private:
  const Version version_;
  const std::vector<const float*> inputs_;
  memory::GradientWriter& own_;
  const std::function<bool()>& complete_;
};

}  // namespace

const memory::GradientReader* GroupMember::open(const wire::Reduce::Member& member) {
  const auto found = others_.find(member.replica());
  if (found != others_.end()) return &found->second;
  auto reader = memory::GradientReader::open(member.gradient_path(), floats_);
  return reader.ok() ? &others_.emplace(member.replica(), *std::move(reader)).first->second : nullptr;
}

absl::Status GroupMember::reduce(const wire::Reduce& order, const std::function<bool()>& complete) {
  for (const std::int32_t replica : order.left()) others_.erase(replica);
  if (order.rank() < 0 || order.rank() >= order.members_size())
    return absl::InvalidArgumentError(
        fmt::format("the coordinator sent rank {} of {}", order.rank(), order.members_size()));
  std::vector<const float*> inputs;
  std::vector<float> weights;
  for (const auto& member : order.members()) {
    weights.push_back(static_cast<float>(member.weight()));
    if (order.rank() == static_cast<int>(inputs.size())) {
      inputs.push_back(own_.gradient().data());
      continue;
    }
    const memory::GradientReader* reader = open(member);
    if (reader == nullptr) return absl::OkStatus();
    const auto gradient = reader->gradient(Clock(member.clock()));
    if (!gradient.ok()) return absl::OkStatus();  // the commit is complete, and it has gone on
    inputs.push_back(gradient->data());
  }
  GroupFabric fabric(Version(order.version()), std::move(inputs), own_, complete);
  const collective::Plan plan = ps::group_plan(order.members_size(), floats_);
  collective::Execution(plan, order.rank(), std::move(weights), fabric).advance();
  return absl::OkStatus();
}

}  // namespace paceline::compute
