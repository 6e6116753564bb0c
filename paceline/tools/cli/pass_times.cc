#include "paceline/tools/cli/pass_times.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "paceline/base/check.h"
#include "paceline/base/sample_order.h"
#include "paceline/base/status_macros.h"
#include "paceline/parameters/memory/gradient_buffer.h"
#include "paceline/processes/compute/local_steps.h"
#include "paceline/processes/compute/shared.h"

namespace paceline::cli {

namespace {

using std::chrono::steady_clock;

constexpr std::int64_t kFew = 2, kMany = 6;  // micro-batches of a step
constexpr std::int64_t kInStages = 4;        // micro-batches of an iteration in stages
constexpr std::size_t kLeastRounds = 3, kMostRounds = 20;
constexpr double kRoundsMs = 300;  // beyond the least, rounds are added up to this time

double ms_since(steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(steady_clock::now() - start).count();
}

bool always() { return true; }

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The median of what `round` returns, after one round that prepares what later ones find.
template <class Round>
absl::StatusOr<double> median_of_rounds(const Round& round) {
  PACELINE_RETURN_IF_ERROR(round().status());
  const auto start = steady_clock::now();
  std::vector<double> times;
  while (times.size() < kLeastRounds || (times.size() < kMostRounds && ms_since(start) < kRoundsMs)) {
    PACELINE_ASSIGN_OR_RETURN(times.emplace_back(), round());
  }
  return median(std::move(times));
}

class Driver {
 public:
  static absl::StatusOr<Driver> create(engine::Engine& engine) {
    PACELINE_ASSIGN_OR_RETURN(auto weights, memory::GradientWriter::create(engine.layout().size()));
    PACELINE_ASSIGN_OR_RETURN(auto gradient, memory::GradientWriter::create(engine.layout().size()));
    Driver driver(engine, std::move(weights), std::move(gradient));
    PACELINE_RETURN_IF_ERROR(engine.initial_weights(driver.weights_.gradient()));
    return driver;
  }

  // The time of a step of about so many micro-batches, and how many there were.
  absl::StatusOr<std::pair<double, std::int64_t>> step(std::int64_t size, std::int64_t micros) {
    const engine::Batch batch = next(size * micros);
    PACELINE_RETURN_IF_ERROR(engine_.prepare(batch));
    const auto start = steady_clock::now();
    PACELINE_RETURN_IF_ERROR(engine_.step(from_, to_, size, always).status());
    return std::pair(ms_since(start), engine::MicroBatches(std::ssize(batch.samples), size).count());
  }

  // The time of the passes of a micro-batch in two stages.
  absl::StatusOr<double> iteration(engine::Stage& first, engine::Stage& last, std::int64_t size) {
    const engine::Batch batch = next(size * kInStages);
    const std::int64_t samples = std::ssize(batch.samples);
    for (engine::Stage* const one : {&first, &last}) {
      PACELINE_RETURN_IF_ERROR(one->prepare(batch));
      PACELINE_RETURN_IF_ERROR(one->start(from_, to_, samples, size, batch.step_seed, always));
    }
    message_.resize(static_cast<std::size_t>(std::max(first.output_bytes(size), last.input_bytes(size))));
    const engine::MicroBatches micros(samples, size);
    double ms = 0;
    for (std::int64_t micro = 0; micro < micros.count(); ++micro) {
      PACELINE_ASSIGN_OR_RETURN(const double taken, pass(first, last, micro, micro + 1 < micros.count()));
      ms += taken;
    }
    for (engine::Stage* const one : {&first, &last}) PACELINE_RETURN_IF_ERROR(one->finish(always).status());
    return ms / static_cast<double>(micros.count());
  }

 private:
  Driver(engine::Engine& engine, memory::GradientWriter weights, memory::GradientWriter gradient)
      : engine_(engine),
        order_(0, engine.samples(), engine.in_order()),
        weights_(std::move(weights)),
        gradient_(std::move(gradient)),
        weights_shared_(engine, compute::memory_of(weights_)),
        gradient_shared_(engine, compute::memory_of(gradient_)),
        from_(engine::tensor_pointers<const float>(engine.layout(), weights_.gradient().data())),
        to_(engine::tensor_pointers(engine.layout(), gradient_.gradient().data())) {}

