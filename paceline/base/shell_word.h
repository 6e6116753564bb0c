// Text for commands that a person pastes, or that a shell is given.
#pragma once

#include <string>

namespace paceline {

// The text, such that a shell takes it for one word: in quotes, unless it is plain.
std::string shell_word(const std::string& text);

}  // namespace paceline
