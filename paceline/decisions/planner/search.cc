#include "paceline/decisions/planner/search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/decisions/planner/enumeration.h"
#include "paceline/decisions/planner/partition.h"

namespace paceline::planner {

namespace {

constexpr std::size_t kMostStarts = 4;
// One in this many plans is made up from nothing, before the walks; the best of these plans is a start too.
constexpr std::int64_t kMovesPerMadeUp = 8;
// A plan this much worse is kept one time in three (e⁻¹) at the start and at the end.
constexpr double kFirstTemperature = 0.1;
constexpr double kLastTemperature = 0.0005;
// Every plan is tried if there are at most this many times as many plans as moves; a move takes as long.
constexpr double kEnumerated = 4;
// Number of the best plans with different groups that are polished.
constexpr std::size_t kPolished = 6;
// Up to this many devices · layers² a pipeline is cut exactly in every plan that is tried; it takes as long
// as cutting for the least largest part takes in larger ones.
constexpr std::int64_t kCutExactly = 1000;
// The weight of broken budgets in the walk: a tenth over doubles the score.
constexpr double kOverWeight = 10;

struct Candidate {
  Plan plan;
  Evaluation evaluation;
};

double walk_energy(const Evaluation& evaluation) {
  return evaluation.score * (1 + kOverWeight * evaluation.over);
}

// Compares pipelines without their cuts.
bool same_groups_in_any_order(const Plan& a, const Plan& b) {
  return a.replicas.size() == b.replicas.size() &&
         std::all_of(a.replicas.begin(), a.replicas.end(), [&](const PlannedReplica& one) {
           return std::any_of(b.replicas.begin(), b.replicas.end(),
                              [&](const PlannedReplica& other) { return same_pipeline(one, other); });
         });
}

class Walk {
 public:
  Walk(const Evaluator& evaluator, const SearchOptions& options, Candidate best)
      : evaluator_(evaluator),
        options_(options),
        small_(cutting_work(evaluator.problem()) <= kCutExactly),
        rng_(options.seed),
        best_{std::move(best)} {}

  // The best of some plans that are drawn at random; nothing when none of them is possible.
  std::optional<Candidate> made_up(std::int64_t count) {
    std::optional<Candidate> best;
    for (std::int64_t i = 0; i < count; ++i) {
      Candidate one;
      if (!random_plan(evaluator_.model(), rng_, one.plan)) continue;
      one.evaluation = score(one.plan);
      settle(one);
      if (!one.evaluation.possible() || (best && !(one.evaluation < best->evaluation))) continue;
      best = std::move(one);
    }
    if (best) remember(*best);
    return best;
  }

  void anneal(Candidate current, std::int64_t moves) {
    for (std::int64_t i = 0; i < moves; ++i) {
      const double done = static_cast<double>(i) / static_cast<double>(moves);
      const double temperature = kFirstTemperature * std::pow(kLastTemperature / kFirstTemperature, done);
      Candidate next{current.plan, {}};
      if (!random_move(evaluator_.model(), options_.scope, rng_, next.plan)) continue;
      next.evaluation = score(next.plan);
      settle(next);
      if (!next.evaluation.possible() || !accepts(current.evaluation, next.evaluation, temperature)) continue;
      current = std::move(next);
      ++accepted_;
      remember(current);
    }
  }

  void try_every_plan() {
    Candidate& best = best_.front();
    for_each_plan(evaluator_.problem(), [&](Plan& plan) {
      const Evaluation evaluation = score(plan);
      if (!(evaluation < best.evaluation)) return;
      best = {plan, evaluation};
      ++accepted_;
    });
  }

  // Polishes each of the best plans with different groups in turn: tries the neighbours until none is better,
  // or `most_moves` are used up, then cuts exactly, and repeats if that gave something.
  void polish(std::int64_t most_moves) {
    std::vector<Candidate> polished = best_;
    for (Candidate& candidate : polished) {
      const std::int64_t end = moves_ + most_moves / static_cast<std::int64_t>(polished.size());
      do {
        while (step_to_a_neighbour(candidate, end)) {
        }
      } while (cut_exactly(candidate) && moves_ < end);
      remember(candidate);
    }
  }

  SearchResult result() && {
    return {std::move(best_.front().plan), best_.front().evaluation, moves_, accepted_};
  }

 private:
  Evaluation score(Plan& plan) {
    ++moves_;
    return evaluator_.assign(plan);
  }

  bool accepts(const Evaluation& from, const Evaluation& to, double temperature) {
    const double worse = walk_energy(to) / walk_energy(from) - 1;
    return worse <= 0 || rng_.uniform() < std::exp(-worse / temperature);
  }

