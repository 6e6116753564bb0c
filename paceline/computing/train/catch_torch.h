// Catches libtorch's exceptions: every public function of this folder that may get one runs inside
// catch_torch, which turns it into a status of one line.
#pragma once

#include <exception>
#include <string>
#include <type_traits>

#include <absl/status/status.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

namespace paceline::train {

inline absl::Status torch_failed(const std::string& doing, const std::string& what) {
  return absl::InternalError(
      fmt::format("{} failed in libtorch: {}", doing, what.substr(0, what.find('\n'))));
}

// Runs `function`, which returns a StatusOr. `doing` says what it does: "a training step".
template <class Function>
std::invoke_result_t<Function> catch_torch(const std::string& doing, Function&& function) {
  try {
    return function();
  } catch (const c10::Error& error) {
    return torch_failed(doing, error.what_without_backtrace());
  } catch (const std::exception& error) {
    return torch_failed(doing, error.what());
  }
}

}  // namespace paceline::train
