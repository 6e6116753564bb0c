// What people read on standard output and standard error.
#pragma once

#include <cstdio>
#include <string>

namespace paceline::launch {

// At once. Where nobody reads it any more it is dropped: what was done lies in files.
void say(std::FILE* out, const std::string& text);

}  // namespace paceline::launch
