// For tests: a group whose members are plain memory of one process. Members move in random order, and see
// each other's progress late, at random, so that any interleaving happens. A member can die after any number
// of its steps; its memory must not be read from then on.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "paceline/base/rng.h"
#include "paceline/transport/collective/execution.h"

namespace paceline::collective::testing {

struct Death {
  int member;
  std::int64_t after_steps;
};

class LocalGroup {
 public:
  // `inputs`: one for each member, of which the first `elements` count. They outlive the group.
  LocalGroup(const std::vector<std::vector<float>>& inputs, int members, std::int64_t elements,
             std::uint64_t seed);
  ~LocalGroup();

  // A new attempt of the members that are still alive; one may die in it. True when all its members have
  // finished it.
  bool attempt(Algorithm algorithm, Phases phases, std::int64_t chunk, std::optional<Death> death = {});

  // The members by rank, and the plan, of the latest attempt.
  const std::vector<int>& members() const { return members_; }
  const Plan& plan() const { return plan_; }
  bool alive(int member) const { return seat(member).alive; }
  const float* accumulator(int member) const { return seat(member).accumulator.data(); }
  static float weight(int member) { return 0.25f + 0.5f * static_cast<float>(member); }

 private:
  struct Seat {
    std::vector<float> accumulator;
    std::uint64_t word = 0;
    bool alive = true;
  };
  struct Mover;
  class View;
  Seat& seat(int member) { return seats_[static_cast<std::size_t>(member)]; }
  const Seat& seat(int member) const { return seats_[static_cast<std::size_t>(member)]; }
  std::vector<std::unique_ptr<Mover>> take_ranks();
  // Lets one member move. Returns its state then: whether it has more to do.
  Standing::State move(Mover& mover, const std::optional<Death>& death);

  const std::vector<std::vector<float>>& inputs_;
  std::vector<Seat> seats_;
  std::vector<int> members_;
  Plan plan_;
  std::int64_t attempt_ = 0;
  Rng rng_;
};

}  // namespace paceline::collective::testing
