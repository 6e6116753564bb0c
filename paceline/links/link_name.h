// The name that somebody connects with. A name alone is a claim that anybody can make. Where links are sealed
// their keys prove it. In the clear, a secret that only the two ends know follows the name.
#pragma once

#include <string>
#include <string_view>

#include "paceline/links/seal.h"

namespace paceline::links {

// What is said for `name`. `secret`: the connecting end's key to send with.
std::string said_name(const std::string& name, const SealKey& secret, bool sealed);

// Of two such names; in a time that does not tell how much of them is the same.
bool same_name(std::string_view a, std::string_view b);

}  // namespace paceline::links
