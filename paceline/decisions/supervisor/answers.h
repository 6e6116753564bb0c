// A launcher's memory of the coordinator's answers, and of how long there was none. Pure.
#pragma once

#include <chrono>
#include <utility>

#include "paceline/decisions/supervisor/events.h"

namespace paceline::supervisor {

class Answers {
 public:
  using SteadyTime = std::chrono::steady_clock::time_point;

  explicit Answers(SteadyTime now) : silent_since_(now) {}

  void hear(const Answered& answer, SteadyTime now) {
    latest_ = answer;
    heard_at_ = now;
    here_ = ever_ = true;
    nobody_ = silence_told_ = false;
  }
  // True if the question before was answered: the silence begins now.
  bool hear(const NotAnswered& no, SteadyTime now) {
    nobody_ = no.nobody;
    if (!std::exchange(here_, false)) return false;
    silent_since_ = now;
    return true;
  }
  // Another coordinator is asked from now on.
  void ask_another(SteadyTime now) { silent_since_ = now; }

  const Answered& latest() const { return latest_; }
  SteadyTime heard_at() const { return heard_at_; }
  // True if the last question was answered.
  bool here() const { return here_; }
  bool ever() const { return ever_; }
  // True if nothing listened at the last question.
  bool nobody() const { return nobody_; }
  // Meaningful while the last question was not answered.
  SteadyTime silent_since() const { return silent_since_; }
  // True at the first call in this silence.
  bool tell_silence() { return !std::exchange(silence_told_, true); }

 private:
  Answered latest_;
  bool here_ = false, ever_ = false, nobody_ = false, silence_told_ = false;
  SteadyTime heard_at_{}, silent_since_;
};

}  // namespace paceline::supervisor