  // Cuts each pipeline for the number of micro-batches that it got, if that is better.
  void settle(Candidate& candidate) {
    if (!small_ || !candidate.evaluation.possible()) return;
    Plan plan = candidate.plan;
    bool other = false;
    for (PlannedReplica& replica : plan.replicas) {
      if (replica.cuts.empty() || replica.samples == 0) continue;
      const std::int64_t count = (replica.samples + plan.micro_batch - 1) / plan.micro_batch;
      const std::optional<Cuts>& cuts = cuts_for(replica, plan.micro_batch, count);
      if (!cuts || *cuts == replica.cuts) continue;
      replica.cuts = *cuts;
      other = true;
    }
    if (!other) return;
    const Evaluation evaluation = score(plan);
    if (evaluation < candidate.evaluation) candidate = {std::move(plan), evaluation};
  }

  const std::optional<Cuts>& cuts_for(const PlannedReplica& replica, std::int64_t u, std::int64_t count) {
    std::vector<std::int64_t> key{u, count};
    for (std::size_t d = 0; d < replica.devices.size(); ++d) {
      constexpr std::int64_t kShares = std::int64_t{1} << 32;
      key.push_back(replica.devices[d] + (d > 0 && shares_with_the_one_before(replica, d) ? kShares : 0));
    }
    const auto [found, fresh] = cuts_.try_emplace(key);
    if (fresh) found->second = best_cuts(evaluator_.model(), replica, u, count);
    return found->second;
  }

  // Keeps the best few, and of those with the same groups one.
  void remember(const Candidate& candidate) {
    const auto better = [](const Candidate& a, const Candidate& b) { return a.evaluation < b.evaluation; };
    if (best_.size() == kPolished && !better(candidate, best_.back())) return;
    const auto same = std::find_if(best_.begin(), best_.end(), [&](const Candidate& other) {
      return same_groups_in_any_order(other.plan, candidate.plan);
    });
    if (same != best_.end()) {
      if (!better(candidate, *same)) return;
      best_.erase(same);
    }
    if (best_.size() == kPolished) best_.pop_back();
    best_.insert(std::upper_bound(best_.begin(), best_.end(), candidate, better), candidate);
  }

  bool improves(Plan plan, Candidate& candidate) {
    Candidate next{std::move(plan), {}};
    next.evaluation = score(next.plan);
    settle(next);
    if (!(next.evaluation < candidate.evaluation)) return false;
    candidate = std::move(next);
    ++accepted_;
    return true;
  }

  bool step_to_a_neighbour(Candidate& candidate, std::int64_t end) {
    for (Plan& plan : neighbours(evaluator_.model(), options_.scope, candidate.plan)) {
      if (moves_ >= end) return false;
      if (improves(std::move(plan), candidate)) return true;
    }
    return false;
  }

  bool cut_exactly(Candidate& candidate) {
    bool better = false;
    for (std::size_t g = 0; g < candidate.plan.replicas.size(); ++g) {
      Plan plan = candidate.plan;
      PlannedReplica& replica = plan.replicas[g];
      const std::int64_t count =
          std::max<std::int64_t>(1, (replica.samples + plan.micro_batch - 1) / plan.micro_batch);
      auto cuts = best_cuts(evaluator_.model(), replica, plan.micro_batch, count);
      if (!cuts || *cuts == replica.cuts) continue;
      replica.cuts = *std::move(cuts);
      better = improves(std::move(plan), candidate) || better;
    }
    return better;
  }

  static std::int64_t cutting_work(const Problem& problem) {
    const std::int64_t layers = problem.layers();
    return problem.cluster.size() * layers * layers;
  }

