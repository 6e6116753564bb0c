// A link's reactions to frames of its peer, and to frames that were changed, kept, repeated or made up.
#include "paceline/transport/links/link_frames.h"

#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "paceline/transport/links/link.h"
#include "paceline/transport/links/testing/link_ends.h"
#include "paceline/transport/links/testing/paired_ports.h"

namespace paceline::links {
namespace {

using links::testing::Frame;
using links::testing::Inbox;
using links::testing::keys;
using links::testing::PairedPort;
using links::testing::payload;
using links::testing::to_bytes;

// Two links over joined ports.
class Pair {
 public:
  explicit Pair(bool sealed, std::uint8_t others_keys = 1) {
    auto one = std::make_unique<PairedPort>(), other = std::make_unique<PairedPort>();
    PairedPort::join(*one, *other);
    from_one = one.get();
    from_other = other.get();
    LinkOptions mine, theirs;
    theirs.most_payload = 100'000;
    if (sealed) mine.keys = keys(1);
    if (sealed) theirs.keys = keys(others_keys, true);
    link = std::make_unique<Link>(std::move(one), "the listener", "one", mine);
    peer = std::make_unique<Link>(std::move(other), "the connector", [=](const auto&) { return theirs; });
    inbox.attach(*peer);
  }
  void run(int rounds = 20) {
    for (int i = 0; i < rounds; ++i) {
      link->progress().IgnoreError();
      peer->progress().IgnoreError();
    }
  }
  absl::Status peers_status() { return peer->progress(); }

