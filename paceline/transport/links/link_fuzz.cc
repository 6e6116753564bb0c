// Any frames that a peer may send, to a link that is open: it takes them or ends with one line, and never
// writes to memory that it was not given. The input is a sequence of frames: kind, length of the header, of
// the data, message, bytes; then header and data themselves. Counts are right unless the kind's highest bit
// is set, so that the checks behind them are reached.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>

#include "paceline/base/check.h"
#include "paceline/transport/links/link.h"
#include "paceline/transport/links/testing/paired_ports.h"

namespace {

using namespace paceline::links;
using paceline::links::testing::Frame;
using paceline::links::testing::PairedPort;

class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  bool empty() const { return at_ >= size_; }
  std::uint64_t number(std::size_t bytes) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes && !empty(); ++i) value |= std::uint64_t{data_[at_++]} << (8 * i);
    return value;
  }
  std::vector<std::byte> take(std::size_t bytes) {
    std::vector<std::byte> taken(bytes);
    for (std::byte& one : taken) one = static_cast<std::byte>(number(1));
    return taken;
  }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
  std::size_t at_ = 0;
};

Frame next_frame(Bytes& bytes, std::uint64_t& count) {
  const auto kind = bytes.number(1);
  const std::vector<std::byte> header = bytes.take(bytes.number(1));
  const std::vector<std::byte> data = bytes.take(bytes.number(2) % 6000);
  const FrameHead head{static_cast<FrameKind>(kind & 0x0f), count++, bytes.number(1), bytes.number(3)};
  Frame frame{write_head(head, header, false), data};
  if ((kind & 0x80) != 0 && !frame.head.empty())
    frame.head[bytes.number(1) % frame.head.size()] ^= std::byte{4};
  if ((kind & 0x40) != 0) frame.head.resize(bytes.number(1));
  return frame;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes bytes(data, size);
  auto owned = std::make_unique<PairedPort>();
  PairedPort& port = *owned;
  LinkOptions options;
  options.most_payload = 1 << 20;
  Link link(std::move(owned), "a peer", [=](const auto&) { return options; });
  std::map<std::uint64_t, std::vector<std::byte>> memory;
  std::vector<std::uint64_t> later;
  const auto take = [&](std::uint64_t id) { link.receive(id, memory.at(id), [](const absl::Status&) {}); };
  link.on_message([&](const Link::Message& message) {
    PACELINE_CHECK(message.bytes <= options.most_payload && message.header.size() <= kMostHeaderBytes, "{}",
                   message.bytes);
    memory[message.id].resize(message.bytes);
    if (message.header.size() % 2 == 0) return take(message.id);
    later.push_back(message.id);
  });
  // The link sends too, so that there are messages for accepts.
  const std::vector<std::byte> mine(50'000);
  for (int i = 0; i < 3; ++i) link.send({}, mine, [](const absl::Status&) {});
  const bool greeted = bytes.number(1) % 8 != 0;
  std::uint64_t count = 0;
  if (greeted) {
    Hello hello{.sealed = false, .most_payload = 1 << 20, .nonce = {}, .text = "x"};
    port.inject({write_head({FrameKind::kHello, count++, 0, 0}, write_hello(hello), false), {}});
    port.inject({write_head({FrameKind::kReady, count++, 0, 0}, {}, false), {}});
  }
  absl::Status status;
  while (!bytes.empty() && status.ok()) {
    port.inject(next_frame(bytes, count));
    status = link.progress();
    for (const std::uint64_t id : std::exchange(later, {})) take(id);
  }
  const std::string message(status.message());
  PACELINE_CHECK(message.find('\n') == std::string::npos, "{}", message);
  return 0;
}
