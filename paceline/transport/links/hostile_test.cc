// Strangers at a TCP listener: each is refused with one line or ignored, whatever they send and however many
// they are, and the existing links carry on.
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/base/testing/child_process.h"
#include "paceline/transport/links/link_frames.h"
#include "paceline/transport/links/socket_address.h"
#include "paceline/transport/links/tcp.h"
#include "paceline/transport/links/testing/link_ends.h"

namespace paceline::links {
namespace {

using namespace std::chrono_literals;
using links::testing::drive;
using links::testing::Inbox;
using links::testing::keys;
using links::testing::payload;
using paceline::testing::ChildProcess;
using std::chrono::steady_clock;

using Bytes = std::vector<std::byte>;

// A frame on the wire, with lengths that may be untrue.
Bytes framed(const Bytes& head, std::uint32_t head_bytes, std::uint32_t data_bytes, const Bytes& data = {}) {
  Bytes out(8 + head.size() + data.size());
  std::memcpy(out.data(), &head_bytes, 4);
  std::memcpy(out.data() + 4, &data_bytes, 4);
  std::ranges::copy(data, std::ranges::copy(head, out.begin() + 8).out);
  return out;
}

Bytes framed(FrameHead head, const Bytes& header = {}, const Bytes& data = {}, bool sealed = false) {
  const Bytes bytes = write_head(head, header, sealed);
  return framed(bytes, static_cast<std::uint32_t>(bytes.size()), static_cast<std::uint32_t>(data.size()),
                data);
}

Bytes hello(bool sealed, const std::string& name = "stranger") {
  return framed({FrameKind::kHello, 0, 0, 0},
                write_hello({.sealed = sealed, .most_payload = 1 << 20, .nonce = {}, .text = name}));
}

Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Bytes first(Bytes bytes, std::size_t size) {
  bytes.resize(size);
  return bytes;
}

// A plain socket connected to a listener's port.
class Stranger {
 public:
  explicit Stranger(const std::string& address) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const SocketAddress to = parse_address(address).value();
    EXPECT_EQ(connect(socket_.get(), to.get(), to.bytes), 0) << std::strerror(errno);
  }
  // Sends as much as the socket takes; the other end may have closed it.
  void say(std::span<const std::byte> bytes) {
    ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  // True if the other end has closed the connection. Reads what has come.
  bool closed() {
    for (std::array<char, 4096> some;;) {
      const ssize_t got = recv(socket_.get(), some.data(), some.size(), MSG_DONTWAIT);
      if (got <= 0) return got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
      heard_.append(some.data(), static_cast<std::size_t>(got));
    }
  }
  const std::string& heard() const { return heard_; }

 private:
  FileDescriptor socket_;
  std::string heard_;
};

// A listener with one link from a friend: a child that sends back whatever it gets, all the time.
class AListenerWithStrangers : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    tcp_.emplace(Tcp::open().value());
    listener_ =
        tcp_->listen(
                0, {.accept = [this](const std::string& name) { return let_in(name); },
                    .on_link = [this](std::unique_ptr<Link> link) { take(std::move(link)); },
                    .on_refused =
                        [this](const absl::Status& why) { refused_.push_back(std::string(why.message())); }})
            .value();
    friend_.emplace([this](const ChildProcess::Parent& parent) { return echo(parent); });
    friend_->say(listener_->address());
    ASSERT_TRUE(until([&] { return link_ != nullptr; }));
    ping();
  }
  void TearDown() override {
    // The link has carried on, and still does.
    const int rounds = rounds_;
    EXPECT_TRUE(until([&] { return rounds_ >= rounds + 3; }));
    for (const std::string& line : refused_) {
      EXPECT_FALSE(line.empty());
      EXPECT_EQ(line.find('\n'), std::string::npos) << line;
    }
  }

  // Moves everything until `done`; false after a minute.
  bool until(const std::function<bool()>& done) {
    const auto end = steady_clock::now() + 60s;
    while (!done() && steady_clock::now() < end) {
      listener_->progress();
      if (link_) {
        EXPECT_TRUE(link_->progress().ok()) << link_->progress();
      }
      if (listener_->arm() && (!link_ || link_->arm())) {
        pollfd watched[] = {{listener_->fd(), POLLIN, 0}, {link_ ? link_->fd() : -1, POLLIN, 0}};
        ::poll(watched, 2, 10);
      }
      if (::testing::Test::HasFailure()) return false;
    }
    return done();
  }
  // Sends these bytes: the listener closes the connection, or refuses it with an answer; there is one line
  // about it.
  void expect_refused(const Bytes& bytes, const std::string& what) {
    const std::size_t before = refused_.size();
    {
      Stranger stranger(listener_->address());
      stranger.say(bytes);
      ASSERT_TRUE(until([&] { return stranger.closed() || !stranger.heard().empty(); })) << what;
    }
    ASSERT_TRUE(until([&] { return refused_.size() > before; })) << what;
    EXPECT_EQ(refused_.size(), before + 1) << what;
  }
  LinkOptions options(bool other) const {
    LinkOptions options;
    if (GetParam()) options.keys = keys(1, other);
    return options;
  }

