#include "paceline/transport/links/link_name.h"

#include <iterator>

#include <fmt/format.h>
#include <openssl/crypto.h>

namespace paceline::links {

std::string said_name(const std::string& name, const SealKey& secret, bool sealed) {
  if (sealed) return name;
  std::string said = name + ' ';
  for (const std::byte byte : secret) fmt::format_to(std::back_inserter(said), "{:02x}", byte);
  return said;
}

bool same_name(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace paceline::links
