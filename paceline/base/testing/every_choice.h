// Runs a piece of test code once for every way its choices can go: depth first, each combination exactly
// once, with no list of combinations made beforehand. After TigerBeetle's exhaustigen.
//
//   for (EveryChoice choose; choose.again();) {
//     const std::size_t first = choose.below(3);
//     const bool second = choose.yes();
//     …
//   }
//
// The code must be deterministic: with the same choices made so far it asks for the same next one.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "paceline/base/check.h"

namespace paceline::testing {

class EveryChoice {
 public:
  // Goes on to the next combination; false when all have been had.
  bool again() {
    if (!started_) return started_ = true;
    PACELINE_CHECK(at_ == made_.size(), "{} choices asked for, {} made before", at_, made_.size());
    while (!made_.empty() && made_.back().value + 1 == made_.back().bound) made_.pop_back();
    if (made_.empty()) return false;
    ++made_.back().value;
    at_ = 0;
    return true;
  }

  // One of 0..bound-1. Requires: bound > 0.
  std::size_t below(std::size_t bound) {
    PACELINE_CHECK(bound > 0, "nothing to choose from");
    if (at_ == made_.size()) made_.push_back({0, bound});
    PACELINE_CHECK(made_[at_].bound == bound, "choice {} was among {}, now {}", at_, made_[at_].bound, bound);
    return made_[at_++].value;
  }
  bool yes() { return below(2) == 1; }

  // The choices made so far, for a failure to print.
  std::string path() const {
    std::vector<std::size_t> values;
    for (std::size_t i = 0; i < at_; ++i) values.push_back(made_[i].value);
    return fmt::format("choices {}", fmt::join(values, " "));
  }

 private:
  struct Made {
    std::size_t value;
    std::size_t bound;
  };
  std::vector<Made> made_;
  std::size_t at_ = 0;
  bool started_ = false;
};

}  // namespace paceline::testing