  const Evaluator& evaluator_;
  const SearchOptions& options_;
  const bool small_;
  Rng rng_;
  std::vector<Candidate> best_;  // ascending, with different groups; never empty
  std::int64_t moves_ = 0;
  std::int64_t accepted_ = 0;
  std::map<std::vector<std::int64_t>, std::optional<Cuts>> cuts_;  // indexed by u, micro-batches and devices
};

// A move takes about as long as devices and layers are many; this comes to less than a second. Few devices
// need few.
std::int64_t moves_for(const Problem& problem, MoveScope scope) {
  constexpr std::int64_t kWork = 16'000'000, kLeast = 8000, kEachDevice = 5000;
  const std::int64_t size = problem.cluster.size() * static_cast<std::int64_t>(problem.layers());
  const std::int64_t moves = std::min(std::max(kWork / size, kLeast), kEachDevice * problem.cluster.size());
  return moves / (scope == MoveScope::kCuts ? 8 : 1);
}

double megabytes(std::int64_t bytes) { return static_cast<double>(bytes) / 1e6; }

absl::Status memory_is_missing(const CostModel& model, const std::vector<std::int32_t>& devices);

// One pipeline over the largest devices, of any number; the smallest u.
absl::StatusOr<Plan> largest_first(const CostModel& model, std::vector<std::int32_t> devices) {
  const Problem& problem = model.problem();
  std::stable_sort(devices.begin(), devices.end(), [&](std::int32_t a, std::int32_t b) {
    return problem.cluster.devices[static_cast<std::size_t>(a)].memory_bytes >
           problem.cluster.devices[static_cast<std::size_t>(b)].memory_bytes;
  });
  const std::int64_t u = problem.micro_batches.front();
  const std::int64_t count = (problem.batch + u - 1) / u;
  Rng rng(1);
  constexpr int kOrders = 20;
  for (std::size_t stages = 1; stages <= devices.size(); ++stages) {
    std::vector<std::int32_t> first(devices.begin(), devices.begin() + static_cast<std::ptrdiff_t>(stages));
    for (int order = 0; order < (stages > 1 ? kOrders : 1); ++order) {
      if (auto cuts = balanced_cuts(model, uncut(first), u, count))
        return Plan{{{first, *cuts, problem.batch}}, u};
      for (std::size_t i = stages; i > 1; --i) std::swap(first[i - 1], first[rng.below(i)]);
    }
  }
  return memory_is_missing(model, devices);
}

absl::Status memory_is_missing(const CostModel& model, const std::vector<std::int32_t>& devices) {
  const Problem& problem = model.problem();
  const std::int64_t u = problem.micro_batches.front();
  const std::int64_t whole = model.memory_bytes(0, problem.layers(), u, 1);
  std::int64_t have = 0, largest = 0;
  for (const std::int32_t n : devices) {
    const std::int64_t bytes = problem.cluster.devices[static_cast<std::size_t>(n)].memory_bytes;
    have += bytes;
    largest = std::max(largest, bytes);
  }
  if (whole > have) {
    return absl::ResourceExhaustedError(fmt::format(
        "the model needs {:.4g} MB of memory (weights, gradients, activations of {} sample{}) and {}: "
        "{:.4g} MB are missing",
        megabytes(whole), u, u == 1 ? "" : "s",
        devices.size() == 1
            ? fmt::format("the one device has {:.4g} MB", megabytes(have))
            : fmt::format("the {} devices have {:.4g} MB together", devices.size(), megabytes(have)),
        megabytes(whole - have)));
  }
  for (std::int32_t l = 0; l < problem.layers(); ++l) {
    const std::int64_t layer = model.memory_bytes(l, l + 1, u, 1);
    if (layer <= largest) continue;
    return absl::ResourceExhaustedError(fmt::format(
        "layer {} needs {:.4g} MB of memory and the largest device has {:.4g} MB: {:.4g} MB are missing",
        problem.model.layers[static_cast<std::size_t>(l)].name, megabytes(layer), megabytes(largest),
        megabytes(layer - largest)));
  }
  // Together they have enough, but no cutting fits: how much more would each need?
  std::int64_t least = 0, enough = whole;
  const auto possible = [&](std::int64_t more) {
    Problem larger = problem;
    for (Device& device : larger.cluster.devices) device.memory_bytes += more;
    const CostModel of_larger(larger);
    std::vector<std::int32_t> first = devices;
    for (; !first.empty(); first.pop_back()) {
      if (balanced_cuts(of_larger, uncut(first), u, (problem.batch + u - 1) / u)) return true;
    }
    return false;
  };
  for (int i = 0; i < 40 && enough - least > 1; ++i) {
    const std::int64_t middle = least + (enough - least) / 2;
    (possible(middle) ? enough : least) = middle;
  }
  return absl::ResourceExhaustedError(fmt::format(
      "no way to cut the model fits into the memory of the {} devices; with {:.4g} MB more on each it would",
      devices.size(), megabytes(enough)));
}

}  // namespace

absl::StatusOr<SearchResult> search(const Evaluator& evaluator, const std::vector<Plan>& starts,
                                    const SearchOptions& options) {
  std::vector<Candidate> candidates;
  for (const Plan& start : starts) {
    Candidate one{start, {}};
    one.evaluation = evaluator.assign(one.plan);
    if (one.evaluation.possible()) candidates.push_back(std::move(one));
  }
  if (candidates.empty()) return absl::InvalidArgumentError("no plan to start from is possible");
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.evaluation < b.evaluation; });
  candidates.resize(std::min(candidates.size(), kMostStarts));
  const std::int64_t moves =
      options.moves > 0 ? options.moves : moves_for(evaluator.problem(), options.scope);
  Walk walk(evaluator, options, candidates.front());
  if (options.scope == MoveScope::kGroups) {
    if (count_of_plans(evaluator.problem()) <= kEnumerated * static_cast<double>(moves)) {
      walk.try_every_plan();
      return std::move(walk).result();
    }
    if (auto drawn = walk.made_up(moves / kMovesPerMadeUp)) candidates.push_back(*std::move(drawn));
  }
  for (Candidate& candidate : candidates)
    walk.anneal(std::move(candidate), moves / static_cast<std::int64_t>(candidates.size()));
  walk.polish(moves);
  return std::move(walk).result();
}

absl::StatusOr<Plan> any_plan(const CostModel& model) {
  const std::vector<std::int32_t> devices = present_devices(model.problem().cluster);
  if (devices.empty()) return absl::ResourceExhaustedError("no device is there");
  return largest_first(model, devices);
}

}  // namespace paceline::planner
