// Helpers for tests of links: payloads that can be recognized, and driving a link until something has
// happened.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "paceline/transport/links/link.h"
#include "paceline/transport/links/link_listener.h"

namespace paceline::links::testing {

std::vector<std::byte> payload(std::size_t bytes, std::uint64_t seed);
std::vector<std::byte> to_bytes(const std::string& text);
std::string to_text(std::span<const std::byte> bytes);
// The keys of one end; `other`: of the other end.
LinkKeys keys(std::uint8_t seed = 1, bool other = false);

// Moves and sleeps until `done`, or until the link has ended; false after a minute, so that no test hangs.
bool drive(Link& link, const std::function<bool()>& done);
// The first link that a listener lets in; nothing after a minute.
std::unique_ptr<Link> first_link(LinkListener& listener, std::unique_ptr<Link>& slot);

// Collects all messages with their payloads.
class Inbox {
 public:
  struct Item {
    std::string header;
    std::vector<std::byte> payload;
    bool whole = false;
  };
  // Receives everything that comes over `link`, at once; `whole` gets each payload. Outlives the link.
  void attach(Link& link, std::function<void(Item&)> whole = {});
  const std::vector<std::unique_ptr<Item>>& items() const { return items_; }
  std::size_t whole() const { return whole_; }

 private:
  std::vector<std::unique_ptr<Item>> items_;
  std::size_t whole_ = 0;
};

}  // namespace paceline::links::testing
