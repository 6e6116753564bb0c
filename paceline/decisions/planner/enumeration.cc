#include "paceline/decisions/planner/enumeration.h"

#include <algorithm>

#include "paceline/decisions/planner/baselines.h"
#include "paceline/decisions/planner/partition.h"

namespace paceline::planner {

namespace {

using Devices = std::vector<std::int32_t>;

// "n over k".
double choices(std::int64_t n, std::int64_t k) {
  double count = k > n ? 0 : 1;
  for (std::int64_t i = 0; i < std::min(k, n); ++i)
    count *= static_cast<double>(n - i) / static_cast<double>(i + 1);
  return count;
}

class Enumeration {
 public:
  Enumeration(const Problem& problem, const std::function<void(Plan&)>& visit)
      : problem_(problem), visit_(visit) {}

  void run() { group(present_devices(problem_.cluster)); }

 private:
  // The first of the devices that are left is not used, or is in the next replica. So no two groupings are
  // the same.
  void group(const Devices& left) {
    if (left.empty()) return cut();
    const Devices others(left.begin() + 1, left.end());
    group(others);
    const auto subsets = std::uint32_t{1} << others.size();
    for (std::uint32_t with = 0; with < subsets; ++with) {
      Devices members{left.front()}, rest;
      for (std::size_t i = 0; i < others.size(); ++i)
        ((with >> i & 1) != 0 ? members : rest).push_back(others[i]);
      const std::size_t g = plan_.replicas.size();
      plan_.replicas.push_back({});
      do {
        order(g, members, rest);
      } while (std::next_permutation(members.begin(), members.end()));
      plan_.replicas.pop_back();
    }
  }

  // Devices that share a stage ascend: who of them has which turn makes no difference.
  void order(std::size_t g, const Devices& members, const Devices& rest) {
    const auto sharings = std::uint32_t{1} << (members.size() - 1);
    for (std::uint32_t sharing = 0; sharing < sharings; ++sharing) {
      bool ascends = true;
      PlannedReplica replica = uncut(members, [&](std::size_t d) {
        const bool shares = (sharing >> (d - 1) & 1) != 0;
        ascends = ascends && (!shares || members[d - 1] < members[d]);
        return shares;
      });
      const std::int32_t stages = 1 + (replica.cuts.empty() ? 0 : replica.cuts.back());
      if (!ascends || stages > problem_.layers() || (stages == 1 && members.size() > 1)) continue;
      plan_.replicas.resize(g);
      plan_.replicas.push_back(std::move(replica));
      group(rest);
    }
    plan_.replicas.resize(g + 1);
  }

  void cut() {
    if (plan_.replicas.empty()) return;
    std::vector<std::vector<PlannedStage>> stages;
    for (const PlannedReplica& replica : plan_.replicas)
      stages.push_back(stages_of(replica, problem_.layers()));
    const std::vector<PlannedReplica> before = plan_.replicas;
    for (const std::int64_t u : problem_.micro_batches) {
      plan_.micro_batch = u;
      place(stages, 0, 1, 1);
    }
    plan_.replicas = before;
  }

  // Tries every begin of stage s of replica g, and of all stages after it.
  void place(const std::vector<std::vector<PlannedStage>>& stages, std::size_t g, std::size_t s,
             std::int32_t least) {
    if (g == plan_.replicas.size()) {
      shown_ = plan_;
      return visit_(shown_);
    }
    PlannedReplica& replica = plan_.replicas[g];
    if (s == 1) std::fill_n(replica.cuts.begin(), stages[g][0].width - 1, 0);
    if (s == stages[g].size()) return place(stages, g + 1, 1, 1);
    const PlannedStage& stage = stages[g][s];
    for (std::int32_t at = least; at < problem_.layers(); ++at) {
      std::fill_n(replica.cuts.begin() + static_cast<std::ptrdiff_t>(stage.first) - 1, stage.width, at);
      place(stages, g, s + 1, at + 1);
    }
  }

  const Problem& problem_;
  const std::function<void(Plan&)>& visit_;
  Plan plan_;
  Plan shown_;
};

}  // namespace

double count_of_plans(const Problem& problem) {
  constexpr double kTooMany = 1e15;  // more than can be tried; further devices only add plans
  const auto devices = static_cast<std::int64_t>(present_devices(problem.cluster).size());
  const auto layers = static_cast<std::int64_t>(problem.layers());
  const auto at = [](std::int64_t n) { return static_cast<std::size_t>(n); };
  // dealt[n][s]: the number of ways to deal n devices to s stages in a row, none of them empty. The first
  // stage gets `first` devices.
  std::vector<std::vector<double>> dealt{{1}};
  // ways[n]: the number of ways to divide n devices into pipelines. The first device is unused, or in a
  // pipeline of `size` devices.
  std::vector<double> ways{1};
  for (std::int64_t n = 1; n <= devices && ways.back() < kTooMany; ++n) {
    std::vector<double>& mine = dealt.emplace_back(at(n + 1));
    for (std::int64_t stages = 1; stages <= n; ++stages) {
      // The others have a device each at least.
      for (std::int64_t first = 1; first <= n - (stages - 1); ++first)
        mine[at(stages)] += choices(n, first) * dealt[at(n - first)][at(stages - 1)];
    }
    double count = ways.back();
    for (std::int64_t size = 1; size <= n; ++size) {
      double pipelines = 0;
      for (std::int64_t stages = size == 1 ? 1 : 2; stages <= size; ++stages)
        pipelines += dealt[at(size)][at(stages)] * choices(layers - 1, stages - 1);
      count += choices(n - 1, size - 1) * pipelines * ways[at(n - size)];
    }
    ways.push_back(count);
  }
  return (ways.back() - 1) * static_cast<double>(problem.micro_batches.size());
}

void for_each_plan(const Problem& problem, const std::function<void(Plan&)>& visit) {
  Enumeration(problem, visit).run();
}

}  // namespace paceline::planner
