// Faults that only channels over links can meet: strangers, links that end, impossible messages; and messages
// that go while their sender does something else.
#include "paceline/transport/links/link_channels.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/base/testing/child_process.h"
#include "paceline/transport/links/tcp.h"
#include "paceline/transport/links/testing/link_ends.h"

namespace paceline::links {
namespace {

using namespace std::chrono_literals;
using links::testing::drive;
using links::testing::keys;
using paceline::testing::ChildProcess;

constexpr channels::ChannelSizes kSmallSlots{{2, 100}, {2, 100}};

// Waits until the link has ended; returns the status of a waiting call.
absl::Status end_of(channels::Channel& channel) {
  while (true) {
    const auto message = channel.message(60s);
    if (!message.ok()) return message.status();
    if (*message) channel.release();
  }
}

// Moves both ends until the dialer has a result.
absl::StatusOr<std::unique_ptr<Link>> outcome_of(LinkDialer& dialer, LinkListener& listener) {
  while (true) {
    auto outcome = dialer.progress();
    if (outcome) return *std::move(outcome);
    listener.progress();
    if (!dialer.arm() || !listener.arm()) continue;
    pollfd watched[] = {{dialer.fd(), POLLIN, 0}, {listener.fd(), POLLIN, 0}};
    ::poll(watched, 2, -1);
  }
}

TEST(LinkDialer, TriesAgainWhereItIsLetGoUnheard) {
  const Network network = Network::open("127.0.0.1", Fabric::kSealed).value();
  sockaddr_in here{
      .sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  socklen_t bytes = sizeof here;
  std::optional<FileDescriptor> crowded(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(bind(crowded->get(), reinterpret_cast<sockaddr*>(&here), bytes), 0);
  ASSERT_EQ(::listen(crowded->get(), 1), 0);
  ASSERT_EQ(getsockname(crowded->get(), reinterpret_cast<sockaddr*>(&here), &bytes), 0);
  const int port = ntohs(here.sin_port);
  LinkDialer dialer(network, fmt::format("127.0.0.1:{}", port), "one", {.keys = keys(1, true)});
  EXPECT_FALSE(dialer.progress());
  EXPECT_TRUE(FileDescriptor(accept(crowded->get(), nullptr, nullptr)).valid());
  crowded.reset();
  std::unique_ptr<Link> other;
  const auto listener =
      network
          .listen(port, {.accept = [](const std::string&) { return LinkOptions{.keys = keys(1, false)}; },
                         .on_link = [&](std::unique_ptr<Link> link) { other = std::move(link); }})
          .value();
  const auto link = outcome_of(dialer, *listener);
  ASSERT_TRUE(link.ok()) << link.status();
  EXPECT_TRUE((*link)->open());
}

TEST(LinkDialer, AsksNobodyTwiceWhoHasAnswered) {
  const Network network = Network::open("127.0.0.1", Fabric::kSealed).value();
  int asked = 0;
  const auto listener = network
                            .listen(0, {.accept = [&](const std::string&) -> absl::StatusOr<LinkOptions> {
                                          ++asked;
                                          return absl::PermissionDeniedError("nobody is expected");
                                        },
                                        .on_link = [](std::unique_ptr<Link>) {}})
                            .value();
  LinkDialer dialer(network, listener->address(), "one", {.keys = keys(1, true)});
  const auto link = outcome_of(dialer, *listener);
  EXPECT_TRUE(absl::IsFailedPrecondition(link.status())) << link.status();
  EXPECT_EQ(asked, 1);
}

class Links : public ::testing::Test {
 protected:
  const std::unique_ptr<LinkChannels> here_ = LinkChannels::listen("127.0.0.1", Fabric::kSealed).value();
  const std::unique_ptr<LinkChannels> there_ = LinkChannels::listen("127.0.0.1", Fabric::kSealed).value();
};

TEST_F(Links, AStrangerIsRefusedAndTheExpectedOneComes) {
  const auto mine = here_->expect("stage 1", kSmallSlots, keys(1, false));
  const auto unknown = there_->connect(here_->address(), "stage 2", kSmallSlots, keys(1, true));
  EXPECT_THAT(std::string(end_of(*unknown).message()),
              ::testing::HasSubstr("no peer of that name is expected"));
  const auto forged = there_->connect(here_->address(), "stage 1", kSmallSlots, keys(7, true));
  EXPECT_EQ(end_of(*forged).code(), absl::StatusCode::kUnavailable);
  const auto theirs = there_->connect(here_->address(), "stage 1", kSmallSlots, keys(1, true));
  ASSERT_TRUE(theirs->room(60s).value());
  theirs->send(3);
  ASSERT_TRUE(mine->message(60s).value());
  const auto second = there_->connect(here_->address(), "stage 1", kSmallSlots, keys(1, true));
  EXPECT_EQ(end_of(*second).code(), absl::StatusCode::kUnavailable) << "it is connected";
}

// Code that counts descriptors in 16 bits, or has sets of a thousand, would fail here.
TEST(LinksOfManyFiles, DescriptorsBeyond64kAreLikeOthers) {
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  if (before.rlim_max < 70'000)
    GTEST_SKIP() << "this system lets a process have " << before.rlim_max << " files open";
  const rlimit many{.rlim_cur = 70'000, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &many);
  {
    std::vector<FileDescriptor> below;
    while (below.empty() || below.back().get() < 66'000) {
      below.emplace_back(dup(STDIN_FILENO));
      ASSERT_TRUE(below.back().valid());
    }
    const auto here = LinkChannels::listen("127.0.0.1", Fabric::kSealed).value();
    const auto there = LinkChannels::listen("127.0.0.1", Fabric::kSealed).value();
    const auto mine = here->expect("one", kSmallSlots, keys(1, false));
    const auto theirs = there->connect(here->address(), "one", kSmallSlots, keys(1, true));
    ASSERT_TRUE(theirs->room(60s).value());
    theirs->send(3);
    EXPECT_TRUE(mine->message(60s).value());
  }
  setrlimit(RLIMIT_NOFILE, &before);
}

// Names can be guessed.
TEST(LinksInTheClear, ANameWithoutItsSecretIsNobodys) {
  const auto here = LinkChannels::listen("127.0.0.1", Fabric::kTcp).value();
  const auto there = LinkChannels::listen("127.0.0.1", Fabric::kTcp).value();
  const auto mine = here->expect("stage 1", kSmallSlots, keys(1, false));
  const Tcp tcp = Tcp::open("127.0.0.1").value();
  const auto stranger = tcp.connect(here->address(), "stage 1", {}).value();
  EXPECT_TRUE(drive(*stranger, [] { return false; }));
  EXPECT_EQ(stranger->progress().code(), absl::StatusCode::kFailedPrecondition) << stranger->progress();
  const auto forged = there->connect(here->address(), "stage 1", kSmallSlots, keys(7, true));
  const absl::Status why = end_of(*forged);
  EXPECT_THAT(std::string(why.message()), ::testing::HasSubstr("no peer of that name is expected"));
  EXPECT_THAT(std::string(why.message()), ::testing::Not(::testing::HasSubstr("0808"))) << "a secret";
  const auto theirs = there->connect(here->address(), "stage 1", kSmallSlots, keys(1, true));
  ASSERT_TRUE(theirs->room(60s).value());
  theirs->send(3);
  EXPECT_TRUE(mine->message(60s).value());
}

TEST_F(Links, BothEndsHearThatTheOtherIsGone) {
  auto mine = here_->expect("one", kSmallSlots, keys(1, false));
  auto theirs = there_->connect(here_->address(), "one", kSmallSlots, keys(1, true));
  ASSERT_TRUE(theirs->room(60s).value());
  theirs->send(5);
  ASSERT_TRUE(mine->message(60s).value());
  theirs.reset();
  EXPECT_EQ((**mine->message(60s)).size(), 5u) << "what has come is still there";
  mine->release();
  EXPECT_EQ(end_of(*mine).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(mine->room(60s).status().code(), absl::StatusCode::kUnavailable);
  // The same name may be expected again, for example for another pipeline.
  mine = here_->expect("one", kSmallSlots, keys(3, false));
  theirs = there_->connect(here_->address(), "one", kSmallSlots, keys(3, true));
  ASSERT_TRUE(theirs->room(60s).value());
  theirs->send(6);
  EXPECT_EQ((**mine->message(60s)).size(), 6u);
}

TEST_F(Links, APeerThatIsKilledIsMissed) {
  ChildProcess peer([](const ChildProcess::Parent& parent) {
    const auto links = LinkChannels::listen("127.0.0.1", Fabric::kSealed).value();
    const auto mine = links->expect("one", kSmallSlots, keys(1, false));
    parent.say(links->address());
    parent.hear();
    return 0;
  });
  const auto theirs = there_->connect(peer.hear(), "one", kSmallSlots, keys(1, true));
  ASSERT_TRUE(theirs->room(60s).value());
  theirs->send(5);
  peer.kill();
  EXPECT_EQ(end_of(*theirs).code(), absl::StatusCode::kUnavailable);
}

TEST_F(Links, TellTheWaitingEndIfNobodyListens) {
  std::string address;
  {
    const auto gone = LinkChannels::listen("127.0.0.1", Fabric::kSealed).value();
    address = gone->address();
  }
  EXPECT_EQ(end_of(*here_->connect(address, "one", kSmallSlots, keys())).code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(end_of(*here_->connect("no address", "one", kSmallSlots, keys())).code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(Links, SendWhileTheSenderDoesSomethingElse) {
  constexpr channels::ChannelSizes kLarge{{1, 2'000'000}, {16, 2'000'000}};
  const auto mine = here_->expect("one", kLarge, keys(1, false));
  const auto theirs = there_->connect(here_->address(), "one", kLarge, keys(1, true));
  for (int i = 0; i < 16; ++i) {
    ASSERT_TRUE(theirs->room(60s).value());
    theirs->send(2'000'000);
  }
  // From here on the sender's end is not called.
  for (int i = 0; i < 16; ++i) {
    ASSERT_TRUE(mine->message(60s).value());
    mine->release();
  }
}

// A peer with the right keys that runs another program.
TEST_F(Links, APeerThatSendsWhatCannotBeEndsItsChannelAlone) {
  struct Wrong {
    std::byte kind;
    std::size_t bytes;
    int times;
    const char* why;
  };
  constexpr channels::ChannelSizes kUneven{{2, 101}, {2, 100}};  // the link itself would carry 101 bytes
  const auto well = here_->expect("well", kSmallSlots, keys(5, false));
  const auto friendly = there_->connect(here_->address(), "well", kSmallSlots, keys(5, true));
  for (const Wrong& wrong : {Wrong{std::byte{1}, 101, 1, "too large"}, Wrong{std::byte{1}, 100, 3, "no slot"},
                             Wrong{std::byte{2}, 0, 1, "never sent"}, Wrong{std::byte{2}, 1, 1, "with bytes"},
                             Wrong{std::byte{9}, 0, 1, "unknown"}}) {
    SCOPED_TRACE(wrong.why);
    const auto mine = here_->expect("one", kUneven, keys(1, false));
    const Tcp tcp = Tcp::open("127.0.0.1").value();
    const auto link = tcp.connect(here_->address(), "one", {.keys = keys(1, true)}).value();
    const std::vector<std::byte> payload(wrong.bytes);
    for (int i = 0; i < wrong.times; ++i)
      link->send(std::array{wrong.kind}, payload, [](const absl::Status&) {});
    EXPECT_TRUE(drive(*link, [] { return false; }));
    EXPECT_EQ(end_of(*mine).code(), absl::StatusCode::kUnavailable);
    ASSERT_TRUE(friendly->room(60s).value());
    friendly->send(4);
    ASSERT_TRUE(well->message(60s).value());
    well->release();
  }
}

}  // namespace
}  // namespace paceline::links
