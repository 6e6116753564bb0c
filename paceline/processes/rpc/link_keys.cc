#include "paceline/processes/rpc/link_keys.h"

#include <algorithm>

#include <fmt/format.h>

namespace paceline::rpc {

namespace {

links::SealKey key_of(const std::string& bytes) {
  links::SealKey key{};
  std::copy_n(bytes.begin(), key.size(), reinterpret_cast<char*>(key.data()));
  return key;
}

}  // namespace

std::string new_link_key() {
  links::SealKey key{};
  links::random_bytes(key);
  return {reinterpret_cast<const char*>(key.data()), key.size()};
}

absl::StatusOr<links::LinkKeys> link_keys(const std::string& send, const std::string& receive) {
  constexpr std::size_t size = sizeof(links::SealKey);
  if (send.size() != size || receive.size() != size) {
    return absl::InternalError(fmt::format("the coordinator gave keys of {} and {} bytes where they have {}",
                                           send.size(), receive.size(), size));
  }
  return links::LinkKeys{.send = key_of(send), .receive = key_of(receive)};
}

}  // namespace paceline::rpc
