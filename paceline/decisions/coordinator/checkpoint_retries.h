// Decides when to try a failed checkpoint again. A full disk may have space later, and a missing folder may
// come back. Until then the run keeps its progress in memory. At the end of a run there is less time. Pure.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

#include "paceline/decisions/coordinator/actions.h"

namespace paceline::coordinator {

class CheckpointRetries {
 public:
  static constexpr std::chrono::seconds kFirstPause{1};  // each is twice as long as the one before
  static constexpr std::chrono::seconds kLongestPause{300};
  static constexpr int kTriesAtTheEnd = 4;

  // A checkpoint failed. Returns the pause before the next try; nothing if the run ends and this was the last
  // try.
  std::optional<std::chrono::seconds> failed(SteadyTime at, bool ending) {
    ++failed_;
    if (ending && failed_ >= kTriesAtTheEnd) return std::nullopt;
    const auto pause = std::min(kLongestPause, kFirstPause * (1 << std::min(failed_ - 1, 20)));
    again_at_ = at + pause;
    return pause;
  }
  // Whether people hear that one failed, and when it is tried again: not before that time is over. Other
  // checkpoints may be due in it.
  bool is_news(SteadyTime at) {
    if (told_until_ && at < *told_until_) return false;
    told_until_ = again_at_;
    return true;
  }
  // A checkpoint counts. Returns whether one had failed before it.
  bool written() {
    again_at_.reset();
    told_until_.reset();
    return std::exchange(failed_, 0) > 0;
  }
  // A checkpoint is tried now.
  void tried() { again_at_.reset(); }
  // The run ends: it is tried at once, and a few times.
  void end() {
    failed_ = std::min(failed_, 1);
    again_at_.reset();
    told_until_.reset();
  }

  bool waiting(SteadyTime at) const { return again_at_ && at < *again_at_; }
  bool due(SteadyTime at) const { return again_at_ && at >= *again_at_; }

 private:
  int failed_ = 0;  // failures in a row
  std::optional<SteadyTime> again_at_;
  std::optional<SteadyTime> told_until_;
};

}  // namespace paceline::coordinator
