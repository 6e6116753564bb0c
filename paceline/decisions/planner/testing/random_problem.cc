#include "paceline/decisions/planner/testing/random_problem.h"

#include <algorithm>

#include <fmt/format.h>

namespace paceline::planner::testing {

namespace {

std::int32_t between(Rng& rng, std::int32_t least, std::int32_t most) {
  return least + static_cast<std::int32_t>(rng.below(static_cast<std::uint64_t>(most - least + 1)));
}

ModelProfile random_model(Rng& rng, std::int32_t layers) {
  ModelProfile model;
  for (std::int32_t l = 0; l < layers; ++l) {
    LayerProfile layer;
    layer.name = fmt::format("layer{}", l);
    const double work = rng.uniform();
    layer.work_ms = 0.05 + work * (rng.below(4) == 0 ? 5 : 1);
    layer.output_bytes = 100 + static_cast<std::int64_t>(rng.below(20'000));
    layer.activation_bytes = layer.output_bytes * static_cast<std::int64_t>(1 + rng.below(3));
    layer.parameter_bytes = static_cast<std::int64_t>(rng.below(400'000));
    model.layers.push_back(layer);
  }
  return model;
}

std::int64_t whole_model_bytes(const ModelProfile& model) {
  std::int64_t bytes = 0;
  for (const LayerProfile& layer : model.layers) bytes += 2 * layer.parameter_bytes + layer.activation_bytes;
  return bytes;
}

}  // namespace

Problem random_problem(Rng& rng, const ProblemShape& shape) {
  Problem problem;
  problem.model = random_model(rng, between(rng, shape.least_layers, shape.most_layers));
  problem.batch = 1 + static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(shape.most_batch)));
  problem.micro_batches = powers_of_two_up_to(problem.batch);
  const auto whole = static_cast<double>(whole_model_bytes(problem.model));
  Cluster& cluster = problem.cluster;
  const std::int32_t devices = between(rng, shape.least_devices, shape.most_devices);
  for (std::int32_t n = 0; n < devices; ++n) {
    Device device;
    device.name = fmt::format("d{}", n);
    device.speed = 0.2 + 3 * rng.uniform();
    if (shape.most_memory > 0) {
      const double share = shape.least_memory + (shape.most_memory - shape.least_memory) * rng.uniform();
      device.memory_bytes = static_cast<std::int64_t>(share * whole);
    }
    device.price_per_hour = 3 * rng.uniform();
    device.power_w = 50 + 300 * rng.uniform();
    device.site = between(rng, 0, 2);
    device.servers = {0.1, 100'000 + 1'000'000 * rng.uniform()};
    cluster.devices.push_back(device);
  }
  const double scale = rng.below(3) == 0 ? 0.05 : 1;
  for (std::int32_t from = 0; from < devices; ++from) {
    for (std::int32_t to = 0; to < devices; ++to) {
      const bool apart = cluster.devices[static_cast<std::size_t>(from)].site !=
                         cluster.devices[static_cast<std::size_t>(to)].site;
      cluster.links.push_back({apart ? 2 * rng.uniform() : 0.05, scale * (apart ? 5'000 : 100'000)});
    }
  }
  cluster.server_bytes_per_ms = 1'000'000;
  return problem;
}

}  // namespace paceline::planner::testing