  // The next so many samples, or all that an epoch has. The engine is told of those behind them.
  engine::Batch next(std::int64_t samples) {
    const std::int64_t count = std::min<std::int64_t>(samples, engine_.samples());
    const auto take = [&] {
      if (place_ + count > engine_.samples()) place_ = 0, ++epoch_;
      const Lease lease{.epoch = epoch_, .begin = place_, .end = place_ + count};
      place_ += count;
      return compute::batch_of(order_, lease);
    };
    engine::Batch batch = ahead_ && std::ssize(ahead_->samples) == count ? *std::move(ahead_) : take();
    ahead_.reset();
    if (engine_.prefetch() > 0) {
      ahead_ = take();
      engine_.expect(std::vector{batch, *ahead_});
    }
    return batch;
  }

  // `followed`: by another micro-batch.
  absl::StatusOr<double> pass(engine::Stage& first, engine::Stage& last, std::int64_t micro, bool followed) {
    double ms = 0;
    const auto timed = [&](const auto& pass) {
      const auto start = steady_clock::now();
      absl::Status done = pass();
      ms += ms_since(start);
      return done;
    };
    const auto handed_over = [&](engine::Stage& from) -> absl::StatusOr<std::span<const std::byte>> {
      PACELINE_ASSIGN_OR_RETURN(const std::size_t bytes, from.send(message_));
      return std::span<const std::byte>(message_).first(bytes);
    };
    PACELINE_RETURN_IF_ERROR(timed([&] { return first.forward(micro, always).status(); }));
    PACELINE_ASSIGN_OR_RETURN(const auto activation, handed_over(first));
    PACELINE_RETURN_IF_ERROR(last.receive_input(micro, activation));
    PACELINE_RETURN_IF_ERROR(timed([&] { return last.forward_backward(micro, always).status(); }));
    PACELINE_ASSIGN_OR_RETURN(const auto gradient, handed_over(last));
    PACELINE_RETURN_IF_ERROR(first.receive_gradient(micro, gradient));
    if (followed) first.expect_pass(engine::Pass::kForward, micro + 1);
    PACELINE_RETURN_IF_ERROR(timed([&] { return first.backward(micro, always); }));
    return ms;
  }

  engine::Engine& engine_;
  SampleOrder order_;
  memory::GradientWriter weights_, gradient_;
  compute::SharedWith weights_shared_, gradient_shared_;
  std::vector<const float*> from_;
  std::vector<float*> to_;
  std::vector<std::byte> message_;
  std::optional<engine::Batch> ahead_;
  std::int32_t epoch_ = 0;
  std::int64_t place_ = 0;
};

}  // namespace

absl::StatusOr<PassTimes> measure_passes(engine::Engine& engine, const std::vector<std::int64_t>& sizes,
                                         std::int64_t cut) {
  PACELINE_CHECK(0 < cut && cut < engine.units() && !sizes.empty(), "{} of {} units, {} sizes", cut,
                 engine.units(), sizes.size());
  PACELINE_ASSIGN_OR_RETURN(Driver driver, Driver::create(engine));
  PassTimes times;
  for (const std::int64_t size : sizes) {
    std::int64_t few = 0, many = 0;
    const auto step_of = [&](std::int64_t micros, std::int64_t& had) {
      return median_of_rounds([&]() -> absl::StatusOr<double> {
        PACELINE_ASSIGN_OR_RETURN(const auto done, driver.step(size, micros));
        had = done.second;
        return done.first;
      });
    };
    PACELINE_ASSIGN_OR_RETURN(const double short_ms, step_of(kFew, few));
    PACELINE_ASSIGN_OR_RETURN(const double long_ms, step_of(kMany, many));
    const double each = many > few ? std::max(0.0, (long_ms - short_ms) / static_cast<double>(many - few))
                                   : long_ms / static_cast<double>(many);
    times.step_ms.push_back(each);
    times.once_ms = std::max(0.0, short_ms - each * static_cast<double>(few));
  }
  PACELINE_ASSIGN_OR_RETURN(const auto first, engine.make_stage(0, cut));
  PACELINE_ASSIGN_OR_RETURN(const auto last, engine.make_stage(cut, engine.units()));
  for (const std::int64_t size : sizes) {
    PACELINE_ASSIGN_OR_RETURN(times.stages_ms.emplace_back(),
                              median_of_rounds([&] { return driver.iteration(*first, *last, size); }));
  }
  return times;
}

}  // namespace paceline::cli
