// Guesses which word a person meant who wrote another one. Pure.
#pragma once

#include <optional>
#include <set>
#include <string>

namespace paceline {

// The closest of `known`; nothing if none is close.
std::optional<std::string> likely_meant(const std::string& word, const std::set<std::string>& known);

}  // namespace paceline
