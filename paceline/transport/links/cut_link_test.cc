// A network that is cut while a link is at work, between two hosts that are network namespaces.
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "paceline/base/testing/child_process.h"
#include "paceline/base/testing/namespaces.h"
#include "paceline/transport/links/tcp.h"
#include "paceline/transport/links/testing/link_ends.h"
#include "paceline/transport/links/ucx.h"

namespace paceline::links {
namespace {

using namespace std::chrono_literals;
using links::testing::drive;
using links::testing::first_link;
using links::testing::Inbox;
using links::testing::keys;
using links::testing::payload;
using links::testing::to_bytes;
using paceline::testing::ChildProcess;
using paceline::testing::Namespaces;

using Overs = ::testing::Types<Tcp, Ucx>;

LinkOptions options(bool other) {
  LinkOptions options;
  options.keys = keys(1, other);
  options.silence = 5000ms;
  return options;
}

LinkOptions patient() {
  LinkOptions options;
  options.silence = 30'000ms;
  return options;
}

// Host 0: receives until its link ends; reports why.
template <class Over>
int receive(const Namespaces& hosts, const ChildProcess::Parent& parent) {
  if (!hosts.enter(0)) return 1;
  const Over over = Over::open(Namespaces::address(0)).value();
  std::unique_ptr<Link> slot;
  const auto listener =
      over.listen(0, {.accept = [&](const std::string&) { return options(true); },
                      .on_link = [&](std::unique_ptr<Link> link) { slot = std::move(link); }})
          .value();
  parent.say(listener->address());
  const auto link = first_link(*listener, slot);
  if (!link) return 2;
  Inbox inbox;
  inbox.attach(*link);
  bool told = false;
  const bool ended = drive(*link, [&] {
    if (!told && !inbox.items().empty()) parent.say("it comes");
    told = told || !inbox.items().empty();
    return false;
  });
  parent.say(std::string(link->progress().message()));
  return ended && inbox.whole() == 0 ? 0 : 3;
}

// Host 1: sends 100 MB. The link of 20 Mb/s carries little of it before it is cut.
template <class Over>
int send(const Namespaces& hosts, const ChildProcess::Parent& parent) {
  if (!hosts.enter(1)) return 1;
  const Over over = Over::open(Namespaces::address(1)).value();
  const auto link = over.connect(parent.hear(), "host 1", options(false)).value();
  const std::vector<std::byte> large = payload(100'000'000, 1);
  absl::Status sent;
  link->send(to_bytes("large"), large, [&](const absl::Status& why) { sent = why; });
  const bool ended = drive(*link, [] { return false; });
  const absl::Status why = link->progress();
  parent.say(std::string(why.message()));
  return ended && sent == why ? 0 : 2;
}

template <class Over>
class ALinkThatIsCut : public ::testing::Test {};
TYPED_TEST_SUITE(ALinkThatIsCut, Overs, );

TYPED_TEST(ALinkThatIsCut, EndsAtBothItsEndsInMidPayload) {
  const auto hosts = Namespaces::create(2, 20);
  if (!hosts.ok()) GTEST_SKIP() << hosts.status().message();
  ChildProcess receiver(
      [&](const ChildProcess::Parent& parent) { return receive<TypeParam>(*hosts, parent); });
  const std::string address = receiver.hear();
  ASSERT_TRUE(address.starts_with(Namespaces::address(0) + ":")) << address;
  ChildProcess sender([&](const ChildProcess::Parent& parent) { return send<TypeParam>(*hosts, parent); });
  sender.say(address);
  ASSERT_EQ(receiver.hear(), "it comes");
  ASSERT_TRUE(hosts->set_link(1, false));
  for (ChildProcess* end : {&receiver, &sender}) {
    const std::string why = end->hear();
    EXPECT_NE(why.find("silent for 5000 ms"), std::string::npos) << why;
    EXPECT_EQ(end->wait(), 0);
  }
}

TYPED_TEST(ALinkThatIsCut, GoesOnIfJoinedAgainInTime) {
  const auto hosts = Namespaces::create(2, 200);
  if (!hosts.ok()) GTEST_SKIP() << hosts.status().message();
  ChildProcess receiver([&](const ChildProcess::Parent& parent) {
    if (!hosts->enter(0)) return 1;
    const TypeParam over = TypeParam::open(Namespaces::address(0)).value();
    std::unique_ptr<Link> slot;
    const auto listener =
        over.listen(0, {.accept = [](const std::string&) { return patient(); },
                        .on_link = [&](std::unique_ptr<Link> link) { slot = std::move(link); }})
            .value();
    parent.say(listener->address());
    const auto link = first_link(*listener, slot);
    if (!link) return 2;
    Inbox inbox;
    inbox.attach(*link);
    if (!drive(*link, [&] { return !inbox.items().empty(); })) return 3;
    parent.say("it comes");
    return drive(*link, [&] { return inbox.whole() == 1; }) &&
                   inbox.items()[0]->payload == payload(20'000'000, 1)
               ? 0
               : 4;
  });
  const std::string address = receiver.hear();
  ChildProcess sender([&](const ChildProcess::Parent& parent) {
    if (!hosts->enter(1)) return 1;
    const TypeParam over = TypeParam::open(Namespaces::address(1)).value();
    const auto link = over.connect(parent.hear(), "host 1", patient()).value();
    const std::vector<std::byte> large = payload(20'000'000, 1);
    bool sent = false;
    link->send({}, large, [&](const absl::Status& why) { sent = why.ok(); });
    return drive(*link, [&] { return sent; }) && sent ? 0 : 2;
  });
  sender.say(address);
  ASSERT_EQ(receiver.hear(), "it comes");
  ASSERT_TRUE(hosts->set_link(1, false));
  std::this_thread::sleep_for(300ms);
  ASSERT_TRUE(hosts->set_link(1, true));
  EXPECT_EQ(sender.wait(), 0);
  EXPECT_EQ(receiver.wait(), 0);
}

// A host loads its shard, perhaps for hours, before it answers. The kernel of its machine takes the hello meanwhile.
TEST(ATcpLinkThatIsCut, EndsAlsoBeforeItsPeerHasAnswered) {
  const auto hosts = Namespaces::create(2, 20);
  if (!hosts.ok()) GTEST_SKIP() << hosts.status().message();
  ChildProcess busy([&](const ChildProcess::Parent& parent) {
    if (!hosts->enter(0)) return 1;
    const auto listener = Tcp::open(Namespaces::address(0)).value().listen(0, {}).value();
    parent.say(listener->address());
    return parent.hear() == "end" ? 0 : 2;
  });
  const std::string address = busy.hear();
  ChildProcess waiting([&](const ChildProcess::Parent& parent) {
    if (!hosts->enter(1)) return 1;
    LinkOptions patient = options(false);
    patient.hello_limit = std::chrono::hours(24);
    const auto link =
        Tcp::open(Namespaces::address(1)).value().connect(parent.hear(), "host 1", patient).value();
    for (int i = 0; i < 10; ++i) {
      if (!link->progress().ok()) return 2;
      link->wait(100ms);
    }
    parent.say("said hello");
    const bool ended = drive(*link, [] { return false; });
    parent.say(std::string(link->progress().message()));
    return ended ? 0 : 3;
  });
  waiting.say(address);
  ASSERT_EQ(waiting.hear(), "said hello");
  ASSERT_TRUE(hosts->set_link(1, false));
  const std::string why = waiting.hear();
  EXPECT_NE(why.find("the peer is gone"), std::string::npos) << why;
  EXPECT_EQ(waiting.wait(), 0);
  busy.say("end");
  EXPECT_EQ(busy.wait(), 0);
}

}  // namespace
}  // namespace paceline::links
