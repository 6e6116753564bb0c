// Compares the texts in testdata/ to what a supervisor does. Its processes are server0, w0, w1 and, if it leads, an
// evaluator; w0 and w1 are a replica each. Events, after the time in seconds:
//   begin                          or with phrases, such as: begin elsewhere; host 1; patience 10
//   w0 is killed                   a process ends. As phrases: newest 7; has trained
//   w0 is done                     so are: loses the coordinator, and with the words after it: fails, finds its place
//                                  taken, hears that the run failed, hears of the stop, hears that its host is given up,
//                                  reaches too few hosts
//   coordinator is killed          the same
//   answer 1                       the coordinator answers, about attempt 1: answer 1 trains; misses w0 w1
//   nobody answers                 or: no answer in time
//   host 1 trains from ADDRESS     it leads the run, as seen while the coordinator here waits
//   time passes
//   stop                           a person wants the end, or: stop with its host, stop at once
// A line without a time says what the supervisor sees from then on:
//   run folder: nobody leads       or: host 2 leads from ADDRESS, host 1 led (and does no more), over
//   starts of w1 fail              or succeed
#include <filesystem>
#include <set>

#include <absl/strings/str_split.h>
#include <gtest/gtest.h>

#include "paceline/base/testing/golden_text.h"
#include "paceline/decisions/supervisor/testing/launcher_world.h"

namespace paceline::supervisor {
namespace {

using golden::Answers;

// A story about one supervisor after the other.
class Story : private LauncherWorld {
 public:
  // Does nothing if the line is prose.
  void set(const std::string& line) {
    if (const auto starts = golden::Event::like(line, "starts of * fail")) {
      fails_.insert(starts->front());
    } else if (const auto again = golden::Event::like(line, "starts of * succeed")) {
      fails_.erase(again->front());
    } else if (line.starts_with("run folder: ")) {
      EXPECT_TRUE(see(line.substr(12))) << line;
    }
  }

  // The answers to an event; nullopt if it is unknown.
  std::optional<Answers> take(const golden::Event& event) {
    now_ = kBegin + std::chrono::milliseconds(std::lround(event.seconds() * 1000));
    const bool over_before = supervisor_ && supervisor_->outcome();
    if (!happens_in_words(event)) return std::nullopt;
    Answers lines;
    for (const std::string& one : take_done()) add(one, lines);
    if (supervisor_ && supervisor_->outcome() && (!over_before || event.words().starts_with("begin")))
      lines.push_back("the end: " + outcome());
    return lines;
  }

 private:
  // Processes that are started or killed one after the other are in one line.
  static void add(const std::string& one, Answers& lines) {
    for (const std::string verb : {"start ", "kill "}) {
      const bool joins = one.starts_with(verb) && !lines.empty() && lines.back().starts_with(verb) &&
                         !lines.back().ends_with(" again");
      if (!joins) continue;
      lines.back() += ", " + one.substr(verb.size());
      return;
    }
    lines.push_back(one);
  }

  static constexpr Supervisor::SteadyTime kBegin{std::chrono::hours(1)};

  bool happens_in_words(const golden::Event& event) {
    const std::string& words = event.words();
    if (words == "begin" || words.starts_with("begin "))
      return begin_in_words(words.substr(std::min<std::size_t>(words.size(), 6)));
    if (!supervisor_) return false;
    if (words == "time passes") {
      happens(TimePassed{});
    } else if (words == "nobody answers" || words == "no answer in time") {
      happens(NotAnswered{words == "nobody answers"});
    } else if (words == "stop" || words == "stop with its host") {
      happens(StopWanted{"interrupted", words == "stop" ? StopCause::kAsked : StopCause::kShutDown});
    } else if (words == "the leader before is back") {
      happens(LeaderIsBack{});
    } else if (words == "stop at once") {
      happens(KillWanted{});
    } else if (const auto by = event.like("host * trains from *")) {
      happens(LedElsewhere{{HostRank(std::stoi((*by)[0])), (*by)[1]}});
    } else if (const auto said = event.like("answer * *")) {
      return answer_in_words((*said)[0], (*said)[1]);
    } else if (const auto plain = event.like("answer *")) {
      return answer_in_words(plain->front(), "");
    } else {
      return end_in_words(words);
    }
    return true;
  }

