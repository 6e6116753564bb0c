// An update of 10 million weights on this processor, by one thread, with each optimizer: nanoseconds for a weight, and a
// checksum of all that it wrote, which is the same on every processor.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <string_view>
#include <vector>

#include "bench/table.h"
#include "paceline/base/rng.h"
#include "paceline/base/text_hash.h"
#include "paceline/parameters/ps/fused_update.h"
#include "paceline/parameters/ps/look_ahead.h"

namespace paceline {
namespace {

constexpr std::int64_t kFloats = 10'000'000;
constexpr int kRounds = 9;

std::vector<float> normals(std::uint64_t seed) {
  Rng rng(seed);
  std::vector<float> values(std::size_t{kFloats});
  for (float& value : values) value = static_cast<float>(rng.normal());
  return values;
}

struct Memory {
  std::vector<float> weights = normals(1), gradients[2] = {normals(2), normals(3)};
  std::vector<float> next = std::vector<float>(std::size_t{kFloats}), state1 = next, state2 = next,
                     direction = next;
};

double checksum(std::initializer_list<const std::vector<float>*> all) {
  std::uint64_t sum = 0;
  for (const std::vector<float>* values : all) {
    const std::string_view bytes(reinterpret_cast<const char*>(values->data()),
                                 values->size() * sizeof(float));
    sum = mix_seed({sum, text_hash(bytes)});
  }
  return static_cast<double>(sum >> 24);  // a number that a double has exactly
}

void measure_one(bench::Table& table, Memory& memory, ps::OptimizerKind kind, bool look_ahead) {
  ps::OptimizerConfig optimizer;
  optimizer.kind = kind;
  optimizer.weight_decay = 1e-3;
  const ps::StepNumbers numbers = ps::step_numbers(optimizer, 1e-3, 0.5, 3);
  for (std::vector<float>* one : {&memory.state1, &memory.state2, &memory.direction})
    std::fill(one->begin(), one->end(), 0.0f);
  const std::vector<ps::Weighted> members{{memory.gradients[0].data(), 0.4f},
                                          {memory.gradients[1].data(), 0.6f}};
  const ps::UpdateStreams streams{memory.weights.data(), memory.next.data(), memory.state1.data(),
                                  memory.state2.data(), look_ahead ? memory.direction.data() : nullptr};
  std::vector<double> times;
  double sum = 0;
  for (int round = 0; round < kRounds; ++round) {
    const auto before = std::chrono::steady_clock::now();
    ps::fused_update(kind, numbers, members, streams, 0, kFloats);
    times.push_back(
        std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - before).count() /
        kFloats);
    if (round == 1) sum = checksum({&memory.next, &memory.state1, &memory.state2, &memory.direction});
  }
  table.add(std::string(ps::traits_of(kind).name) + (look_ahead ? ", look-ahead" : ""),
            {{"ns", *std::min_element(times.begin(), times.end())},
             {"median", bench::median(times)},
             {"checksum", sum}});
}

void measure(bench::Table& table) {
  Memory memory;
  for (const ps::OptimizerKind kind : ps::kEveryOptimizer) {
    if (ps::is_tensorwise(kind)) continue;
    for (const bool look_ahead : {false, true}) {
      if (!look_ahead || ps::has_direction(kind)) measure_one(table, memory, kind, look_ahead);
    }
  }
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) { return paceline::bench::run(argc, argv, paceline::measure); }
