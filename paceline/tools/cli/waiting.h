// Waiting at the start of a job for something that another process is about to make.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <absl/status/statusor.h>
#include <fmt/format.h>

#include "paceline/base/start_patience.h"
#include "paceline/base/status_macros.h"
#include "paceline/processes/launch/print.h"
#include "paceline/processes/launch/stop_signals.h"

namespace paceline::cli {

// Asks `look` until it has something, and says after a while that `what` is waited for. Errors: those of `look`;
// Cancelled when a signal came, if they are caught; DeadlineExceeded after kStartPatience.
template <class T>
absl::StatusOr<T> wait_for(const std::string& what,
                           const std::function<absl::StatusOr<std::optional<T>>()>& look) {
  constexpr std::chrono::milliseconds kPauseBetween{100};
  constexpr std::chrono::seconds kUntold{20};  // a shorter wait is not explained to people
  const auto began = std::chrono::steady_clock::now();
  for (bool told = false;;) {
    PACELINE_ASSIGN_OR_RETURN(auto found, look());
    if (found) return *std::move(found);
    if (launch::stop_signals() > 0) return absl::CancelledError("stopped before anything was trained");
    const auto waited = std::chrono::steady_clock::now() - began;
    if (waited > kStartPatience)
      return absl::DeadlineExceededError(
          fmt::format("{} has not come within {} s", what, kStartPatience.count()));
    if (waited > kUntold && !std::exchange(told, true))
      launch::print(stderr, fmt::format("waiting for {}; at most {} s\n", what, kStartPatience.count()));
    std::this_thread::sleep_for(kPauseBetween);
  }
}

}  // namespace paceline::cli
