// The name with which a peer connects. A name alone is a claim that anybody can make. On sealed links the
// keys prove it. In the clear, a secret that only the two ends know follows the name.
#pragma once

#include <string>
#include <string_view>

#include "paceline/transport/links/seal.h"

namespace paceline::links {

// The text that the connecting end sends for `name`. `secret`: its key to send with.
std::string said_name(const std::string& name, const SealKey& secret, bool sealed);

// Compares two such texts, in a time that does not tell how much of them is the same.
bool same_name(std::string_view a, std::string_view b);

}  // namespace paceline::links
