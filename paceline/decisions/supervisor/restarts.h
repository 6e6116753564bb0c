// The limit of how often a run goes back to its last checkpoint by itself. Pure.
#pragma once

#include <optional>

#include "paceline/base/ids.h"

namespace paceline::supervisor {

class Restarts {
 public:
  // In a row without a newer checkpoint in between.
  static constexpr int kMost = 5;

  // Notes another failure, when `newest` was the newest checkpoint (nothing: there is none). True if the run
  // should go on.
  bool again(std::optional<Version> newest) {
    in_vain_ = !seen_ || newest > newest_ ? 1 : in_vain_ + 1;
    seen_ = true;
    newest_ = newest;
    return in_vain_ <= kMost;
  }

 private:
  bool seen_ = false;
  std::optional<Version> newest_;
  int in_vain_ = 0;
};

}  // namespace paceline::supervisor
