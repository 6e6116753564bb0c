// Local SGD: bulk synchronous rounds in which each replica takes H steps by itself, with a momentum of its
// own, before all meet. Then the moves of all replicas are averaged. [McMahan and others 2017; Stich 2019]
// Between two meetings there is no push and no pull, so at H = 100 a round costs a hundredth of the
// communication.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/decisions/policy/bsp.h"
#include "paceline/decisions/policy/policy_text.h"

namespace paceline::policy {

class LocalSgd final : public Bsp {
 public:
  // Requires: at least one step.
  explicit LocalSgd(std::int64_t steps) : steps_(steps) {}
  std::int64_t local_steps() const override { return steps_; }

 private:
  const std::int64_t steps_;
};

struct LocalSgdSpec {
  static constexpr const char* kName = "local-sgd";
  static constexpr const char* kForm = "local-sgd:H";
  std::int64_t steps = 1;

  static absl::StatusOr<LocalSgdSpec> parse(const PolicyText& text);
  static std::vector<std::string> examples();
  std::string text() const;
  std::unique_ptr<SyncPolicy> make() const;
  friend bool operator==(const LocalSgdSpec&, const LocalSgdSpec&) = default;
};

}  // namespace paceline::policy