  std::unique_ptr<LinkListener> listener_;
  std::vector<std::string> refused_;
  std::unique_ptr<Link> link_;
  std::unique_ptr<Link> late_;  // another link that was let in
  int rounds_ = 0;

 private:
  absl::StatusOr<LinkOptions> let_in(const std::string& name) {
    if (name == "friend" || name == "late friend") return options(true);
    return absl::PermissionDeniedError("nobody of this name is expected");
  }
  void take(std::unique_ptr<Link> link) {
    if (link->peer_name() == "late friend") {
      late_ = std::move(link);
      return;
    }
    ASSERT_EQ(link->peer_name(), "friend");
    ASSERT_EQ(link_, nullptr);
    link_ = std::move(link);
    link_->on_message([this](const Link::Message& message) {
      back_.resize(message.bytes);
      link_->receive(message.id, back_, [this](const absl::Status& status) {
        ASSERT_TRUE(status.ok()) << status;
        ASSERT_TRUE(back_ == payload_) << rounds_;
        ++rounds_;
        ping();
      });
    });
  }
  void ping() {
    link_->send({}, payload_, [](const absl::Status& status) { ASSERT_TRUE(status.ok()) << status; });
  }
  int echo(const ChildProcess::Parent& parent) const {
    const auto link = Tcp::open().value().connect(parent.hear(), "friend", options(false)).value();
    Inbox inbox;
    inbox.attach(*link, [&](Inbox::Item& item) {
      link->send({}, item.payload, [&item](const absl::Status&) { item.payload = {}; });
    });
    drive(*link, [] { return false; });
    return 0;
  }

