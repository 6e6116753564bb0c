// How far commits have moved the weights, in bulk rounds: Σ f over them. It is kept for the versions that a
// replica may still compute on. Pure.
//
// Each function takes O(1). Memory grows with the number of versions since the oldest one kept.
#pragma once

#include <cstddef>
#include <deque>

#include "paceline/base/ids.h"

namespace paceline::control {

class CommittedRounds {
 public:
  explicit CommittedRounds(Version newest) : oldest_(newest) {}

  // The next version is made of this part of the bulk.
  void commit(double fraction) { until_.push_back(until_.back() + fraction); }
  // Σ f over the commits after `base`. Requires: `base` is neither forgotten nor still to come.
  double since(Version base) const;

  // Whether it is time to forget some versions: there are more than twice as many as after the last time,
  // plus `more`. Then a caller that looks at `more` things to find the oldest takes O(1) a commit.
  bool too_many(std::size_t more) const { return until_.size() > 2 * kept_ + more; }
  // From now on nobody asks for versions before this one. Requires: it is neither forgotten nor still to
  // come.
  void forget_before(Version oldest);

 private:
  std::size_t index(Version version) const;

  Version oldest_;
  std::deque<double> until_{0};  // Σ f over all commits up to each version, from the oldest on
  std::size_t kept_ = 1;         // when some were forgotten last
};

}  // namespace paceline::control
