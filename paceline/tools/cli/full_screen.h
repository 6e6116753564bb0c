// The whole screen of a terminal, by ncurses. One at a time; one thread.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <absl/status/statusor.h>

namespace paceline::cli {

class FullScreen {
 public:
  // Errors: the type of the terminal is unknown.
  static absl::StatusOr<std::unique_ptr<FullScreen>> open();
  // Restores the terminal.
  virtual ~FullScreen() = default;

  virtual std::pair<int, int> size() const = 0;  // columns, lines
  virtual void show(const std::vector<std::string>& lines) = 0;
  // Whether the user wants to leave: q, Escape. Waits up to `patience` for a key.
  virtual bool left(std::chrono::milliseconds patience) = 0;
};

}  // namespace paceline::cli
