// The promises to both ends of a link, between two processes: the same over every carrier, sealed or not.
// testing/carriers_under_test.h lists a program's carriers.
#include "paceline/transport/links/link.h"

#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <limits>
#include <map>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "paceline/base/testing/child_process.h"
#include "paceline/transport/links/carrier.h"
#include "paceline/transport/links/testing/carriers_under_test.h"
#include "paceline/transport/links/testing/link_ends.h"

namespace paceline::links {
namespace {

using namespace std::chrono_literals;
using links::testing::carriers_under_test;
using links::testing::CarrierUnderTest;
using links::testing::drive;
using links::testing::first_link;
using links::testing::Inbox;
using links::testing::keys;
using links::testing::payload;
using links::testing::to_bytes;
using paceline::testing::ChildProcess;

struct Kind {
  CarrierUnderTest over;
  bool sealed = false;
};

std::vector<Kind> kinds() {
  std::vector<Kind> all;
  for (const CarrierUnderTest& one : carriers_under_test()) {
    for (const bool sealed : {false, true}) all.push_back({one, sealed});
  }
  return all;
}
Kind first_kind() { return kinds().front(); }
std::string name_of(const ::testing::TestParamInfo<Kind>& info) {
  return (info.param.sealed ? "Sealed_" : "") + info.param.over.name;
}

// Listens and connects in the carrier's way. Each process makes one for itself.
class Fabric {
 public:
  explicit Fabric(const Kind& kind) : carrier_(kind.over.open("127.0.0.1").value()) {}
  std::unique_ptr<LinkListener> listen(LinkGate gate) { return carrier_->listen(0, std::move(gate)).value(); }
  absl::StatusOr<std::unique_ptr<Link>> try_connect(const std::string& address, const LinkOptions& options) {
    return carrier_->connect(address, "parent", options);
  }
  std::unique_ptr<Link> connect(const std::string& address, const LinkOptions& options = {}) {
    return try_connect(address, options).value();
  }

 private:
  std::unique_ptr<Carrier> carrier_;
};

class LinkOf : public ::testing::TestWithParam<Kind> {
 protected:
  LinkOptions options(bool other) const {
    LinkOptions options;
    if (GetParam().sealed) options.keys = keys(1, other);
    options.finish = finish_;
    return options;
  }
  // In a child: listens, reports its address, and runs `use` with the first link. `once_told`: it answers
  // only once it is told to.
  std::function<int(const ChildProcess::Parent&)> serve(
      std::function<int(Link&, const ChildProcess::Parent&)> use, bool once_told = false) const {
    return [=, this](const ChildProcess::Parent& parent) {
      Fabric fabric(GetParam());
      std::unique_ptr<Link> slot;
      const auto listener =
          fabric.listen({.accept = [&](const std::string&) { return options(true); },
                         .on_link = [&](std::unique_ptr<Link> link) { slot = std::move(link); }});
      parent.say(listener->address());
      if (once_told) parent.hear();
      const std::unique_ptr<Link> link = first_link(*listener, slot);
      return link ? use(*link, parent) : 1;
    };
  }

