#include "paceline/transport/links/testing/link_ends.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace paceline::links::testing {

using std::chrono::steady_clock;

namespace {
constexpr auto kLimit = std::chrono::seconds(60);
}

std::vector<std::byte> payload(std::size_t bytes, std::uint64_t seed) {
  // Eight bytes at a time, so that large ones are made quickly.
  std::vector<std::byte> all(bytes);
  std::uint64_t word = seed * 0x9e3779b97f4a7c15u + 1;
  for (std::size_t at = 0; at < bytes; at += sizeof word) {
    word = word * 6364136223846793005u + 1442695040888963407u;
    std::memcpy(all.data() + at, &word, std::min(sizeof word, bytes - at));
  }
  return all;
}

std::vector<std::byte> to_bytes(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string to_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

LinkKeys keys(std::uint8_t seed, bool other) {
  LinkKeys keys;
  keys.send.fill(static_cast<std::byte>(seed));
  keys.receive.fill(static_cast<std::byte>(seed + 1));
  if (other) std::swap(keys.send, keys.receive);
  return keys;
}

bool drive(Link& link, const std::function<bool()>& done) {
  const auto until = steady_clock::now() + kLimit;
  while (steady_clock::now() < until) {
    const bool ended = !link.progress().ok();
    if (done() || ended) return true;
    link.wait(std::chrono::milliseconds(1000));
  }
  return false;
}

std::unique_ptr<Link> first_link(LinkListener& listener, std::unique_ptr<Link>& slot) {
  const auto until = steady_clock::now() + kLimit;
  while (!slot && steady_clock::now() < until) {
    listener.progress();
    if (!slot) listener.wait(std::chrono::milliseconds(1000));
  }
  return std::move(slot);
}

void Inbox::attach(Link& link, std::function<void(Item&)> whole) {
  link.on_message([this, &link, whole = std::move(whole)](const Link::Message& message) {
    items_.push_back(std::make_unique<Item>());
    Item& item = *items_.back();
    item.header = to_text(message.header);
    item.payload.resize(message.bytes);
    link.receive(message.id, item.payload, [this, &item, whole](const absl::Status& status) {
      if (!status.ok()) return;
      item.whole = true;
      ++whole_;
      if (whole) whole(item);
    });
  });
}

}  // namespace paceline::links::testing
