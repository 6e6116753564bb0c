// What a person or a program sees of a run under way: one line that changes, or a JSON object a second. One
// thread.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "paceline/wire/paceline.pb.h"

namespace paceline::launch {

enum class Shown {
  kLine,
  kJson,     // objects on standard output instead
  kNothing,  // but notes
};

class Display {
 public:
  // `label`: before the line, how the run synchronizes.
  Display(std::string label, Shown shown);
  ~Display();

  void show(const wire::StatusReply& status);
  // A line that stays.
  void note(const std::string& line);
  // Of the line, in columns; 0 where it goes to no terminal.
  int width() const;

 private:
  void clear();

  const std::string label_;
  const Shown what_;
  const bool terminal_;  // standard error is one: the line can change in place
  bool shown_ = false;
  std::string last_line_, last_phase_;  // off a terminal
  std::string last_json_;
  std::optional<std::chrono::steady_clock::time_point> last_;
};

}  // namespace paceline::launch
