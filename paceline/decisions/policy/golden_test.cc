// Runs the schedules in testdata/ and compares each order, with its reason, to what the files say.
//
// A file is prose, facts and orders:
//   policy ssp:3          starts a case
//   0.5 join 0            a fact: the time in seconds, join, leave or ready, and the replica
//   0.7 complete 1        the same: the oldest commit under way, and its version
//   0.9 ring              the same: the timer that the policy asked for
//   run 0=1.0 1=2.3 9.5   everybody computes at these intervals until 9.5 s
//       release 0 …       indented: an order. Rewritten from what the policy does when PACELINE_REWRITE=1.
// Every other line is prose for the reader, and stays.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "paceline/base/testing/golden_text.h"
#include "paceline/decisions/policy/testing/checked_policy.h"

namespace paceline::policy {
namespace {

using policy::testing::CheckedPolicy;

std::vector<std::string> words(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> all;
  for (std::string word; in >> word;) all.push_back(word);
  return all;
}

// A number of seconds, as text: what opens a fact.
std::optional<Time> seconds(const std::string& word) {
  char* end = nullptr;
  const double value = std::strtod(word.c_str(), &end);
  if (word.empty() || *end != '\0') return std::nullopt;
  return Time(from_seconds(value));
}

// One case: a policy and the lines of its schedule.
class Case {
 public:
  explicit Case(const PolicySpec& spec) : policy_(spec) {}

  // The orders of one unindented line; nothing for prose.
  std::vector<std::string> run(const std::string& line) {
    const std::vector<std::string> parts = words(line);
    if (parts.empty()) return {};
    if (parts[0] == "run") return run_until(parts);
    const std::optional<Time> now = seconds(parts[0]);
    if (now && parts.size() == 2 && parts[1] == "ring") return lines_of(give(*now, parts[1], 0));
    if (!now || parts.size() != 3) return {};
    return lines_of(give(*now, parts[1], std::stoi(parts[2])));
  }
  const std::string& broken() const { return policy_.broken(); }

 private:
  const std::vector<Order>& give(Time now, const std::string& what, int number) {
    const std::vector<Order>& orders = take(now, what, number);
    for (const Order& order : orders) {
      if (const auto* release = std::get_if<Release>(&order)) released_[release->replica] = now;
    }
    now_ = now;
    return orders;
  }

  const std::vector<Order>& take(Time now, const std::string& what, int number) {
    const ReplicaId replica(number);
    if (what == "join") return policy_.join(replica, now);
    if (what == "leave") return policy_.leave(replica, now);
    if (what == "ready") return policy_.ready(replica, now);
    if (what == "ring") return policy_.ring(now);
    const std::vector<Order>& orders = policy_.complete(now);
    EXPECT_EQ(policy_.completed(), Version(number)) << "completions come in order";
    return orders;
  }

  std::vector<std::string> run_until(const std::vector<std::string>& parts) {
    std::map<ReplicaId, Duration> intervals;
    for (std::size_t i = 1; i + 1 < parts.size(); ++i) {
      const std::size_t equals = parts[i].find('=');
      intervals[ReplicaId(std::stoi(parts[i]))] = from_seconds(std::stod(parts[i].substr(equals + 1)));
    }
    const Time end = *seconds(parts.back());
    std::vector<std::string> lines;
    while (true) {
      std::optional<std::pair<Time, ReplicaId>> next;
      for (const auto& [replica, interval] : intervals) {
        const std::pair at{released_[replica] + interval, replica};
        if (policy_.computing(replica) && (!next || at < *next)) next = at;
      }
      if (!next || next->first > end) return lines;
      const auto [now, replica] = *next;
      const std::vector<Order>& orders = give(now, "ready", replica.value());
      lines.push_back(
          fmt::format("  at {} s {} is ready, {} ahead", to_seconds(now), replica, policy_.gap(replica)));
      for (const std::string& line : lines_of(orders)) lines.push_back(line);
    }
  }

  static std::vector<std::string> lines_of(const std::vector<Order>& orders) {
    std::vector<std::string> lines;
    for (const Order& order : orders) lines.push_back("    " + testing::to_string(order));
    if (lines.empty()) lines.emplace_back("    nothing");
    return lines;
  }

  CheckedPolicy policy_;
  Time now_{};
  std::map<ReplicaId, Time> released_;
};

class Golden : public ::testing::TestWithParam<std::string> {};

TEST_P(Golden, GivesTheOrdersInTheFile) {
  const auto path = std::filesystem::path("paceline/decisions/policy/testdata") / (GetParam() + ".txt");
  std::optional<Case> now;
  golden::expect_golden(path, "policy_test", [&](const std::string& line) -> std::vector<std::string> {
    const std::vector<std::string> parts = words(line);
    if (parts.size() == 2 && parts[0] == "policy") {
      now.emplace(parse_policy(parts[1]).value());
      return {};
    }
    if (!now) return {};
    const std::vector<std::string> orders = now->run(line);
    EXPECT_EQ(now->broken(), "") << path << " at: " << line;
    return orders;
  });
}

// "elastic-bsp" has its text in elastic_bsp.txt.
std::vector<std::string> names() {
  std::vector<std::string> names;
  for (const std::string& one : one_of_each_policy()) {
    names.push_back(one.substr(0, one.find(':')));
    std::replace(names.back().begin(), names.back().end(), '-', '_');
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(Files, Golden, ::testing::ValuesIn(names()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace paceline::policy
