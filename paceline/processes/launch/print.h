// Texts for people on standard output and standard error.
#pragma once

#include <cstdio>
#include <string>

namespace paceline::launch {

// Writes at once. A failure is not an error here, but remembered below. Any thread.
void print(std::FILE* out, const std::string& text);

// The errno of the first failed write to standard output; 0: none. A closed pipe does not count: the results
// are in files, and the reader stopped on purpose.
int stdout_error();

}  // namespace paceline::launch
