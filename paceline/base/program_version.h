// The program's version.
#pragma once

namespace paceline {

inline constexpr char kProgramVersion[] = "0.1.0";

}  // namespace paceline
