// What people read on standard output and standard error.
#pragma once

#include <cstdio>
#include <string>

namespace paceline::launch {

// At once. What could not be written is dropped here and remembered below. Any thread.
void print(std::FILE* out, const std::string& text);

// The errno of the first thing that standard output did not take; 0: none. Where nobody reads it any more is
// no such thing: what was done lies in files, and who stops reading knows.
int stdout_error();

}  // namespace paceline::launch
