#include "paceline/tools/doctor/link_probe.h"

#include <sys/socket.h>

#include <array>
#include <atomic>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/base/file_descriptor.h"
#include "paceline/tools/doctor/probe_messages.h"
#include "paceline/transport/links/link_frames.h"
#include "paceline/transport/links/socket_address.h"

namespace paceline::doctor {
namespace {

using namespace std::chrono_literals;

ProbeEnd sealed_end(bool listens) {
  links::LinkKeys keys;
  keys.send.fill(std::byte(listens ? 1 : 2));
  keys.receive.fill(std::byte(listens ? 2 : 1));
  return {"127.0.0.1", links::Fabric::kSealed, keys};
}

void expect_figures(const ProbeEnd& listens, const ProbeEnd& connects) {
  const auto listener = ProbeListener::open(listens);
  ASSERT_TRUE(listener.ok()) << listener.status();
  std::jthread other([&] { (*listener)->serve([] { return false; }, 60s); });
  const auto figures = probe(connects, (*listener)->address(), 60s);
  ASSERT_TRUE(figures.ok()) << figures.status();
  EXPECT_GT(figures->round_trip_us, 0);
  EXPECT_GT(figures->there_mb_s, 0);
  EXPECT_GT(figures->back_mb_s, 0);
}

TEST(LinkProbe, MeasuresSealedLinks) { expect_figures(sealed_end(true), sealed_end(false)); }

TEST(LinkProbe, MeasuresLinksInTheClear) {
  for (const links::Fabric fabric : {links::Fabric::kTcp, links::Fabric::kUcx})
    expect_figures({"127.0.0.1", fabric}, {"127.0.0.1", fabric});
}

TEST(LinkProbe, SaysWhyThereIsNoLink) {
  std::string address;
  {
    const auto listener = ProbeListener::open(sealed_end(true));
    ASSERT_TRUE(listener.ok()) << listener.status();
    address = (*listener)->address();
  }
  const auto figures = probe(sealed_end(false), address, 60s);
  EXPECT_THAT(std::string(figures.status().message()), ::testing::HasSubstr(address));
}

TEST(LinkProbe, OtherKeysAreNoLink) {
  const auto listener = ProbeListener::open(sealed_end(true));
  ASSERT_TRUE(listener.ok()) << listener.status();
  std::atomic<bool> enough = false;
  std::jthread other([&] { (*listener)->serve([&] { return enough.load(); }, 60s); });
  EXPECT_FALSE(probe(sealed_end(true), (*listener)->address(), 60s).ok());
  enough = true;
}

TEST(LinkProbe, AListenerThatIsNeededNoMoreStops) {
  const auto listener = ProbeListener::open(sealed_end(true));
  ASSERT_TRUE(listener.ok()) << listener.status();
  int asked = 0;
  (*listener)->serve([&] { return ++asked > 2; }, 60s);
  EXPECT_EQ(asked, 3);
}

// A prober on a plain socket that keeps to the format of frames and to nothing else.
class Stranger {
 public:
  explicit Stranger(const std::string& address) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const links::SocketAddress to = links::parse_address(address).value();
    EXPECT_EQ(connect(socket_.get(), to.get(), to.bytes), 0);
    say(links::FrameKind::kHello, 0, 0,
        links::write_hello({.sealed = false, .most_payload = 1 << 20, .nonce = {}, .text = "probe"}));
    say(links::FrameKind::kReady, 0, 0, {});
  }

  void say(links::FrameKind kind, std::uint64_t message, std::uint64_t bytes,
           std::span<const std::byte> header) {
    const auto head = links::write_head({kind, count_++, message, bytes}, header, false);
    const std::array<std::uint32_t, 2> lengths{static_cast<std::uint32_t>(head.size()), 0};
    ::send(socket_.get(), lengths.data(), sizeof lengths, MSG_NOSIGNAL);
    ::send(socket_.get(), head.data(), head.size(), MSG_NOSIGNAL);
  }

  // The kind of the next frame; nothing if the listener has closed the link.
  std::optional<links::FrameKind> hear() {
    std::array<std::uint32_t, 2> lengths{};
    if (!read(std::as_writable_bytes(std::span(lengths)))) return std::nullopt;
    std::vector<std::byte> frame(lengths[0] + lengths[1]);
    if (!read(frame)) return std::nullopt;
    return static_cast<links::FrameKind>(frame.at(0));
  }

 private:
  bool read(std::span<std::byte> into) {
    return ::recv(socket_.get(), into.data(), into.size(), MSG_WAITALL) == static_cast<ssize_t>(into.size());
  }

  FileDescriptor socket_;
  std::uint64_t count_ = 0;
};

TEST(LinkProbe, UsesLittleMemoryIfThePeerOnlyOffers) {
  constexpr int kWindow = 8;
  const auto listener = ProbeListener::open({"127.0.0.1", links::Fabric::kTcp});
  ASSERT_TRUE(listener.ok()) << listener.status();
  std::jthread other([&] { (*listener)->serve([] { return false; }, 60s); });
  Stranger stranger((*listener)->address());
  for (std::uint64_t i = 0; i < 2 * kWindow; ++i)
    stranger.say(links::FrameKind::kOffer, i, 1 << 20, write_probe({ProbeKind::kData, 1 << 20}));
  // Two signs of life later the listener has handled all offers.
  int taken = 0;
  for (int beats = 0; beats < 2;) {
    const auto kind = stranger.hear();
    ASSERT_TRUE(kind);
    if (*kind == links::FrameKind::kAccept) ++taken;
    if (*kind == links::FrameKind::kHeartbeat && taken >= kWindow) ++beats;
  }
  EXPECT_EQ(taken, kWindow);
}

}  // namespace
}  // namespace paceline::doctor
