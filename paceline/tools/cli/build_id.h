// The identity of this program's build, for results that several builds may have made.
#pragma once

#include <string>

namespace paceline::cli {

// "0.1.0 4588cd13f5435caf": the version, and the beginning of the identity that the linker gave the program. It is the
// same for the same code from the same compiler. Without an identity it is the version alone.
std::string build_id();

}  // namespace paceline::cli
