// Shows a run under way to a person or a program: one line that changes, or a JSON object each second. One
// thread.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "paceline/formats/wire/paceline.pb.h"

namespace paceline::launch {

// This environment variable is for a command that shows the lines of a display without a terminal in place: each line of
// progress begins with a carriage return then, and no note does.
inline constexpr char kMarksProgress[] = "PACELINE_MARKS_PROGRESS";

enum class Shown {
  kLine,
  kJson,     // objects on standard output instead
  kNothing,  // only notes
};

class Display {
 public:
  // `label`: a text before the line, for the run's policy.
  Display(std::string label, Shown shown);
  ~Display();

  void show(const wire::StatusReply& status);
  // Shows a line that stays.
  void note(const std::string& line);
  // The width of the line in columns; 0 if standard error is no terminal.
  int width() const;

 private:
  void clear();

  const std::string label_;
  const Shown what_;
  const bool terminal_;  // whether standard error is a terminal, on which the line can change in place
  const bool marks_;     // lines of progress, for the command that reads them
  std::string shown_;    // the line that stands on the terminal
  std::string last_line_, last_phase_;  // the last ones that were printed if it is no terminal
  std::string last_json_;
  std::optional<std::chrono::steady_clock::time_point> last_;
};

}  // namespace paceline::launch
