#include "paceline/decisions/planner/moves.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "paceline/decisions/planner/partition.h"

namespace paceline::planner {

namespace {

// A device's place in a pipeline.
struct Slot {
  std::size_t replica;
  std::size_t place;
};

// With more devices too many plans differ by a move of one device.
constexpr std::int32_t kMostMoved = 10;
// One in this many devices that come into a pipeline shares a stage of it.
constexpr std::size_t kSharing = 4;

std::size_t pick(Rng& rng, std::size_t count) { return static_cast<std::size_t>(rng.below(count)); }

std::vector<Slot> slots_of(const Plan& plan) {
  std::vector<Slot> slots;
  for (std::size_t g = 0; g < plan.replicas.size(); ++g) {
    for (std::size_t d = 0; d < plan.replicas[g].devices.size(); ++d) slots.push_back({g, d});
  }
  return slots;
}

std::int32_t& device_at(Plan& plan, const Slot& slot) {
  return plan.replicas[slot.replica].devices[slot.place];
}

// Which devices share a stage: those in a row with equal marks.
using Marks = std::vector<std::int32_t>;
constexpr std::int32_t kOwnStage = -1;  // unlike any other mark

Marks marks_of(const PlannedReplica& replica) {
  Marks marks;
  for (std::size_t d = 0; d < replica.devices.size(); ++d) marks.push_back(replica.begin(d));
  return marks;
}

// Its devices share stages as the marks say; it is still to be cut. Requires: a mark for each device.
void share_by(const Marks& marks, PlannedReplica& replica) {
  replica = uncut(std::move(replica.devices), [&](std::size_t d) { return marks[d] == marks[d - 1]; });
}

// Cuts the replica for its devices and stages as they are now.
bool recut(const CostModel& model, const Plan& plan, PlannedReplica& replica) {
  const auto replicas = static_cast<std::int64_t>(plan.replicas.size());
  const std::int64_t each = plan.micro_batch * replicas;
  auto cuts = balanced_cuts(model, replica, plan.micro_batch, (model.problem().batch + each - 1) / each);
  if (!cuts) return false;
  replica.cuts = *std::move(cuts);
  return true;
}

// Takes the device out; its replica goes if it was the only one.
bool take_out(const CostModel& model, Plan& plan, const Slot& slot) {
  PlannedReplica& replica = plan.replicas[slot.replica];
  Marks marks = marks_of(replica);
  const auto place = static_cast<std::ptrdiff_t>(slot.place);
  marks.erase(marks.begin() + place);
  replica.devices.erase(replica.devices.begin() + place);
  share_by(marks, replica);
  if (!replica.devices.empty()) return recut(model, plan, replica);
  plan.replicas.erase(plan.replicas.begin() + static_cast<std::ptrdiff_t>(slot.replica));
  return !plan.replicas.empty();
}

// Puts a device that is in no replica to this place of one, into the stage of the device there or before
// that, or makes it a replica when there is none of that number.
bool put_at(const CostModel& model, std::int32_t device, const Slot& slot, bool shares, Plan& plan) {
  if (slot.replica == plan.replicas.size()) plan.replicas.emplace_back();
  PlannedReplica& replica = plan.replicas[slot.replica];
  Marks marks = marks_of(replica);
  const auto place = static_cast<std::ptrdiff_t>(slot.place);
  const std::int32_t mark =
      shares && !marks.empty() ? marks[std::min(slot.place, marks.size() - 1)] : kOwnStage;
  marks.insert(marks.begin() + place, mark);
  replica.devices.insert(replica.devices.begin() + place, device);
  share_by(marks, replica);
  return recut(model, plan, replica);
}

// The same, anywhere.
bool put_in(const CostModel& model, Rng& rng, std::int32_t device, Plan& plan) {
  const std::size_t g = pick(rng, plan.replicas.size() + 1);
  const std::size_t devices = g < plan.replicas.size() ? plan.replicas[g].devices.size() : 0;
  return put_at(model, device, {g, pick(rng, devices + 1)}, pick(rng, kSharing) == 0, plan);
}

// Shifts the begin of the stage of device `cut` + 1.
bool shift_to(const CostModel& model, PlannedReplica& replica, std::size_t cut, std::int32_t by) {
  const std::int32_t from = replica.cuts[cut], to = from + by;
  const auto first = std::find(replica.cuts.begin(), replica.cuts.end(), from);
  const std::int32_t before = first == replica.cuts.begin() ? 0 : *(first - 1);
  if (to <= before || to >= replica.end(cut + 1, model.problem().layers()) || from == 0) return false;
  std::replace(first, replica.cuts.end(), from, to);
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

// Swaps two devices out of the slots and the unused devices; at least one of the two is in a replica.
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

// Devices from `slot` on become a replica of their own. Requires: not the first device.
bool split_at(const CostModel& model, const Slot& slot, Plan& plan) {
  PlannedReplica& first = plan.replicas[slot.replica];
  const Marks marks = marks_of(first);
  const auto place = static_cast<std::ptrdiff_t>(slot.place);
  PlannedReplica second{{first.devices.begin() + place, first.devices.end()}, {}, 0};
  first.devices.erase(first.devices.begin() + place, first.devices.end());
  share_by({marks.begin(), marks.begin() + place}, first);
  share_by({marks.begin() + place, marks.end()}, second);
  plan.replicas.push_back(std::move(second));
  return recut(model, plan, plan.replicas[slot.replica]) && recut(model, plan, plan.replicas.back());
}

bool split_a_replica(const CostModel& model, Rng& rng, Plan& plan) {
  const std::size_t g = pick(rng, plan.replicas.size());
  const std::size_t devices = plan.replicas[g].devices.size();
  return devices >= 2 && split_at(model, {g, 1 + pick(rng, devices - 1)}, plan);
}

// The stages of `h` follow those of `g`. Requires: two replicas.
bool merge(const CostModel& model, std::size_t g, std::size_t h, Plan& plan) {
  PlannedReplica &first = plan.replicas[g], &second = plan.replicas[h];
  Marks marks = marks_of(first);
  for (const std::int32_t mark : marks_of(second)) marks.push_back(model.problem().layers() + mark);
  first.devices.insert(first.devices.end(), second.devices.begin(), second.devices.end());
  share_by(marks, first);
  if (!recut(model, plan, first)) return false;
  plan.replicas.erase(plan.replicas.begin() + static_cast<std::ptrdiff_t>(h));
  return true;
}

// The stage of the device there and the stage before it become one. Requires: not the first device.
bool join_at(const CostModel& model, const Slot& slot, Plan& plan) {
  PlannedReplica& replica = plan.replicas[slot.replica];
  Marks marks = marks_of(replica);
  const std::int32_t before = marks[slot.place - 1], mark = marks[slot.place];
  if (before == mark) return false;
  std::replace(marks.begin(), marks.end(), mark, before);
  share_by(marks, replica);
  return recut(model, plan, replica);
}

// Makes the stage's devices from this one on a stage of their own. Requires: not the first device.
bool part_at(const CostModel& model, const Slot& slot, Plan& plan) {
  PlannedReplica& replica = plan.replicas[slot.replica];
  Marks marks = marks_of(replica);
  const std::int32_t mark = marks[slot.place];
  if (marks[slot.place - 1] != mark) return false;
  std::replace(marks.begin() + static_cast<std::ptrdiff_t>(slot.place), marks.end(), mark, kOwnStage);
  share_by(marks, replica);
  return recut(model, plan, replica);
}

bool share_a_stage(const CostModel& model, Rng& rng, Plan& plan) {
  const std::size_t g = pick(rng, plan.replicas.size());
  const std::size_t devices = plan.replicas[g].devices.size();
  if (devices < 3) return false;
  const Slot slot{g, 1 + pick(rng, devices - 1)};
  return join_at(model, slot, plan) || part_at(model, slot, plan);
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
  constexpr std::array<Move, 11> kMoves = {shift_a_cut,   shift_a_cut,   change_micro_batch, shift_a_cut,
                                           swap_devices,  move_a_device, split_a_replica,    merge_replicas,
                                           drop_a_device, add_a_device,  share_a_stage};
  constexpr std::size_t kWithinCuts = 3;
  return kMoves[pick(rng, scope == MoveScope::kCuts ? kWithinCuts : kMoves.size())](model, rng, plan);
}

bool random_plan(const CostModel& model, Rng& rng, Plan& plan) {
  const std::vector<std::int64_t>& sizes = model.problem().micro_batches;
  plan = {{{}}, sizes[pick(rng, sizes.size())]};
  std::vector<std::int32_t> left = unused_devices(model.problem(), plan);
  const std::size_t longest = 1 + pick(rng, left.size());  // pipelines of about this many devices
  const bool sharing = pick(rng, kSharing) == 0;
  while (!left.empty()) {
    PlannedReplica& replica = plan.replicas.back();
    if (!replica.devices.empty()) {
      const std::int32_t before = replica.cuts.empty() ? 0 : replica.cuts.back();
      replica.cuts.push_back(before + (sharing && pick(rng, 2) == 0 ? 0 : 1));
    }
    const std::size_t at = pick(rng, left.size());
    replica.devices.push_back(left[at]);
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
      if (cut > 0 && plan.replicas[g].cuts[cut] == plan.replicas[g].cuts[cut - 1]) continue;  // same stage
      for (const std::int32_t by : {-1, 1})
        consider([&](Plan& changed) { return shift_to(model, changed.replicas[g], cut, by); });
    }
  }
  for (const std::int64_t u : model.problem().micro_batches) {
    if (u != plan.micro_batch) consider([&](Plan& changed) { return changed.micro_batch = u, true; });
  }
  if (scope == MoveScope::kCuts) return all;
  const std::vector<Slot> slots = slots_of(plan);
  const auto alone = [&](const Slot& slot) { return plan.replicas[slot.replica].devices.size() == 1; };
  for (std::size_t i = 0; i < slots.size(); ++i) {
    consider([&](Plan& changed) { return take_out(model, changed, slots[i]); });
    for (std::size_t j = 0; j < i; ++j) {
      if (alone(slots[i]) && alone(slots[j])) continue;  // the same plan in another order
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
      const PlannedReplica none, &into = g < without.replicas.size() ? without.replicas[g] : none;
      for (std::size_t place = 0; place <= into.devices.size(); ++place) {
        const bool at_the_end = place == into.devices.size();
        if (place > 0 && !at_the_end && shares_with_the_one_before(into, place)) continue;
        for (const bool shares : {false, true}) {
          if (shares && at_the_end) continue;
          Plan changed = without;
          if (put_at(model, n, {g, place}, shares, changed)) all.push_back(std::move(changed));
        }
      }
    }
  };
  for (const Slot& slot : slots) {
    if (slot.place > 0) {
      consider([&](Plan& changed) { return split_at(model, slot, changed); });
      consider([&](Plan& changed) { return join_at(model, slot, changed); });
      consider([&](Plan& changed) { return part_at(model, slot, changed); });
    }
    everywhere(plan.replicas[slot.replica].devices[slot.place], &slot);
  }
  for (const std::int32_t n : unused) {
    everywhere(n, nullptr);
    for (const Slot& slot : slots) {
      consider([&](Plan& changed) { return device_at(changed, slot) = n, true; });
    }
    for (const std::int32_t after : unused) {
      if (after == n) continue;
      consider([&](Plan& changed) {
        changed.replicas.push_back(uncut({n, after}));
        return recut(model, changed, changed.replicas.back());
      });
    }
  }
  return all;
}

}  // namespace paceline::planner
