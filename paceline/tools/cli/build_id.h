// The identity of this program's build: for results that several builds may have made, and for hosts that may have
// different ones.
#pragma once

#include <string>

namespace paceline::cli {

// A hash of this program's file. Reads the whole file.
std::string program_hash();

// "0.1.0 4588cd13f5435caf": the version and that hash, which is taken once.
const std::string& build_id();

}  // namespace paceline::cli
