// The processes of one host that work for a run, the coordinator not counted. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace paceline::supervisor {

enum class MemberKind { kServer, kWorker, kEvaluator };

struct Member {
  using SteadyTime = std::chrono::steady_clock::time_point;

  std::string name;
  MemberKind kind = MemberKind::kServer;
  bool here = false;
  std::int64_t attempt = 0;  // the attempt for which it was started last
  std::optional<SteadyTime> missed_since{};
  bool taken = false;  // another process has its place
  SteadyTime started{};
  int failed_starts = 0;  // in a row: it ended by an error of its own, soon after its start
};

class Members {
 public:
  // `replicas`: the names of each replica's workers; empty if another host has other replicas, or a part of one:
  // then this host cannot know that none is left.
  Members(const std::vector<std::pair<std::string, MemberKind>>& names,
          std::vector<std::vector<std::string>> replicas);

  auto begin() { return members_.begin(); }
  auto end() { return members_.end(); }
  Member& add(Member member) { return members_.emplace_back(std::move(member)); }
  // Forgets the member that was added last.
  void remove_last() { members_.pop_back(); }
  // nullptr if there is no such member. The place stays valid.
  Member* find(const std::string& name);

  bool knows_all_replicas() const { return !replicas_.empty(); }
  // True if some replica has all of its workers here.
  bool any_replica_whole() const;
  bool all_ended() const;
  // True if other processes have the places of all.
  bool all_taken() const;
  // True if a server or a worker is here.
  bool any_but_evaluator() const;

 private:
  bool here(const std::string& name) const;

  std::deque<Member> members_;
  const std::vector<std::vector<std::string>> replicas_;
};

}  // namespace paceline::supervisor
