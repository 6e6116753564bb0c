// The program's version.
#pragma once

namespace paceline::cli {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace paceline::cli
