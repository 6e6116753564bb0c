#include "paceline/decisions/planner/baselines.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/decisions/planner/evaluator.h"
#include "paceline/decisions/planner/partition.h"
#include "paceline/decisions/planner/shared_stages.h"

namespace paceline::planner {

namespace {

using Devices = std::vector<std::int32_t>;
using Maker = std::function<absl::StatusOr<Plan>(std::int64_t u)>;

// The fastest plan that `make` gives for any micro-batch; or what was wrong with the smallest.
absl::StatusOr<Plan> fastest(const CostModel& model, const Maker& make) {
  absl::StatusOr<Plan> best = absl::UnknownError("no micro-batch");
  double best_ms = 0;
  absl::Status first;
  for (const std::int64_t u : model.problem().micro_batches) {
    absl::StatusOr<Plan> plan = make(u);
    const absl::Status status = plan.ok() ? model.check(*plan) : plan.status();
    if (!status.ok()) {
      if (first.ok()) first = status;
      continue;
    }
    const double ms = model.forecast(*plan).batch_ms;
    if (best.ok() && best_ms <= ms) continue;
    best = std::move(plan);
    best_ms = ms;
  }
  if (!best.ok()) return first;
  return best;
}

Plan each_alone(const Devices& devices, std::int64_t u) {
  Plan plan{{}, u};
  for (const std::int32_t n : devices) plan.replicas.push_back({{n}, {}, 0});
  return plan;
}

absl::StatusOr<Plan> bsp(const CostModel& model, const Devices& devices) {
  return fastest(model, [&](std::int64_t u) -> absl::StatusOr<Plan> {
    Plan plan = each_alone(devices, u);
    share_evenly(plan, model.problem().batch);
    return plan;
  });
}

absl::StatusOr<Plan> lb_bsp(const CostModel& model, const Devices& devices) {
  return fastest(model, [&](std::int64_t u) -> absl::StatusOr<Plan> {
    Plan plan = each_alone(devices, u);
    share_evenly(plan, model.problem().batch);
    PACELINE_RETURN_IF_ERROR(model.check(plan));
    Evaluator(model, Goal{1, std::vector<double>(model.problem().budgets.size())}).assign(plan, true);
    return plan;
  });
}

Cuts equal_layers(std::int32_t layers, std::int32_t stages) {
  Cuts cuts;
  for (std::int32_t s = 1; s < stages; ++s) cuts.push_back(s * layers / stages);
  return cuts;
}

// least[i]: the least Σ of squares of a stage's work for the first i layers in as many stages as were added
// so far. The mean is the same for all cuts, so the variance is least there.
Cuts equal_work(const std::vector<LayerProfile>& layers, std::int32_t stages) {
  const std::size_t n = layers.size();
  std::vector<double> work(n + 1, 0);  // work[l]: the work of the first l layers
  for (std::size_t l = 0; l < n; ++l) work[l + 1] = work[l] + layers[l].work_ms;
  std::vector<double> least(n + 1, std::numeric_limits<double>::infinity());
  least[0] = 0;
  // begins[s][end]: the layer at which stage s begins if it ends at `end`
  std::vector<std::vector<std::size_t>> begins;
  for (std::int32_t s = 0; s < stages; ++s) {
    std::vector<double> more(n + 1, std::numeric_limits<double>::infinity());
    std::vector<std::size_t>& begin = begins.emplace_back(n + 1, 0);
    for (std::size_t end = 1; end <= n; ++end) {
      for (std::size_t from = 0; from < end; ++from) {
        const double own = work[end] - work[from];
        if (least[from] + own * own >= more[end]) continue;
        more[end] = least[from] + own * own;
        begin[end] = from;
      }
    }
    least = std::move(more);
  }
  Cuts cuts;
  for (std::size_t s = begins.size(), end = n; s-- > 1;) {
    end = begins[s][end];
    cuts.insert(cuts.begin(), static_cast<std::int32_t>(end));
  }
  return cuts;
}

absl::StatusOr<Plan> gpipe(const CostModel& model, Devices devices, bool by_work) {
  const std::int32_t layers = model.problem().layers();
  if (devices.size() > static_cast<std::size_t>(layers)) devices.resize(static_cast<std::size_t>(layers));
  const auto stages = static_cast<std::int32_t>(devices.size());
  PlannedReplica replica{devices, {}, model.problem().batch};
  replica.cuts = by_work ? equal_work(model.problem().model.layers, stages) : equal_layers(layers, stages);
  return fastest(model, [&](std::int64_t u) -> absl::StatusOr<Plan> { return Plan{{replica}, u}; });
}

// Pipelines of these devices with even data, each cut so that its largest part is least.
absl::StatusOr<Plan> pipelines(const CostModel& model, const std::vector<Devices>& groups) {
  return fastest(model, [&](std::int64_t u) -> absl::StatusOr<Plan> {
    Plan plan{{}, u};
    for (const Devices& group : groups) plan.replicas.push_back(uncut(group));
    share_evenly(plan, model.problem().batch);
    for (PlannedReplica& replica : plan.replicas) {
      const std::int64_t count = std::max<std::int64_t>(1, (replica.samples + u - 1) / u);
      std::optional<Cuts> cuts = balanced_cuts(model, replica, u, count);
      if (!cuts) {
        return absl::ResourceExhaustedError(
            fmt::format("the model does not fit into pipelines of {} device{}", replica.devices.size(),
                        replica.devices.size() == 1 ? "" : "s"));
      }
      replica.cuts = *std::move(cuts);
    }
    return plan;
  });
}

// The fastest over all numbers of pipelines, whose devices `deal` says; or why the last one, of all devices,
// cannot be.
absl::StatusOr<Plan> best_number(const CostModel& model, std::size_t devices,
                                 const std::function<std::vector<Devices>(std::size_t count)>& deal) {
  absl::StatusOr<Plan> best = absl::UnknownError("no devices");
  for (std::size_t count = devices; count >= 1; --count) {
    absl::StatusOr<Plan> plan = pipelines(model, deal(count));
    if (!best.ok() || (plan.ok() && model.forecast(*plan).batch_ms < model.forecast(*best).batch_ms))
      best = std::move(plan);
  }
  return best;
}

absl::StatusOr<Plan> pipedream(const CostModel& model, const Devices& devices) {
  const absl::StatusOr<Plan> alike = best_number(model, devices.size(), [&](std::size_t count) {
    std::vector<Devices> groups(count);
    const std::size_t size = devices.size() / count;  // the remaining devices are not used
    for (std::size_t i = 0; i < size * count; ++i) groups[i / size].push_back(devices[i]);
    return groups;
  });
  const absl::StatusOr<Plan> shared = fastest(model, [&](std::int64_t u) -> absl::StatusOr<Plan> {
    auto replica = shared_stages(model, devices, u);
    if (!replica)
      return absl::ResourceExhaustedError("no pipeline with stages on several devices is possible");
    return Plan{{*std::move(replica)}, u};
  });
  if (!alike.ok() || !shared.ok()) return shared.ok() ? shared : alike;
  return model.forecast(*shared).batch_ms < model.forecast(*alike).batch_ms ? shared : alike;
}

absl::StatusOr<Plan> hetpipe(const CostModel& model, Devices devices) {
  const auto whole_ms = [&](std::int32_t n) { return model.compute_ms(n, 0, model.problem().layers(), 1); };
  std::stable_sort(devices.begin(), devices.end(),
                   [&](std::int32_t a, std::int32_t b) { return whole_ms(a) < whole_ms(b); });
  return best_number(model, devices.size(), [&](std::size_t count) {
    std::vector<Devices> groups(count);
    for (std::size_t i = 0; i < devices.size(); ++i) groups[i % count].push_back(devices[i]);
    return groups;
  });
}

}  // namespace

void share_evenly(Plan& plan, std::int64_t batch) {
  const auto count = static_cast<std::int64_t>(plan.replicas.size());
  for (std::int64_t g = 0; g < count; ++g)
    plan.replicas[static_cast<std::size_t>(g)].samples = batch / count + (g < batch % count ? 1 : 0);
}

std::vector<std::int32_t> present_devices(const Cluster& cluster) {
  std::vector<std::int32_t> present;
  for (std::int32_t n = 0; n < cluster.size(); ++n) {
    if (cluster.devices[static_cast<std::size_t>(n)].present) present.push_back(n);
  }
  return present;
}

std::vector<Baseline> baselines(const CostModel& model) {
  const Devices devices = present_devices(model.problem().cluster);
  return {{"bsp", bsp(model, devices)},
          {"lb-bsp", lb_bsp(model, devices)},
          {"gpipe", gpipe(model, devices, false)},
          {"gpipe-work", gpipe(model, devices, true)},
          {"pipedream", pipedream(model, devices)},
          {"hetpipe", hetpipe(model, devices)}};
}

}  // namespace paceline::planner