  std::chrono::milliseconds finish_ = LinkOptions().finish;
};
INSTANTIATE_TEST_SUITE_P(Kinds, LinkOf, ::testing::ValuesIn(kinds()), name_of);

// Sends everything back until the peer goes.
int echo(Link& link, const ChildProcess::Parent&) {
  Inbox inbox;
  inbox.attach(link, [&](Inbox::Item& item) {
    link.send(to_bytes(item.header), item.payload, [&item](const absl::Status&) { item.payload.clear(); });
  });
  return drive(link, [] { return false; }) ? 0 : 1;
}

TEST_P(LinkOf, MessagesOfEverySizeGoBothWaysAndStayWhatTheyAre) {
  ChildProcess peer(serve(echo));
  Fabric fabric(GetParam());
  const auto link = fabric.connect(peer.hear(), options(false));
  Inbox inbox;
  inbox.attach(*link);
  constexpr std::size_t kSizes[] = {0, 1, 4, 100, 1000, 4096, 4097, 10000, 1'000'000, 100'000'000};
  std::vector<std::vector<std::byte>> sent;
  std::size_t free = 0;
  for (const std::size_t size : kSizes) {
    for (int i = 0; i < (size < 1'000'000 ? 5 : 1); ++i) sent.push_back(payload(size, sent.size()));
  }
  for (std::size_t i = 0; i < sent.size(); ++i) {
    link->send(to_bytes(fmt::format("message {}", i)), sent[i], [&](const absl::Status& status) {
      EXPECT_TRUE(status.ok()) << status;
      ++free;
    });
  }
  ASSERT_TRUE(drive(*link, [&] { return inbox.whole() == sent.size() && free == sent.size(); }));
  ASSERT_TRUE(link->progress().ok()) << link->progress();
  std::map<std::string, const Inbox::Item*> by_header;
  for (const auto& item : inbox.items()) by_header[item->header] = item.get();
  for (std::size_t i = 0; i < sent.size(); ++i) {
    const auto found = by_header.find(fmt::format("message {}", i));
    ASSERT_TRUE(found != by_header.end()) << i;
    EXPECT_TRUE(found->second->payload == sent[i]) << i << ", of " << sent[i].size();
  }
}

TEST_P(LinkOf, ManyMessagesInFlightKeepTheirOrder) {
  constexpr int kMessages = 1000;
  ChildProcess peer(serve(echo));
  Fabric fabric(GetParam());
  const auto link = fabric.connect(peer.hear(), options(false));
  Inbox inbox;
  inbox.attach(*link);
  const auto size_of = [](int i) { return static_cast<std::size_t>(i * 37 % 6000); };
  std::vector<std::vector<std::byte>> sent;
  for (int i = 0; i < kMessages; ++i) sent.push_back(payload(size_of(i), static_cast<std::uint64_t>(i)));
  for (int i = 0; i < kMessages; ++i) link->send(to_bytes(std::to_string(i)), sent[i], [](const auto&) {});
  ASSERT_TRUE(drive(*link, [&] { return inbox.whole() == kMessages; }));
  ASSERT_TRUE(link->progress().ok()) << link->progress();
  int small = -1;
  for (const auto& item : inbox.items()) {
    const int number = std::stoi(item->header);
    EXPECT_TRUE(item->payload == sent[static_cast<std::size_t>(number)]) << number;
    // The echo sends small messages back at once, in the order in which they came.
    if (item->payload.size() > kInlineBytes) continue;
    EXPECT_GT(number, small);
    small = number;
  }
}

TEST_P(LinkOf, AMessageThatWaitsForItsMemoryHoldsUpNoOther) {
  ChildProcess peer(serve([](Link& link, const ChildProcess::Parent&) {
    const std::vector<std::byte> large = payload(3'000'000, 1), small = payload(50'000, 2);
    link.send(to_bytes("large"), large, [](const auto&) {});
    link.send(to_bytes("small"), small, [](const auto&) {});
    return drive(link, [] { return false; }) ? 0 : 1;
  }));
  Fabric fabric(GetParam());
  const auto link = fabric.connect(peer.hear(), options(false));
  std::vector<std::uint64_t> heard;
  link->on_message([&](const Link::Message& message) { heard.push_back(message.id); });
  ASSERT_TRUE(drive(*link, [&] { return heard.size() == 2; }));
  ASSERT_EQ(heard.size(), 2u);
  std::vector<std::byte> small(50'000), large(3'000'000);
  bool small_came = false, large_came = false;
  link->receive(heard[1], small, [&](const absl::Status& status) { small_came = status.ok(); });
  ASSERT_TRUE(drive(*link, [&] { return small_came; }));
  EXPECT_EQ(small, payload(50'000, 2));
  link->receive(heard[0], large, [&](const absl::Status& status) { large_came = status.ok(); });
  ASSERT_TRUE(drive(*link, [&] { return large_came; }));
  EXPECT_EQ(large, payload(3'000'000, 1));
}

TEST_P(LinkOf, APayloadLargerThanAgreedIsRefusedWhereItIsSent) {
  ChildProcess peer(serve(echo));
  Fabric fabric(GetParam());
  LinkOptions small = options(false);
  small.most_payload = 1000;
  const auto link = fabric.connect(peer.hear(), small);
  Inbox inbox;
  inbox.attach(*link);
  const std::vector<std::byte> too_large = payload(1001, 1), right = payload(1000, 1);
  absl::Status status;
  link->send({}, too_large, [&](const absl::Status& why) { status = why; });
  link->send({}, right, [](const auto&) {});
  ASSERT_TRUE(drive(*link, [&] { return inbox.whole() == 1; }));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(inbox.whole(), 1u);
}

// The sender goes as soon as it may, before it has read everything from here.
TEST_P(LinkOf, DeliversSentMessagesIfTheSenderGoes) {
  constexpr std::size_t kBytes = 5'000'000;
  finish_ = std::chrono::minutes(1);  // a busy machine may read slowly
  for (int round = 0; round < 5; ++round) {
    // The receiver has begun to read before the sender goes.
    ChildProcess peer(serve([](Link& link, const ChildProcess::Parent& parent) {
      const std::vector<std::byte> large = payload(kBytes, 1);
      bool sent = false;
      link.send({}, large, [&](const absl::Status& why) { sent = why.ok(); });
      if (!drive(link, [&] { return sent; }) || !sent) return 1;
      parent.hear();
      return 0;
    }));
    Fabric fabric(GetParam());
    const auto link = fabric.connect(peer.hear(), options(false));
    Inbox inbox;
    inbox.attach(*link);
    const std::vector<std::byte> unheard(1000);
    bool begun = false;
    ASSERT_TRUE(drive(*link, [&] {
      link->send({}, unheard, [](const auto&) {});
      if (!inbox.items().empty()) {
        if (!std::exchange(begun, true)) peer.say("begun");
        std::this_thread::sleep_for(2ms);
      }
      return inbox.whole() == 1;
    }));
    ASSERT_EQ(inbox.whole(), 1u) << link->progress();
    EXPECT_EQ(inbox.items()[0]->payload, payload(kBytes, 1));
    // UCX has this process answer that everything has come; the sender would wait for it for the whole minute.
    ASSERT_TRUE(drive(*link, [] { return false; }));
    EXPECT_EQ(peer.wait(), 0);
  }
}

// Everything comes at once: the receiver looks only when the sender is gone.
TEST_P(LinkOf, DeliversSmallMessagesTogetherWithTheSendersEnd) {
  ChildProcess peer(serve([](Link& link, const ChildProcess::Parent& parent) {
    parent.hear();
    const std::vector<std::byte> all[] = {payload(0, 0), payload(100, 100), payload(4096, 4096)};
    int sent = 0;
    for (const auto& one : all)
      link.send(to_bytes("small"), one, [&](const absl::Status& why) { sent += why.ok() ? 1 : 0; });
    return drive(link, [&] { return sent == 3; }) && sent == 3 ? 0 : 1;
  }));
  Fabric fabric(GetParam());
  const auto link = fabric.connect(peer.hear(), options(false));
  Inbox inbox;
  inbox.attach(*link);
  ASSERT_TRUE(drive(*link, [&] { return link->open(); }));
  peer.say("go");
  ASSERT_EQ(peer.wait(), 0);
  ASSERT_TRUE(drive(*link, [] { return false; }));
  EXPECT_EQ(link->progress().code(), absl::StatusCode::kUnavailable) << link->progress();
  ASSERT_EQ(inbox.whole(), 3u);
  for (const auto& item : inbox.items())
    EXPECT_TRUE(item->payload == payload(item->payload.size(), item->payload.size())) << item->payload.size();
}

// The last frame of its introduction, a message and its end come together.
TEST_P(LinkOf, HearsAPeerThatSendsAndGoesBeforeItIsLetIn) {
  if (!GetParam().over.connects_at_once) GTEST_SKIP() << "its connections take more steps";
  Fabric fabric(GetParam());
  std::unique_ptr<Link> link;
  bool asked = false;
  const auto listener = fabric.listen({.accept =
                                           [&](const std::string&) {
                                             asked = true;
                                             return options(true);
                                           },
                                       .on_link = [&](auto known) { link = std::move(known); }});
  ChildProcess peer([&](const ChildProcess::Parent&) {
    Fabric own(GetParam());
    const auto there = own.connect(listener->address(), options(false));
    bool sent = false;
    there->send(to_bytes("small"), {}, [&](const absl::Status& why) { sent = why.ok(); });
    return drive(*there, [&] { return sent; }) && sent ? 0 : 1;
  });
  while (!asked) {
    listener->progress();
    if (!asked) listener->wait(1000ms);
  }
  ASSERT_EQ(peer.wait(), 0);
  listener->progress();
  ASSERT_NE(link, nullptr);
  EXPECT_EQ(link->peer_name(), "parent");
  Inbox inbox;
  inbox.attach(*link);
  ASSERT_TRUE(drive(*link, [] { return false; }));
  EXPECT_EQ(inbox.whole(), 1u);
}

// ---- Peers that go

enum class Step { kConnecting, kHeaderHeard, kInPayload, kIdle };

class LinkWhosePeerIsKilled : public LinkOf {};
INSTANTIATE_TEST_SUITE_P(Kinds, LinkWhosePeerIsKilled, ::testing::ValuesIn(kinds()), name_of);

TEST_P(LinkWhosePeerIsKilled, WhileConnecting) {
  ChildProcess peer([&](const ChildProcess::Parent& parent) {
    Fabric fabric(GetParam());
    const auto listener = fabric.listen({.accept = {}, .on_link = {}});
    parent.say(listener->address());
    parent.hear();  // never answers
    return 0;
  });
  Fabric fabric(GetParam());
  const auto link = fabric.connect(peer.hear(), options(false));
  absl::Status sent;
  link->send({}, {}, [&](const absl::Status& why) { sent = why; });
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(link->progress().ok());
    link->wait(5ms);
  }
  peer.kill();
  ASSERT_TRUE(drive(*link, [] { return false; }));
  EXPECT_EQ(link->progress().code(), absl::StatusCode::kUnavailable) << link->progress();
  link->progress().IgnoreError();
  EXPECT_EQ(sent, link->progress());
}

// The surviving end has a message each way under way; both get the link's status.
void expect_both_end(Link& link, ChildProcess& peer, const std::function<bool(bool heard)>& when) {
  const std::vector<std::byte> out = payload(50'000'000, 1);
  std::vector<std::byte> in;
  absl::Status sent = absl::UnknownError("not told"), received = sent;
  bool heard = false;
  link.on_message([&](const Link::Message& message) {
    heard = true;
    in.resize(message.bytes);
    link.receive(message.id, in, [&](const absl::Status& why) { received = why; });
  });
  link.send(to_bytes("out"), out, [&](const absl::Status& why) { sent = why; });
  ASSERT_TRUE(drive(link, [&] { return when(heard); }));
  peer.kill();
  ASSERT_TRUE(drive(link, [] { return false; }));
  const absl::Status why = link.progress();
  link.progress().IgnoreError();
  EXPECT_EQ(why.code(), absl::StatusCode::kUnavailable) << why;
  EXPECT_NE(why.message().find("gone"), absl::string_view::npos) << why << ": found by its silence only";
  EXPECT_EQ(sent, why);
  EXPECT_EQ(received, why);
}

// Sends 50 MB, and takes nothing, or takes it slowly.
int send_and_take(Link& link, bool take) {
  const std::vector<std::byte> out = payload(50'000'000, 2);
  std::vector<std::byte> in(50'000'000);
  link.on_message([&](const Link::Message& message) {
    if (take) link.receive(message.id, in, [](const auto&) {});
  });
  link.send(to_bytes("in"), out, [](const auto&) {});
  while (link.progress().ok()) std::this_thread::sleep_for(5ms);
  return 0;
}

TEST_P(LinkWhosePeerIsKilled, BetweenHeaderAndPayload) {
  ChildProcess peer(
      serve([](Link& link, const ChildProcess::Parent&) { return send_and_take(link, false); }));
  Fabric fabric(GetParam());
  const auto link = fabric.connect(peer.hear(), options(false));
  expect_both_end(*link, peer, [](bool heard) { return heard; });
}

TEST_P(LinkWhosePeerIsKilled, InMidPayload) {
  ChildProcess peer(serve([](Link& link, const ChildProcess::Parent&) { return send_and_take(link, true); }));
  Fabric fabric(GetParam());
  const auto link = fabric.connect(peer.hear(), options(false));
  int rounds = 0;
  expect_both_end(*link, peer, [&](bool heard) { return heard && ++rounds > 5; });
}

TEST_P(LinkWhosePeerIsKilled, WhileIdle) {
  ChildProcess peer(serve(echo));
  Fabric fabric(GetParam());
  const auto link = fabric.connect(peer.hear(), options(false));
  ASSERT_TRUE(drive(*link, [&] { return link->open(); }));
  peer.kill();
  ASSERT_TRUE(drive(*link, [] { return false; }));
  EXPECT_EQ(link->progress().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(link->progress().message().find("gone"), absl::string_view::npos) << link->progress();
  absl::Status sent;
  link->send({}, {}, [&](const absl::Status& why) { sent = why; });
  link->progress().IgnoreError();
  EXPECT_EQ(sent, link->progress()) << "an ended link ends what comes later too";
}

TEST_P(LinkOf, ASilentPeerIsGivenUp) {
  LinkOptions impatient = options(false);
  impatient.silence = 1000ms;
  ChildProcess peer(serve([](Link& link, const ChildProcess::Parent&) {
    if (!drive(link, [&] { return link.open(); })) return 1;
    raise(SIGSTOP);
    return 0;
  }));
  Fabric fabric(GetParam());
  const auto link = fabric.connect(peer.hear(), impatient);
  ASSERT_TRUE(drive(*link, [] { return false; }));
  EXPECT_EQ(link->progress().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(link->progress().message().find("silent"), absl::string_view::npos) << link->progress();
}

// For example if a whole job was stopped and goes on.
TEST_P(LinkOf, ATimeInWhichThisEndStoodStillIsNoSilence) {
  LinkOptions impatient = options(false);
  impatient.silence = 1000ms;
  ChildProcess peer(serve([](Link& link, const ChildProcess::Parent&) {
    if (!drive(link, [&] { return link.open(); })) return 1;
    raise(SIGSTOP);
    return 0;
  }));
  Fabric fabric(GetParam());
  const auto link = fabric.connect(peer.hear(), impatient);
  ASSERT_TRUE(drive(*link, [&] { return link->open(); }));
  std::this_thread::sleep_for(1500ms);
  EXPECT_TRUE(link->progress().ok()) << link->progress();
  ASSERT_TRUE(drive(*link, [] { return false; }));
  EXPECT_NE(link->progress().message().find("silent"), absl::string_view::npos) << link->progress();
}

// ---- Peers that do not get in

TEST_P(LinkOf, NobodyThereIsToldSoon) {
  std::string address;
  {
    Fabric fabric(GetParam());
    address = fabric.listen({.accept = {}, .on_link = {}})->address();
  }
  Fabric fabric(GetParam());
  const auto link = fabric.try_connect(address, options(false));
  ASSERT_TRUE(!link.ok() || drive(**link, [] { return false; }));
  const absl::Status why = link.ok() ? (*link)->progress() : link.status();
  EXPECT_EQ(why.code(), absl::StatusCode::kUnavailable) << why;
}

TEST_P(LinkOf, GivesUpAPeerThatDoesNotAnswerInTime) {
  ChildProcess peer([&](const ChildProcess::Parent& parent) {
    Fabric fabric(GetParam());
    const auto listener = fabric.listen({.accept = {}, .on_link = {}});
    parent.say(listener->address());
    parent.hear();
    return 0;
  });
  Fabric fabric(GetParam());
  LinkOptions impatient = options(false);
  impatient.connect_limit = 300ms;
  const auto link = fabric.connect(peer.hear(), impatient);
  ASSERT_TRUE(drive(*link, [] { return false; }));
  EXPECT_EQ(link->progress().code(), absl::StatusCode::kDeadlineExceeded) << link->progress();
}

// The listener may load a large checkpoint first.
TEST_P(LinkOf, WaitsForALateAnswerIfTheLimitAllowsIt) {
  if (!GetParam().over.connects_at_once) GTEST_SKIP() << "its connections are not known before";
  ChildProcess peer(serve(
      [](Link&, const ChildProcess::Parent& parent) {
        parent.hear();
        return 0;
      },
      true));
  Fabric fabric(GetParam());
  LinkOptions patient = options(false);
  patient.connect_limit = 50ms;
  patient.hello_limit = 60s;
  const auto link = fabric.connect(peer.hear(), patient);
  const auto until = std::chrono::steady_clock::now() + 300ms;
  while (std::chrono::steady_clock::now() < until) {
    ASSERT_TRUE(link->progress().ok()) << link->progress();
    link->wait(10ms);
  }
  EXPECT_FALSE(link->open());
  peer.say("now");
  EXPECT_TRUE(drive(*link, [&] { return link->open(); }));
  EXPECT_TRUE(link->open());
  peer.say("that is all");
  EXPECT_EQ(peer.wait(), 0);
}

// Both ends get the reason.
void expect_refused(const Kind& kind, const absl::StatusOr<LinkOptions>& theirs, const LinkOptions& mine,
                    const std::string& why) {
  ChildProcess peer([&](const ChildProcess::Parent& parent) {
    Fabric fabric(kind);
    std::string refused;
    const auto listener = fabric.listen(
        {.accept = [&](const std::string&) { return theirs; },
         .on_link = [&](std::unique_ptr<Link>) { refused = "let in"; },
         .on_refused = [&](const absl::Status& status) { refused = std::string(status.message()); }});
    parent.say(listener->address());
    for (int i = 0; i < 60 && refused.empty(); ++i) {
      listener->progress();
      if (refused.empty()) listener->wait(1000ms);
    }
    parent.say(refused);
    return 0;
  });
  Fabric fabric(kind);
  {
    const auto link = fabric.connect(peer.hear(), mine);
    ASSERT_TRUE(drive(*link, [] { return false; }));
    EXPECT_EQ(link->progress().code(), absl::StatusCode::kFailedPrecondition) << link->progress();
    EXPECT_NE(link->progress().message().find(why), absl::string_view::npos) << link->progress();
  }
  const std::string told = peer.hear();
  EXPECT_NE(told.find(why), std::string::npos) << told;
}

TEST(LinkThatIsRefused, HearsTheOwnersReason) {
  expect_refused(first_kind(), absl::PermissionDeniedError("nobody of this name is expected"), {},
                 "nobody of this name is expected");
}

TEST(LinkThatIsRefused, BecauseOnlyOneEndHasKeys) {
  expect_refused(first_kind(), LinkOptions{}, LinkOptions{.keys = keys()},
                 "only one of the two ends has keys");
  expect_refused(first_kind(), LinkOptions{.keys = keys()}, LinkOptions{},
                 "only one of the two ends has keys");
}

TEST(LinkThatIsRefused, BecauseTheKeysDiffer) {
  expect_refused(first_kind(), LinkOptions{.keys = keys(1, true)}, LinkOptions{.keys = keys(5)},
                 "do not have the same keys");
}

// ---- A system that has nothing left

// While this lives, the process can open only `left` more descriptors.
class DescriptorsLeft {
 public:
  explicit DescriptorsLeft(int left) {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit low = before_;
    low.rlim_cur = 256;
    setrlimit(RLIMIT_NOFILE, &low);
    for (FileDescriptor one(dup(0)); one.valid(); one = FileDescriptor(dup(0)))
      taken_.push_back(std::move(one));
    taken_.resize(taken_.size() - static_cast<std::size_t>(left));
  }
  ~DescriptorsLeft() { setrlimit(RLIMIT_NOFILE, &before_); }
  DescriptorsLeft(const DescriptorsLeft&) = delete;
  DescriptorsLeft& operator=(const DescriptorsLeft&) = delete;

 private:
  rlimit before_{};
  std::vector<FileDescriptor> taken_;
};

bool readable(int fd) {
  pollfd watched{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&watched, 1, 0) > 0;
}

class AListenerWithoutDescriptors : public LinkOf {};
INSTANTIATE_TEST_SUITE_P(Kinds, AListenerWithoutDescriptors, ::testing::ValuesIn(kinds()), name_of);

// At whichever step they run out, the listener goes on, sleeps, and accepts peers when there are some again.
TEST_P(AListenerWithoutDescriptors, GoesOnWhenThereAreSome) {
  if (!GetParam().over.bears_no_descriptors) GTEST_SKIP() << "its library does not";
  Fabric fabric(GetParam());
  for (int left = 0; left < 5; ++left) {
    std::unique_ptr<Link> let_in;
    const auto listener = fabric.listen({.accept = [&](const std::string&) { return options(true); },
                                         .on_link = [&](auto link) { let_in = std::move(link); }});
    const auto early = fabric.connect(listener->address(), options(false));
    ASSERT_TRUE(early->progress().ok());
    {
      const DescriptorsLeft few(left);
      listener->progress();
      EXPECT_TRUE(left > 0 || !readable(listener->fd())) << "it would not sleep";
      EXPECT_EQ(let_in, nullptr);
    }
    const auto late = fabric.connect(listener->address(), options(false));
    while (late->progress().ok() && let_in == nullptr) {
      if (early->progress().ok()) early->wait(1ms);
      listener->progress();
      if (late->arm()) listener->wait(1ms);
    }
    EXPECT_NE(let_in, nullptr) << left << ": " << late->progress();
  }
}

// ---- Idle

// The number of wakes in a second in which nothing is sent: beats, both ways. Wakes are counted because their
// processor time depends on other processes.
int idle_wakes(Link& link) {
  const bool opened = drive(link, [&] { return link.open(); });
  int wakes = 0;
  const auto until = std::chrono::steady_clock::now() + 1000ms;
  const auto over = [&] {
    ++wakes;
    return std::chrono::steady_clock::now() >= until;
  };
  return opened && drive(link, over) ? wakes : std::numeric_limits<int>::max();
}

TEST_P(LinkOf, IdleItIsHardlyEverWoken) {
  ChildProcess peer(serve([](Link& link, const ChildProcess::Parent& parent) {
    parent.say(std::to_string(idle_wakes(link)));
    return drive(link, [] { return false; }) ? 0 : 1;
  }));
  Fabric fabric(GetParam());
  const auto link = fabric.connect(peer.hear(), options(false));
  EXPECT_LT(idle_wakes(*link), 50);
  EXPECT_LT(std::stoi(peer.hear()), 50);
}

}  // namespace
}  // namespace paceline::links
