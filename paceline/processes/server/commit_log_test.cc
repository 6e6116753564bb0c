// Tests of what a server does and when: the stories in testdata/, with shards kept once and twice, and random
// orders. Events of a story, after the server's name if there are several:
//   > start once                   or twice, and then perhaps: from VERSION, announces
//   > commit 1                     an order; so are expect, revoke, certain, keep, map, unmap, send early, checkpoint
//                                  and copy
//   > made early 1                 the expected commit, because its members are ready
//   > prepared 1                   the answer to "prepare 1"; the answer to "make 1" is made 1
//   > cut off                      another host cannot be reached
//   > new session                  another coordinator is here
//   > ballot                       what the server would tell it
#include "paceline/processes/server/commit_log.h"

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/base/testing/golden_text.h"

namespace paceline::server {
namespace {

using Lines = std::vector<std::string>;

// An order of a coordinator, from words.
std::optional<wire::ServerOrder> order_of(const std::string& words) {
  const std::size_t space = words.rfind(' ');
  if (space == std::string::npos) return std::nullopt;
  const std::string what = words.substr(0, space);
  const int number = std::stoi(words.substr(space + 1));
  wire::ServerOrder order;
  if (what == "commit") {
    order.mutable_apply()->set_version(number);
    order.mutable_apply()->set_state(fmt::format("state {}", number));
    order.mutable_apply()->set_elapsed_ns(10 * number);
  } else if (what == "expect") {
    order.mutable_expect()->mutable_commit()->set_version(number);
    order.mutable_expect()->mutable_commit()->set_state(fmt::format("state {}", number));
    order.mutable_expect()->mutable_commit()->set_elapsed_ns(10 * number);
  } else if (what == "revoke") {
    order.mutable_revoke()->set_version(number);
  } else if (what == "checkpoint") {
    order.mutable_write_checkpoint()->set_version(number);
  } else if (what == "certain") {
    order.mutable_publish()->set_version(number);
  } else if (what == "keep") {
    order.mutable_keep()->set_version(number);
  } else if (what == "map") {
    order.mutable_map_gradient()->set_replica(number);
  } else if (what == "unmap") {
    order.mutable_unmap_gradient()->set_replica(number);
  } else if (what == "send early") {
    order.mutable_send_early()->set_number(number);
  } else if (what == "copy") {
    order.mutable_write_copy()->set_version(number);
    order.mutable_write_copy()->set_shard(1);
    order.mutable_write_copy()->set_dir("the checkpoint");
  } else {
    return std::nullopt;
  }
  return order;
}

std::string in_words(const Action& action) {
  if (const auto* one = std::get_if<Make>(&action)) return fmt::format("make {}", one->commit.version());
  if (const auto* one = std::get_if<Prepare>(&action))
    return fmt::format("prepare {}", one->commit.version());
  if (const auto* one = std::get_if<SendAhead>(&action))
    return fmt::format("send the gradients of {} ahead", one->commit.version());
  if (const auto* one = std::get_if<Confirm>(&action)) return fmt::format("confirm {}", one->version);
  if (const auto* one = std::get_if<Publish>(&action)) return fmt::format("publish {}", one->version);
  if (const auto* one = std::get_if<WriteCopy>(&action))
    return fmt::format("{}write {} of shard {} to {}", one->publish ? "publish and " : "", one->version,
                       one->shard, one->dir);
  if (const auto* one = std::get_if<SendMessage>(&action)) {
    if (one->message.has_revoked())
      return fmt::format("say that {} is {}", one->message.revoked().version(),
                         one->message.revoked().made() ? "made" : "not made");
    return one->message.has_applied() ? fmt::format("say applied {}", one->message.applied().version())
                                      : fmt::format("say prepared {}", one->message.prepared().version());
  }
  const wire::ServerOrder& order = std::get<CarryOut>(action).order;
  if (order.has_write_checkpoint())
    return fmt::format("write a checkpoint of {}", order.write_checkpoint().version());
  return order.has_keep()           ? fmt::format("keep {}", order.keep().version())
         : order.has_send_early()   ? fmt::format("send early {}", order.send_early().number())
         : order.has_map_gradient() ? fmt::format("map {}", order.map_gradient().replica())
                                    : fmt::format("unmap {}", order.unmap_gradient().replica());
}

Lines in_words(const absl::StatusOr<Actions>& actions) {
  if (!actions.ok())
    return {fmt::format("the coordinator is wrong: {}", std::string(actions.status().message()))};
  Lines lines;
  for (const Action& action : *actions) lines.push_back(in_words(action));
  return lines;
}

std::string in_words(const std::optional<wire::Ballot>& ballot) {
  if (!ballot) return "no ballot";
  return fmt::format("'{}', server {} of {}, {} copies: made {}, published {}; {} after {} ns",
                     ballot->attempt(), ballot->shard(), ballot->shard_count(), ballot->copies(),
                     ballot->made(), ballot->published(), ballot->state(), ballot->elapsed_ns());
}

CommitLog started(int copies, bool announces = false, int version = 0) {
  wire::ServerStart start;
  start.set_attempt("run 1");
  start.set_shard(1);
  start.set_shard_count(3);
  start.set_copies(copies);
  start.set_announce(announces);
  start.set_version(version);
  CommitLog log;
  log.start(start);
  return log;
}

std::optional<Lines> told(CommitLog& log, const std::string& words) {
  const auto like = [&](const char* pattern) { return golden::Event::like(words, pattern); };
  if (const auto start = like("start *")) {
    golden::Phrases phrases(start->front());
    const bool announces = phrases.has("announces");
    const int from = phrases.number_after("from").value_or(0);
    log = started(phrases.has("twice") ? 2 : phrases.has("once") ? 1 : 0, announces, from);
    return Lines{fmt::format("go on from version {}", from)};
  }
  if (words == "new session") {
    log.new_session();
    return Lines{"wait for a start"};
  }
  if (words == "cut off")
    return Lines{log.cut_off() ? "make nothing any more" : "the run is lost: there are no copies"};
  if (words == "ballot") return Lines{in_words(log.ballot())};
  if (like("made early *")) {
    if (log.expected() == nullptr) return Lines{"nothing is expected"};
    log.made_early();
    return Lines{};
  }
  if (const auto version = like("made *")) return in_words(log.made(Version(std::stoi(version->front()))));
  if (const auto version = like("prepared *"))
    return in_words(log.prepared(order_of("commit " + version->front())->apply()));
  const auto order = order_of(words);
  if (!order) return std::nullopt;
  return in_words(log.take(*order));
}

constexpr char kStories[] = "paceline/processes/server/testdata";

class CommitLogStory : public testing::TestWithParam<std::string> {};

TEST_P(CommitLogStory, IsTrue) {
  std::map<std::string, CommitLog> servers;
  const auto path = std::filesystem::path(kStories) / (GetParam() + ".txt");
  golden::expect_story(path, "commit_log_test", [&](const golden::Event& event) {
    const auto named = event.like("server * *");
    if (!named) return told(servers[""], event.words());
    return told(servers[named->at(0)], named->at(1));
  });
}

INSTANTIATE_TEST_SUITE_P(Files, CommitLogStory, testing::ValuesIn(golden::texts_in(kStories)),
                         [](const auto& test) { return test.param; });

// Whatever comes between: versions are prepared and published in their order, each once, and what has a turn
// is carried out after all commits that were ordered before it and before all that were ordered after it.
TEST(CommitLog, RandomOrdersComeOutInTheirTurn) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    Rng rng(seed);
    CommitLog log = started(2);
    int ordered = 0, certain = 0, made = 0;
    Lines orders, done;  // "commit 1", "keep 1"
    const auto tell = [&](const std::string& words) {
      const Lines lines = *told(log, words);
      for (const std::string& line : lines) {
        if (line.starts_with("prepare")) done.push_back("commit" + line.substr(7));
        if (line.starts_with("keep")) done.push_back(line);
      }
      if (!lines.empty() && lines.back().starts_with("prepare"))
        told(log, fmt::format("prepared {}", ++made));
    };
    for (int step = 0; step < 30 || made < ordered || certain < made; ++step) {
      const bool may_order = step < 30;
      if (may_order && rng.below(3) == 0) {
        tell(orders.emplace_back(fmt::format("commit {}", ++ordered)));
      } else if (may_order && rng.below(2) == 0) {
        tell(orders.emplace_back(fmt::format("keep {}", step)));
      } else if (certain < made) {
        tell(fmt::format("certain {}", ++certain));
      }
    }
    ASSERT_EQ(done, orders) << seed;
  }
}

}  // namespace
}  // namespace paceline::server