  bool begin_in_words(const std::string& words) {
    golden::Phrases phrases(words);
    SupervisorOptions with = options();
    if (phrases.has("elsewhere")) {
      with.leads = false;
      with.replicas.clear();
      with.leader = "10.0.0.1:1";
    }
    with.host = HostRank(phrases.number_after("host").value_or(0));
    with.patience_s = phrases.number_after("patience").value_or(0);
    with.after_limit_s = phrases.number_after("limit after the job").value_or(0);
    with.resumes = phrases.has("has trained before");
    with.copies = phrases.has("copies");
    with.plans_anew = phrases.has("any worker will do");
    if (phrases.has("w0 and w1 are one replica")) with.replicas = {{"w0", "w1"}};
    if (phrases.has("other hosts have workers")) with.replicas.clear();
    starting_ = [this](const std::string& name) {
      return fails_.contains(name) ? absl::UnavailableError(name + " cannot start") : absl::OkStatus();
    };
    begin(std::move(with));
    return true;
  }

  bool see(const std::string& words) {
    if (words == "over") {
      folder_ = {{}, false, true};
    } else if (words == "nobody leads") {
      folder_ = {{{HostRank(0), "10.0.0.1:1"}}, false, false};
    } else if (const auto led = golden::Event::like(words, "host * leads from *")) {
      folder_ = {{{HostRank(std::stoi((*led)[0])), (*led)[1]}}, true, false};
    } else if (const auto before = golden::Event::like(words, "host * led")) {
      folder_ = {{{HostRank(std::stoi(before->front())), "10.0.0.2:7461"}}, false, false};
    } else {
      return false;
    }
    return true;
  }

  bool answer_in_words(const std::string& attempt, const std::string& words) {
    golden::Phrases phrases(words);
    const bool trains = phrases.has("trains");
    answer(std::stoi(attempt), trains,
           absl::StrSplit(phrases.after("misses").value_or(""), ' ', absl::SkipEmpty()));
    return true;
  }

  bool end_in_words(const std::string& words) {
    const std::size_t space = words.find(' ');
    if (space == std::string::npos) return false;
    const std::string name = words.substr(0, space);
    golden::Phrases phrases(words.substr(space + 1));
    const std::optional<int> newest = phrases.number_after("newest");
    const bool has_trained = phrases.has("has trained");
    std::optional<ProcessEnd> end;
    if (phrases.has("is killed")) end = killed();
    if (phrases.has("is done")) end = done();
    if (phrases.has("loses the coordinator"))
      end = said(ExitReason::kCoordinatorLost, "the coordinator is gone");
    if (phrases.has("hears that its host is given up"))
      end = said(ExitReason::kHostGivenUp, "the run goes on without this host");
    if (const auto why = phrases.after("fails:")) end = said(ExitReason::kOwnError, *why);
    if (const auto why = phrases.after("finds its place taken:")) end = said(ExitReason::kPlaceTaken, *why);
    if (const auto why = phrases.after("hears that the run failed:"))
      end = said(ExitReason::kRunFailed, *why);
    if (const auto why = phrases.after("leaves the lead:")) end = said(ExitReason::kLeavesLead, *why);
    if (const auto why = phrases.after("misses a member:")) end = said(ExitReason::kMemberLost, *why);
    if (const auto why = phrases.after("hears of the stop:")) end = interrupted(*why);
    if (!end) return false;
    const auto version = newest ? std::optional(Version(*newest)) : std::nullopt;
    if (name == "coordinator")
      coordinator_ends(*end, version, has_trained);
    else
      ends(name, *end, version, has_trained);
    return true;
  }

  std::set<std::string> fails_;
};

class SupervisorGolden : public ::testing::TestWithParam<std::string> {};

constexpr char kFolder[] = "paceline/decisions/supervisor/testdata";

TEST_P(SupervisorGolden, DoesWhatTheTextSays) {
  Story story;
  const std::filesystem::path path = std::filesystem::path(kFolder) / (GetParam() + ".txt");
  golden::expect_story(
      path, "supervisor_test", [&](const golden::Event& event) { return story.take(event); },
      [&](const std::string& line) { story.set(line); });
}

INSTANTIATE_TEST_SUITE_P(Files, SupervisorGolden, ::testing::ValuesIn(golden::texts_in(kFolder)),
                         [](const auto& one) { return one.param; });

}  // namespace
}  // namespace paceline::supervisor