  const Bytes payload_ = payload(300'000, 1);
  Bytes back_;
  std::optional<Tcp> tcp_;
  std::optional<ChildProcess> friend_;
};
INSTANTIATE_TEST_SUITE_P(Kinds, AListenerWithStrangers, ::testing::Bool(),
                         [](const auto& kind) { return kind.param ? "Sealed" : "Clear"; });

TEST_P(AListenerWithStrangers, RefusesRandomBytes) {
  Rng rng(7);
  for (int i = 0; i < 100; ++i) {
    Bytes bytes = payload(1 + rng.next() % 60'000, rng.next());
    // Half of them have valid lengths, so that the bytes behind are read too.
    if (i % 2 == 0) bytes = framed({}, static_cast<std::uint32_t>(rng.next() % 320), 0) + bytes;
    expect_refused(bytes + Bytes(400), std::to_string(i));
  }
}

TEST_P(AListenerWithStrangers, RefusesWhatIsNoFrameAndWhatIsNotDue) {
  const bool sealed = GetParam();
  constexpr std::uint32_t kMost = ~std::uint32_t{0};
  const Bytes chunk_head = write_head({FrameKind::kChunk, 0, 0, 0}, {}, false);
  const Bytes hello_head = write_head({FrameKind::kHello, 0, 0, 0}, {}, false);
  const auto size = static_cast<std::uint32_t>(chunk_head.size());
  const std::pair<const char*, Bytes> cases[] = {
      {"no head", framed({}, 0, 0)},
      {"a head too short", framed(Bytes(31), 31, 0)},
      {"a head too long", framed(Bytes(305), 305, 0)},
      {"a head of 4 GB", framed({}, kMost, 0)},
      {"data of more than any chunk", framed(chunk_head, size, (8 << 20) + 1)},
      {"data of 4 GB", framed(chunk_head, size, kMost)},
      {"both", framed({}, kMost, kMost)},
      {"a chunk first", framed({FrameKind::kChunk, 0, 0, 0}, {}, Bytes(100))},
      {"the largest chunk first", framed(chunk_head, size, 8 << 20)},
      {"an offer first", framed({FrameKind::kOffer, 0, 0, 1 << 30})},
      {"a beat first", framed({FrameKind::kHeartbeat, 0, 0, 0})},
      {"a hello with data", framed(hello_head, size, 1000, Bytes(1000))},
      {"a hello that says nothing", framed({FrameKind::kHello, 0, 0, 0})},
      {"two hellos", hello(sealed) + hello(sealed)},
      {"a stranger's name", hello(sealed)},
      {"keys where there are none, or none", hello(!sealed, "friend")},
      {"everything at once", hello(sealed) + framed({FrameKind::kReady, 1, 0, 0}, {}, {}, sealed) +
                                 framed({FrameKind::kOffer, 2, 0, 1 << 30}, {}, {}, sealed) + Bytes(100'000)},
  };
  for (const auto& [what, bytes] : cases) expect_refused(bytes, what);
}

TEST_P(AListenerWithStrangers, ForgetsAPeerThatGoesInMidFrame) {
  const Bytes whole = hello(GetParam());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::size_t before = refused_.size();
    { Stranger(listener_->address()).say(first(whole, size)); }
    ASSERT_TRUE(until([&] { return refused_.size() > before; })) << size;
    EXPECT_NE(refused_.back().find("gone"), std::string::npos) << refused_.back();
  }
}

// Three bytes at a time end at every place of a four-byte number, and the whole hello comes well within its
// time limit.
TEST_P(AListenerWithStrangers, ReadsAHelloInSmallPieces) {
  constexpr std::size_t kCrumb = 3, kPiecesPerRound = 8;
  Stranger stranger(listener_->address());
  const Bytes whole = hello(GetParam());
  const std::size_t before = refused_.size();
  for (std::size_t at = 0; at < whole.size(); at += kCrumb) {
    stranger.say(std::span(whole).subspan(at, std::min(kCrumb, whole.size() - at)));
    // Each turn of the listener costs a while on a busy machine, and all have to fit into the limit.
    if (at / kCrumb % kPiecesPerRound != 0) continue;
    const int rounds = rounds_;
    ASSERT_TRUE(until([&] { return rounds_ > rounds; }));
  }
  // The hello is whole: it gives a name, and gets an answer.
  EXPECT_EQ(refused_.size(), before);
  ASSERT_TRUE(until([&] { return stranger.closed() || !stranger.heard().empty(); }));
  EXPECT_NE(stranger.heard().find("nobody of this name"), std::string::npos) << stranger.heard();
}

// 300 silent peers: 64 are kept, until the limit, and then others get in again.
TEST_P(AListenerWithStrangers, AFloodOfThemEnds) {
  if (!GetParam()) GTEST_SKIP() << "the same as sealed: nobody gets as far as keys";
  constexpr std::size_t kFlood = 300;
  constexpr std::size_t kKept = 64;
  std::vector<std::unique_ptr<Stranger>> flood;
  const auto began = steady_clock::now();
  for (std::size_t i = 0; i < kFlood; ++i) {
    flood.push_back(std::make_unique<Stranger>(listener_->address()));
    if (i % 2 == 0) flood.back()->say(first(hello(GetParam()), 20));
    const std::size_t come = i + 1;
    ASSERT_TRUE(until([&] { return come <= kKept || refused_.size() >= come - kKept; }));
  }
  // The first of those that were kept reach their limit later.
  if (steady_clock::now() - began < LinkOptions{}.connect_limit) {
    EXPECT_EQ(refused_.size(), kFlood - kKept);
  }
  ASSERT_TRUE(until([&] { return refused_.size() == kFlood; }));
  ChildProcess late([&](const ChildProcess::Parent& parent) {
    const auto link = Tcp::open().value().connect(parent.hear(), "late friend", options(false)).value();
    return drive(*link, [&] { return link->open(); }) && link->open() ? 0 : 1;
  });
  late.say(listener_->address());
  ASSERT_TRUE(until([&] { return late_ != nullptr; }));
  EXPECT_EQ(late.wait(), 0);
}

TEST_P(AListenerWithStrangers, AFloodOfThemKeepsNobodyOut) {
  std::vector<std::unique_ptr<Stranger>> flood;
  while (refused_.empty()) {
    flood.push_back(std::make_unique<Stranger>(listener_->address()));
    const int rounds = rounds_;
    ASSERT_TRUE(until([&] { return rounds_ > rounds; }));
  }
  const auto began = steady_clock::now();
  ChildProcess late([&](const ChildProcess::Parent& parent) {
    const auto link = Tcp::open().value().connect(parent.hear(), "late friend", options(false)).value();
    return drive(*link, [&] { return link->open(); }) && link->open() ? 0 : 1;
  });
  late.say(listener_->address());
  ASSERT_TRUE(until([&] { return late_ != nullptr; }));
  EXPECT_EQ(late.wait(), 0);
  EXPECT_TRUE(flood.front()->closed()) << "who came first goes first";
  EXPECT_TRUE(steady_clock::now() - began > LinkOptions{}.connect_limit || !flood.back()->closed());
}

// A stranger with an expected name gets further; without the keys no further than this.
TEST_P(AListenerWithStrangers, RefusesAStrangerWithAFriendsName) {
  const bool sealed = GetParam();
  const Bytes ready = framed({FrameKind::kReady, 1, 0, 0}, {}, {}, sealed);
  if (sealed) {
    expect_refused(hello(sealed, "late friend") + ready, "the keys are not known");
    EXPECT_NE(refused_.back().find("do not have the same keys"), std::string::npos) << refused_.back();
    return;
  }
  const Bytes ends[] = {framed({}, ~std::uint32_t{0}, 0), framed({FrameKind::kChunk, 2, 0, 0}, {}, Bytes(9)),
                        framed({FrameKind::kOffer, 2, 0, std::uint64_t{1} << 40}), payload(1000, 5)};
  for (const Bytes& end : ends) {
    Stranger stranger(listener_->address());
    stranger.say(hello(sealed, "late friend") + ready);
    ASSERT_TRUE(until([&] { return late_ != nullptr; }));
    stranger.say(end);
    ASSERT_TRUE(until([&] { return !late_->progress().ok(); }));
    EXPECT_EQ(late_->progress().message().find('\n'), absl::string_view::npos) << late_->progress();
    late_.reset();
  }
  EXPECT_TRUE(refused_.empty());
}

}  // namespace
}  // namespace paceline::links
