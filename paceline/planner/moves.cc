#include "paceline/planner/moves.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "paceline/planner/partition.h"

namespace paceline::planner {

namespace {

// A place in a pipeline.
struct Slot {
  std::size_t replica;
  std::size_t stage;
};

// In clusters of more devices too many plans are a device's move away.
constexpr std::int32_t kMostMoved = 10;

std::size_t pick(Rng& rng, std::size_t count) { return static_cast<std::size_t>(rng.below(count)); }

std::vector<Slot> slots_of(const Plan& plan) {
  std::vector<Slot> slots;
  for (std::size_t g = 0; g < plan.replicas.size(); ++g) {
    for (std::size_t s = 0; s < plan.replicas[g].devices.size(); ++s) slots.push_back({g, s});
  }
  return slots;
}

std::int32_t& device_at(Plan& plan, const Slot& slot) {
  return plan.replicas[slot.replica].devices[slot.stage];
}

// Cuts the replica for its devices as they are now.
bool recut(const CostModel& model, const Plan& plan, PlannedReplica& replica) {
  const auto replicas = static_cast<std::int64_t>(plan.replicas.size());
  const std::int64_t each = plan.micro_batch * replicas;
  auto cuts =
      balanced_cuts(model, replica.devices, plan.micro_batch, (model.problem().batch + each - 1) / each);
  if (!cuts) return false;
  replica.cuts = *std::move(cuts);
  return true;
}

// Takes the device out; its replica goes if it was the only one.
bool take_out(const CostModel& model, Plan& plan, const Slot& slot) {
  PlannedReplica& replica = plan.replicas[slot.replica];
  replica.devices.erase(replica.devices.begin() + static_cast<std::ptrdiff_t>(slot.stage));
  if (!replica.devices.empty()) return recut(model, plan, replica);
  plan.replicas.erase(plan.replicas.begin() + static_cast<std::ptrdiff_t>(slot.replica));
  return !plan.replicas.empty();
}

// Puts a device that is in no replica to this place of one, or makes it one when there is none of that
// number.
bool put_at(const CostModel& model, std::int32_t device, const Slot& slot, Plan& plan) {
  if (slot.replica == plan.replicas.size()) plan.replicas.emplace_back();
  std::vector<std::int32_t>& devices = plan.replicas[slot.replica].devices;
  devices.insert(devices.begin() + static_cast<std::ptrdiff_t>(slot.stage), device);
  return recut(model, plan, plan.replicas[slot.replica]);
}

// The same, anywhere.
bool put_in(const CostModel& model, Rng& rng, std::int32_t device, Plan& plan) {
  const std::size_t g = pick(rng, plan.replicas.size() + 1);
  const std::size_t stages = g < plan.replicas.size() ? plan.replicas[g].devices.size() : 0;
  return put_at(model, device, {g, pick(rng, stages + 1)}, plan);
}

bool shift_to(const CostModel& model, PlannedReplica& replica, std::size_t cut, std::int32_t by) {
  const std::int32_t to = replica.cuts[cut] + by;
  if (to <= replica.begin(cut) || to >= replica.end(cut + 1, model.problem().layers())) return false;
  replica.cuts[cut] = to;
  return true;
}

bool shift_a_cut(const CostModel& model, Rng& rng, Plan& plan) {
  PlannedReplica& replica = plan.replicas[pick(rng, plan.replicas.size())];
  if (replica.cuts.empty()) return false;
  const auto by = static_cast<std::int32_t>(1 + pick(rng, 3)) * (rng.below(2) == 0 ? 1 : -1);
  return shift_to(model, replica, pick(rng, replica.cuts.size()), by);
}

bool change_micro_batch(const CostModel& model, Rng& rng, Plan& plan) {
  const std::vector<std::int64_t>& sizes = model.problem().micro_batches;
  const auto at = std::find(sizes.begin(), sizes.end(), plan.micro_batch);
  const bool up = rng.below(2) == 0;
  if (at == sizes.end()) return plan.micro_batch = sizes[pick(rng, sizes.size())], true;
  if (up ? at + 1 == sizes.end() : at == sizes.begin()) return false;
  plan.micro_batch = up ? *(at + 1) : *(at - 1);
  return true;
}

// Of the slots and the devices outside; at least one of the two is in a replica.
bool swap_devices(const CostModel& model, Rng& rng, Plan& plan) {
  const std::vector<Slot> slots = slots_of(plan);
  std::vector<std::int32_t> outside = unused_devices(model.problem(), plan);
  const Slot& a = slots[pick(rng, slots.size())];
  const std::size_t other = pick(rng, slots.size() + outside.size());
  const bool cut_anew = rng.below(2) == 0;
  if (other >= slots.size()) {
    std::swap(device_at(plan, a), outside[other - slots.size()]);
  } else {
    std::swap(device_at(plan, a), device_at(plan, slots[other]));
    if (cut_anew && !recut(model, plan, plan.replicas[slots[other].replica])) return false;
  }
  return !cut_anew || recut(model, plan, plan.replicas[a.replica]);
}

bool move_a_device(const CostModel& model, Rng& rng, Plan& plan) {
  const std::vector<Slot> slots = slots_of(plan);
  if (slots.size() < 2) return false;
  const Slot& from = slots[pick(rng, slots.size())];
  const std::int32_t device = device_at(plan, from);
  return take_out(model, plan, from) && put_in(model, rng, device, plan);
}

// Stages from `slot` on become a replica of their own. Requires: not the first stage.
bool split_at(const CostModel& model, const Slot& slot, Plan& plan) {
  std::vector<std::int32_t>& devices = plan.replicas[slot.replica].devices;
  const auto middle = devices.begin() + static_cast<std::ptrdiff_t>(slot.stage);
  PlannedReplica second{{middle, devices.end()}, {}, 0};
  devices.erase(middle, devices.end());
  plan.replicas.push_back(std::move(second));
  return recut(model, plan, plan.replicas[slot.replica]) && recut(model, plan, plan.replicas.back());
}

bool split_a_replica(const CostModel& model, Rng& rng, Plan& plan) {
  const std::size_t g = pick(rng, plan.replicas.size());
  const std::size_t stages = plan.replicas[g].devices.size();
  return stages >= 2 && split_at(model, {g, 1 + pick(rng, stages - 1)}, plan);
}

// The stages of `h` follow those of `g`. Requires: two replicas.
bool merge(const CostModel& model, std::size_t g, std::size_t h, Plan& plan) {
  std::vector<std::int32_t>& devices = plan.replicas[g].devices;
  devices.insert(devices.end(), plan.replicas[h].devices.begin(), plan.replicas[h].devices.end());
  if (!recut(model, plan, plan.replicas[g])) return false;
  plan.replicas.erase(plan.replicas.begin() + static_cast<std::ptrdiff_t>(h));
  return true;
}

bool merge_replicas(const CostModel& model, Rng& rng, Plan& plan) {
  if (plan.replicas.size() < 2) return false;
  const std::size_t g = pick(rng, plan.replicas.size()), h = pick(rng, plan.replicas.size());
  return g != h && merge(model, g, h, plan);
}

bool drop_a_device(const CostModel& model, Rng& rng, Plan& plan) {
  const std::vector<Slot> slots = slots_of(plan);
  return take_out(model, plan, slots[pick(rng, slots.size())]);
}

bool add_a_device(const CostModel& model, Rng& rng, Plan& plan) {
  const std::vector<std::int32_t> outside = unused_devices(model.problem(), plan);
  return !outside.empty() && put_in(model, rng, outside[pick(rng, outside.size())], plan);
}

using Move = bool (*)(const CostModel&, Rng&, Plan&);

}  // namespace

std::vector<std::int32_t> unused_devices(const Problem& problem, const Plan& plan) {
  std::vector<bool> used(problem.cluster.devices.size());
  for (const PlannedReplica& replica : plan.replicas) {
    for (const std::int32_t n : replica.devices) used[static_cast<std::size_t>(n)] = true;
  }
  std::vector<std::int32_t> unused;
  for (std::int32_t n = 0; n < problem.cluster.size(); ++n) {
    const auto i = static_cast<std::size_t>(n);
    if (!used[i] && problem.cluster.devices[i].present) unused.push_back(n);
  }
  return unused;
}

bool random_move(const CostModel& model, MoveScope scope, Rng& rng, Plan& plan) {
  // Cuts are shifted most often: it is the smallest step.
  constexpr std::array<Move, 10> kMoves = {shift_a_cut,   shift_a_cut,   change_micro_batch, shift_a_cut,
                                           swap_devices,  move_a_device, split_a_replica,    merge_replicas,
                                           drop_a_device, add_a_device};
  constexpr std::size_t kWithinCuts = 3;
  return kMoves[pick(rng, scope == MoveScope::kCuts ? kWithinCuts : kMoves.size())](model, rng, plan);
}

bool random_plan(const CostModel& model, Rng& rng, Plan& plan) {
  const std::vector<std::int64_t>& sizes = model.problem().micro_batches;
  plan = {{{}}, sizes[pick(rng, sizes.size())]};
  std::vector<std::int32_t> left = unused_devices(model.problem(), plan);
  const std::size_t longest = 1 + pick(rng, left.size());  // pipelines of about so many devices
  while (!left.empty()) {
    const std::size_t at = pick(rng, left.size());
    plan.replicas.back().devices.push_back(left[at]);
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(at));
    if (!left.empty() && pick(rng, longest) == 0) plan.replicas.emplace_back();
  }
  return std::all_of(plan.replicas.begin(), plan.replicas.end(),
                     [&](PlannedReplica& replica) { return recut(model, plan, replica); });
}

