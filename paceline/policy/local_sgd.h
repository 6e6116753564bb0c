// Local SGD: bulk synchronous rounds in which each replica takes H steps by itself, with a momentum of its
// own, before all meet; what is averaged then is how far each came. [McMahan and others 2017; Stich 2019]
// Between two meetings nothing is pushed or pulled, so a round costs a hundredth of the communication at H =
// 100.
#pragma once

#include "paceline/policy/bsp.h"

namespace paceline::policy {

class LocalSgd final : public Bsp {
 public:
  // Requires: at least one step.
  explicit LocalSgd(std::int64_t steps) : steps_(steps) {}
  std::int64_t local_steps() const override { return steps_; }

 private:
  const std::int64_t steps_;
};

}  // namespace paceline::policy
