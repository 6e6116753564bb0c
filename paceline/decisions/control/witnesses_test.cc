#include "paceline/decisions/control/witnesses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/decisions/control/to_string.h"

namespace paceline::control {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;

// Writes down what it hears, in a book that it may share.
class Scribe final : public RunListener {
 public:
  Scribe(std::string name, std::vector<std::string>& book) : name_(std::move(name)), book_(book) {}
  void on_fact(const Fact& fact) override { write(to_string(fact)); }
  void on_order(Time at, const Order& order) override {
    write(fmt::format("at {} s: {}", to_seconds(at), to_string(order)));
  }
  void on_evaluated(const Evaluated& evaluated) override {
    write(fmt::format("version {} has loss {}", evaluated.version, evaluated.loss));
  }

 private:
  void write(const std::string& line) { book_.push_back(fmt::format("{} {}", name_, line)); }
  std::string name_;
  std::vector<std::string>& book_;
};

constexpr Time kNow{std::chrono::seconds(2)};
const Fact kJoined{kNow, ReplicaJoined{ReplicaId(0), "w0", 4}};

Observer observer() { return {{}, 10, 10}; }

TEST(Witnesses, HearOfFactsOrdersAndEvaluationsInOrder) {
  std::vector<std::string> book;
  Scribe first("A", book);
  Scribe second("B", book);
  Witnesses witnesses(observer(), {&first, &second});
  EXPECT_EQ(witnesses.record(kJoined, {Park{ReplicaId(0)}, WakeAt{Time{}}}), std::nullopt);
  witnesses.evaluated({.at = kNow, .version = Version(3), .loss = 0.5});
  EXPECT_THAT(book,
              ElementsAre("A at 2 s: replica 0 ('w0') joins with a batch of 4",
                          "B at 2 s: replica 0 ('w0') joins with a batch of 4", "A at 2 s: park replica 0",
                          "B at 2 s: park replica 0", "A at 2 s: wake at 0 s", "B at 2 s: wake at 0 s",
                          "A version 3 has loss 0.5", "B version 3 has loss 0.5"));
}

TEST(Witnesses, TellTheFirstComplaintAndStillHearOfAll) {
  std::vector<std::string> book;
  Scribe scribe("A", book);
  Witnesses witnesses(observer(), {&scribe});
  const Release early{ReplicaId(0), Clock(1), Version(9), {0, 0, 4}, {}};
  const Release unknown{ReplicaId(7), Clock(1), Version(0), {0, 4, 8}, {}};
  EXPECT_THAT(witnesses.record(kJoined, {early, unknown}),
              Optional(HasSubstr("replica 0 is sent to version 9")));
  EXPECT_EQ(book.size(), 3u);
}

TEST(Witnesses, TellWhatIsWrongWithAFact) {
  Witnesses witnesses(observer(), {});
  EXPECT_EQ(witnesses.record(kJoined, {}), std::nullopt);
  EXPECT_THAT(witnesses.record({kNow, ReplicaReady{ReplicaId(0), Clock(1), Version(0), Duration(1), 0}}, {}),
              Optional(HasSubstr("replica 0 is ready and was not released")));
  EXPECT_EQ(witnesses.observer().largest_gap(), 0);
}

}  // namespace
}  // namespace paceline::control