std::vector<Plan> neighbours(const CostModel& model, MoveScope scope, const Plan& plan) {
  std::vector<Plan> all;
  const auto consider = [&](auto&& change) {
    Plan changed = plan;
    if (change(changed)) all.push_back(std::move(changed));
  };
  for (std::size_t g = 0; g < plan.replicas.size(); ++g) {
    for (std::size_t cut = 0; cut < plan.replicas[g].cuts.size(); ++cut) {
      for (const std::int32_t by : {-1, 1})
        consider([&](Plan& changed) { return shift_to(model, changed.replicas[g], cut, by); });
    }
  }
  for (const std::int64_t u : model.problem().micro_batches) {
    if (u != plan.micro_batch) consider([&](Plan& changed) { return changed.micro_batch = u, true; });
  }
  if (scope == MoveScope::kCuts) return all;
  const std::vector<Slot> slots = slots_of(plan);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    consider([&](Plan& changed) { return take_out(model, changed, slots[i]); });
    for (std::size_t j = 0; j < i; ++j) {
      consider([&](Plan& changed) {
        std::swap(device_at(changed, slots[i]), device_at(changed, slots[j]));
        return true;
      });
    }
  }
  const std::vector<std::int32_t> unused = unused_devices(model.problem(), plan);
  for (const std::int32_t n : unused) {
    consider([&](Plan& changed) {
      changed.replicas.push_back({{n}, {}, 0});
      return true;
    });
  }
  if (model.problem().cluster.size() > kMostMoved) return all;
  for (std::size_t g = 0; g < plan.replicas.size(); ++g) {
    for (std::size_t h = 0; h < plan.replicas.size(); ++h) {
      if (g != h) consider([&](Plan& changed) { return merge(model, g, h, changed); });
    }
  }
  // `from`: a slot; null: `n` was not used.
  const auto everywhere = [&](std::int32_t n, const Slot* from) {
    Plan without = plan;
    if (from != nullptr && !take_out(model, without, *from)) return;
    for (std::size_t g = 0; g <= without.replicas.size(); ++g) {
      const std::size_t stages = g < without.replicas.size() ? without.replicas[g].devices.size() : 0;
      for (std::size_t s = 0; s <= stages; ++s) {
        Plan changed = without;
        if (put_at(model, n, {g, s}, changed)) all.push_back(std::move(changed));
      }
    }
  };
  for (const Slot& slot : slots) {
    if (slot.stage > 0) consider([&](Plan& changed) { return split_at(model, slot, changed); });
    everywhere(plan.replicas[slot.replica].devices[slot.stage], &slot);
  }
  for (const std::int32_t n : unused) {
    everywhere(n, nullptr);
    for (const Slot& slot : slots) {
      consider([&](Plan& changed) { return device_at(changed, slot) = n, true; });
    }
    for (const std::int32_t after : unused) {
      if (after == n) continue;
      consider([&](Plan& changed) {
        changed.replicas.push_back({{n, after}, {}, 0});
        return recut(model, changed, changed.replicas.back());
      });
    }
  }
  return all;
}

}  // namespace paceline::planner
