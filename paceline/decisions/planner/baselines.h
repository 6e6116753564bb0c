// The alternatives to our plan: the plans of the systems that JDMP is compared with. Each gets its best
// micro-batch, our 1F1B schedule and the current measurements. Pure.
//
//  bsp        even data parallel: every device holds the whole model and gets as many samples as any other.
//  lb-bsp     uneven data only (Chen and others 2020): the same replicas, samples by speed.
//  gpipe      Huang and others 2019: one pipeline of all devices in their given order, as many layers each.
//  gpipe-work the same, cut as GPipe's text says: so that the variance of the stages' work is least. Both
//             ignore how fast a device is.
//  pipedream  static, after Narayanan and others 2019, the faster of two: one pipeline over the devices in
//             their given order, with cuts and shared stages of shared_stages.h; or equal pipelines in that
//             order, cut by dynamic programming so that the largest part is least, with even data and the
//             best number of pipelines.
//  hetpipe    Park and others 2020: equal virtual workers, each with devices of every speed, cut as above;
//             even data; the best number of them. (Its asynchrony between workers is left to a policy.)
#pragma once

#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/decisions/planner/cost_model.h"

namespace paceline::planner {

struct Baseline {
  std::string name;
  absl::StatusOr<Plan> plan;  // the plan with its samples, or why it is impossible
};

// The baselines in the order above.
std::vector<Baseline> baselines(const CostModel& model);

// B over the replicas, as evenly as possible.
void share_evenly(Plan& plan, std::int64_t batch);

// The devices that are present, in their order.
std::vector<std::int32_t> present_devices(const Cluster& cluster);

}  // namespace paceline::planner
