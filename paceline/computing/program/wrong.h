// The error in a program's message, in words that fit after "the program ".
#pragma once

#include <string>

#include <absl/status/status.h>

namespace paceline::program {

inline absl::Status wrong(const std::string& what) { return absl::DataLossError(what); }

}  // namespace paceline::program
