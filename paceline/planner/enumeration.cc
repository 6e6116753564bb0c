#include "paceline/planner/enumeration.h"

#include <algorithm>

#include "paceline/planner/baselines.h"

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
      if (members.size() > problem_.model.layers.size()) continue;
      const std::size_t g = plan_.replicas.size();
      plan_.replicas.push_back({});
      do {
        plan_.replicas[g] = {members, {}, 0};
        group(rest);
      } while (std::next_permutation(members.begin(), members.end()));
      plan_.replicas.pop_back();
    }
  }

  void cut() {
    if (plan_.replicas.empty()) return;
    for (PlannedReplica& replica : plan_.replicas) replica.cuts.assign(replica.devices.size() - 1, 0);
    for (const std::int64_t u : problem_.micro_batches) {
      plan_.micro_batch = u;
      place(0, 0, 1);
    }
  }

  void place(std::size_t g, std::size_t c, std::int32_t least) {
    if (g == plan_.replicas.size()) {
      shown_ = plan_;
      return visit_(shown_);
    }
    if (c == plan_.replicas[g].cuts.size()) return place(g + 1, 0, 1);
    for (std::int32_t at = least; at < problem_.layers(); ++at) {
      plan_.replicas[g].cuts[c] = at;
      place(g, c + 1, at + 1);
    }
  }

  const Problem& problem_;
  const std::function<void(Plan&)>& visit_;
  Plan plan_;
  Plan shown_;
};

}  // namespace

double count_of_plans(const Problem& problem) {
  const auto devices = static_cast<std::int64_t>(present_devices(problem.cluster).size());
  const auto layers = static_cast<std::int64_t>(problem.layers());
  // Of so many devices, each with one of them first: it is not used, or in a pipeline of so many.
  std::vector<double> ways{1};
  for (std::int64_t n = 1; n <= devices; ++n) {
    double count = ways.back(), orders = 1;
    for (std::int64_t size = 1; size <= n; ++size) {
      orders *= static_cast<double>(size);
      count += choices(n - 1, size - 1) * orders * choices(layers - 1, size - 1) *
               ways[static_cast<std::size_t>(n - size)];
    }
    ways.push_back(count);
  }
  return (ways.back() - 1) * static_cast<double>(problem.micro_batches.size());
}

void for_each_plan(const Problem& problem, const std::function<void(Plan&)>& visit) {
  Enumeration(problem, visit).run();
}

}  // namespace paceline::planner