  PairedPort* from_one = nullptr;
  PairedPort* from_other = nullptr;
  std::unique_ptr<Link> link;
  std::unique_ptr<Link> peer;
  Inbox inbox;
};

class LinkThatIsMeddledWith : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Sealed, LinkThatIsMeddledWith, ::testing::Bool(),
                         [](const auto& one) { return one.param ? "Sealed" : "Clear"; });

FrameKind kind_of(const Frame& frame) { return static_cast<FrameKind>(frame.head[0]); }

// Sends 30,000 bytes while `hand` changes the frames on their way; `why` is the error that the receiver has
// to report.
void expect_ended(bool sealed, const PairedPort::Hand& hand, const std::string& why) {
  Pair pair(sealed);
  pair.run();
  ASSERT_TRUE(pair.link->open() && pair.peer->open());
  pair.from_one->meddle(hand);
  const std::vector<std::byte> large = payload(30'000, 1);
  pair.link->send(to_bytes("header"), large, [](const auto&) {});
  pair.link->send(to_bytes("second"), large, [](const auto&) {});
  pair.run();
  EXPECT_EQ(pair.peers_status().code(), absl::StatusCode::kDataLoss) << pair.peers_status();
  EXPECT_NE(pair.peers_status().message().find(why), absl::string_view::npos) << pair.peers_status();
  EXPECT_EQ(pair.peers_status().message().find('\n'), absl::string_view::npos);
  for (const auto& item : pair.inbox.items()) {
    EXPECT_TRUE(!item->whole || item->payload == large) << "what was told is true all the same";
  }
}

PairedPort::Hand change(FrameKind kind, const std::function<void(Frame&)>& how) {
  return [=](Frame frame, std::deque<Frame>& on) {
    if (kind_of(frame) == kind) how(frame);
    on.push_back(std::move(frame));
  };
}

TEST_P(LinkThatIsMeddledWith, EndsWhenAFrameIsRepeated) {
  for (const FrameKind kind : {FrameKind::kOffer, FrameKind::kChunk}) {
    expect_ended(
        GetParam(),
        [=](Frame frame, std::deque<Frame>& on) {
          if (kind_of(frame) == kind) on.push_back(frame);
          on.push_back(frame);
        },
        "repeated, left out or moved");
  }
}

TEST_P(LinkThatIsMeddledWith, EndsWhenAFrameIsLeftOut) {
  int chunks = 0;
  expect_ended(
      GetParam(),
      [&](Frame frame, std::deque<Frame>& on) {
        if (kind_of(frame) == FrameKind::kChunk && ++chunks == 2) return;
        on.push_back(std::move(frame));
      },
      "repeated, left out or moved");
}

TEST_P(LinkThatIsMeddledWith, EndsWhenFramesChangePlaces) {
  std::deque<Frame> kept;
  expect_ended(
      GetParam(),
      [&](Frame frame, std::deque<Frame>& on) {
        if (kind_of(frame) == FrameKind::kChunk && kept.empty()) {
          kept.push_back(std::move(frame));
          return;
        }
        on.push_back(std::move(frame));
        if (!kept.empty()) on.push_back(kept.front());
      },
      "repeated, left out or moved");
}

TEST_P(LinkThatIsMeddledWith, EndsWhenAFrameIsCutShort) {
  expect_ended(GetParam(), change(FrameKind::kOffer, [](Frame& frame) { frame.head.pop_back(); }),
               "not as long as it says");
  expect_ended(GetParam(), change(FrameKind::kOffer, [](Frame& frame) { frame.head.resize(5); }),
               "malformed");
}

// One bit is changed, anywhere in a sealed frame.
TEST(SealedLink, EndsWhenABitIsChanged) {
  for (const FrameKind kind : {FrameKind::kOffer, FrameKind::kChunk}) {
    for (const std::size_t at : {0, 1, 100, 9'999}) {
      if (kind == FrameKind::kOffer && at > 0) continue;
      expect_ended(true,
                   change(kind,
                          [=](Frame& frame) {
                            if (!frame.data.empty()) frame.data[at] ^= std::byte{1};
                            if (frame.data.empty()) frame.head[kFixedHeadBytes] ^= std::byte{0x80};
                          }),
                   "not what the peer sealed");
    }
    for (std::size_t bit = 0; bit < (kFixedHeadBytes + 6 + kTagBytes) * 8; bit += 5) {
      if (kind == FrameKind::kChunk && bit / 8 >= kFixedHeadBytes + kTagBytes) continue;
      expect_ended(true,
                   change(kind, [=](Frame& frame) { frame.head[bit / 8] ^= std::byte(1 << (bit % 8)); }), "");
    }
  }
}

TEST(SealedLink, ShowsNothingOfAPayloadAndNothingTwice) {
  Pair pair(true);
  pair.run();
  std::vector<Frame> seen;
  pair.from_one->meddle([&](Frame frame, std::deque<Frame>& on) {
    seen.push_back(frame);
    on.push_back(std::move(frame));
  });
  const std::vector<std::byte> zeros(10'000);
  for (int i = 0; i < 2; ++i) pair.link->send({}, zeros, [](const auto&) {});
  pair.run();
  ASSERT_EQ(pair.inbox.whole(), 2u);
  std::vector<std::vector<std::byte>> chunks;
  for (const Frame& frame : seen) {
    if (kind_of(frame) == FrameKind::kChunk) chunks.push_back(frame.data);
  }
  ASSERT_EQ(chunks.size(), 2u);
  EXPECT_NE(chunks[0], zeros);
  EXPECT_NE(chunks[0], chunks[1]) << "the same payload was sealed with the same nonce";
}

// A recording of one link is played to another one with the same keys.
TEST(SealedLink, DoesNotTakeTheFramesOfAnEarlierLinkWithTheSameKeys) {
  std::vector<Frame> recorded;
  {
    auto one = std::make_unique<PairedPort>(), other = std::make_unique<PairedPort>();
    PairedPort::join(*one, *other);
    one->meddle([&](Frame frame, std::deque<Frame>& on) {
      recorded.push_back(frame);
      on.push_back(std::move(frame));
    });
    LinkOptions mine, theirs;
    mine.keys = keys(1);
    theirs.keys = keys(1, true);
    Link link(std::move(one), "b", "a", mine);
    Link peer(std::move(other), "a", [=](const auto&) { return theirs; });
    for (int i = 0; i < 5; ++i) {
      link.progress().IgnoreError();
      peer.progress().IgnoreError();
    }
    ASSERT_TRUE(peer.open());
  }
  auto port = std::make_unique<PairedPort>();
  for (const Frame& frame : recorded) port->inject(frame);
  LinkOptions theirs;
  theirs.keys = keys(1, true);
  Link peer(std::move(port), "a recording", [=](const auto&) { return theirs; });
  EXPECT_EQ(peer.progress().code(), absl::StatusCode::kFailedPrecondition) << peer.progress();
  EXPECT_FALSE(peer.open());
}

TEST(Link, EndsWhenAMessageLargerThanItTakesIsOffered) {
  // The sender was told another limit.
  auto one = std::make_unique<PairedPort>(), other = std::make_unique<PairedPort>();
  PairedPort::join(*one, *other);
  one->meddle([](Frame frame, std::deque<Frame>& on) {
    if (kind_of(frame) == FrameKind::kOffer) {
      frame.head[24] = std::byte{1};
      frame.head[24 + 4] = std::byte{1};  // 4 GiB and a byte
    }
    on.push_back(std::move(frame));
  });
  Link link(std::move(one), "b", "a", LinkOptions{});
  Link peer(std::move(other), "a", [](const auto&) { return LinkOptions{}; });
  const std::vector<std::byte> some = payload(10'000, 1);
  link.send({}, some, [](const auto&) {});
  for (int i = 0; i < 5; ++i) {
    link.progress().IgnoreError();
    peer.progress().IgnoreError();
  }
  EXPECT_EQ(peer.progress().code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(peer.progress().message().find("the most is"), absl::string_view::npos) << peer.progress();
}

TEST(Link, EndsWhenMoreMessagesComeThanItHolds) {
  Pair pair(false);
  pair.peer->on_message([](const Link::Message&) {});
  pair.run();
  pair.link->send({}, {}, [](const auto&) {});
  pair.run();
  // A link that does not count offers would go on after the 64th.
  std::vector<std::byte> head;
  for (std::uint64_t i = 1; i <= 64; ++i) {
    pair.from_other->inject({write_head({FrameKind::kOffer, 2 + i, i, 0}, {}, false), {}});
  }
  pair.run(3);
  EXPECT_EQ(pair.peers_status().code(), absl::StatusCode::kDataLoss) << pair.peers_status();
}

TEST(Link, HoldsItselfToTheMessagesThatAPeerCanHold) {
  Pair pair(false);
  int heard = 0;
  std::vector<std::uint64_t> ids;
  pair.peer->on_message([&](const Link::Message& message) {
    ++heard;
    ids.push_back(message.id);
  });
  for (int i = 0; i < 200; ++i) pair.link->send({}, {}, [](const auto&) {});
  pair.run();
  EXPECT_EQ(heard, 64);
  for (const std::uint64_t id : ids) pair.peer->receive(id, {}, [](const auto&) {});
  pair.run();
  EXPECT_EQ(heard, 128);
  EXPECT_TRUE(pair.peers_status().ok());
}

// The first link's peer hears its end only when the second link's peer has.
TEST(Link, DoesNotDelayAnotherOneWhileItCloses) {
  Pair first(false), second(false);
  first.run();
  second.run();
  bool heard = false, gone = false;
  first.from_one->at_finish([&] { return gone = heard; });
  second.from_one->at_finish([&] { return heard = true; });
  std::vector<std::unique_ptr<Link>> links;
  links.push_back(std::move(first.link));
  links.push_back(std::move(second.link));
  Link::close(std::move(links));
  EXPECT_TRUE(gone);
}

TEST(LinkFrames, AHeadIsReadAsItWasWritten) {
  const std::vector<std::byte> header = payload(kMostHeaderBytes, 1);
  for (const bool sealed : {false, true}) {
    const FrameHead head{FrameKind::kOffer, 7, 8, 100'000};
    const std::vector<std::byte> bytes = write_head(head, header, sealed);
    const auto read = read_head(bytes, 0, sealed);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->head, head);
    EXPECT_TRUE(std::ranges::equal(read->header, header));
    EXPECT_EQ(read->tag.size(), sealed ? kTagBytes : 0);
    EXPECT_FALSE(read_head(bytes, 1, sealed).ok());
    EXPECT_FALSE(read_head(bytes, 0, !sealed).ok());
  }
}

TEST(LinkFrames, AHelloIsReadAsItWasWrittenAndItsTextIsPrintable) {
  Hello hello{.sealed = true, .most_payload = 5, .nonce = {}, .text = "a\nb"};
  hello.nonce.fill(std::byte{3});
  auto read = read_hello(write_hello(hello));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->text, "a?b");
  hello.text = read->text;
  EXPECT_EQ(*read, hello);
  EXPECT_FALSE(read_hello(to_bytes("GET / HTTP/1.1")).ok());
}

}  // namespace
}  // namespace paceline::links
