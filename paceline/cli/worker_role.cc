#include "paceline/cli/worker_role.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <stop_token>
#include <thread>

#include <spdlog/spdlog.h>

#include "paceline/base/sample_order.h"
#include "paceline/base/status_macros.h"
#include "paceline/cli/board_readers.h"
#include "paceline/cli/group_member.h"
#include "paceline/cli/local_steps.h"
#include "paceline/cli/peer.h"
#include "paceline/cli/pipeline_stage.h"
#include "paceline/config/job_config.h"
#include "paceline/rpc/wire.h"
#include "paceline/train/replica.h"
#include "paceline/train/threads.h"
#include "paceline/transport/gradient_buffer.h"

namespace paceline::cli {

namespace {

using std::chrono::steady_clock;
constexpr std::chrono::milliseconds kBeat{250};
// How often a wait for weights looks up whether the job is over.
constexpr std::chrono::milliseconds kPullPatience{200};

// Where a worker's time goes; printed when it ends.
struct TimeSpent {
  Duration gradient{0}, pull{0}, pace{0}, own{0}, group{0}, stages{0};
  std::int64_t iterations = 0;

  void log(const std::string& name) const {
    if (iterations == 0) return;
    const auto each_ms = [&](Duration d) { return to_seconds(d) * 1e3 / static_cast<double>(iterations); };
    const double busy = to_seconds(gradient + own);
    spdlog::info(
        "{}: {} iterations; each {:.3f} ms gradient, {:.3f} ms own work ({:.2f} % of both), {:.3f} ms pull, "
        "{:.3f} ms pace, {:.3f} ms summing with others, {:.3f} ms waiting for other stages",
        name, iterations, each_ms(gradient), each_ms(own), busy > 0 ? 100 * to_seconds(own) / busy : 0,
        each_ms(pull), each_ms(pace), each_ms(group), each_ms(stages));
  }
};

class Worker {
 public:
  Worker(WorkerConnection& connection, std::string name) : connection_(connection), name_(std::move(name)) {}

  // Up to the joining: everything that can be wrong with the job on this machine shows here.
  absl::Status join();
  // Releases, until goodbye.
  absl::Status work();

 private:
  absl::StatusOr<rpc::wire::WorkerOrder> expect(rpc::wire::WorkerOrder::WhatCase what);
  absl::Status prepare(const rpc::wire::Welcome& welcome);
  absl::Status carry_out(const rpc::wire::WorkerOrder& order);
  absl::Status take_role(const rpc::wire::Role& role);
  struct Computed {
    double loss = 0;
    Duration pace{0}, stages{0};  // of the time it took
  };
  // An iteration from its weights on; it leaves the contribution in the gradient buffer. Nothing when it was
  // given up.
  using Compute = std::function<absl::StatusOr<std::optional<Computed>>(std::span<const float* const>)>;
  absl::StatusOr<Compute> prepare(const rpc::wire::WorkerRelease& release);
  absl::StatusOr<Compute> prepare_steps(const Lease& lease, const rpc::wire::WorkerRelease& release);
  static absl::StatusOr<std::optional<Computed>> computed(const absl::StatusOr<train::StepResult>& step);
  Compute prepare_stage(const Lease& lease, const rpc::wire::WorkerRelease& release);
  absl::Status iterate(const rpc::wire::WorkerRelease& release);
  // As config::paced has it, of an iteration under way.
  Duration paced(const rpc::wire::WorkerRelease& release, double iterations, Duration compute) const;
  double iterations(const Lease& lease) const;
  absl::Status reduce(const rpc::wire::Reduce& order);
  std::optional<BoardReaders::Pinned> pull(Version version, float reach);

  WorkerConnection& connection_;
  const std::string name_;
  config::JobConfig job_;
  std::size_t place_ = 0;
  train::DataSets data_;
  std::unique_ptr<train::Replica> replica_;
  std::optional<transport::GradientWriter> gradient_;
  std::optional<GroupMember> group_;
  std::vector<float*> gradients_;  // by tensor
  std::optional<BoardReaders> boards_;
  std::optional<SampleOrder> order_;
  std::optional<LocalSteps> local_;  // of a policy that has its replicas step by themselves
  std::optional<rpc::wire::Role> role_;
  std::optional<PipelineStage> stage_;  // where that is in a pipeline
  TimeSpent spent_;
};

absl::StatusOr<rpc::wire::WorkerOrder> Worker::expect(rpc::wire::WorkerOrder::WhatCase what) {
  auto order = connection_.next();
  if (!order) return coordinator_lost();
  if (order->has_goodbye()) {
    PACELINE_RETURN_IF_ERROR(farewell(order->goodbye()));
    return absl::CancelledError(order->goodbye().why());
  }
  if (order->what_case() != what) return absl::InternalError("the coordinator answered out of turn");
  return *std::move(order);
}

absl::Status Worker::join() {
  rpc::wire::WorkerMessage hello;
  hello.mutable_hello()->set_name(name_);
  if (!connection_.send(hello)) return coordinator_lost();
  PACELINE_ASSIGN_OR_RETURN(const auto welcome, expect(rpc::wire::WorkerOrder::kWelcome));
  PACELINE_RETURN_IF_ERROR(prepare(welcome.welcome()));

  rpc::wire::WorkerMessage attached;
  attached.mutable_attached()->set_dataset_size(data_.train->size());
  *attached.mutable_attached()->mutable_layout() = rpc::to_wire(replica_->layout());
  attached.mutable_attached()->set_gradient_path(gradient_->path());
  if (!connection_.send(attached)) return coordinator_lost();
  PACELINE_ASSIGN_OR_RETURN(const auto boards, expect(rpc::wire::WorkerOrder::kBoards));
  PACELINE_ASSIGN_OR_RETURN(boards_,
                            BoardReaders::open(boards.boards(), replica_->layout(), job_.look_ahead));

  rpc::wire::WorkerMessage joined;
  joined.mutable_joined();
  return connection_.send(joined) ? absl::OkStatus() : coordinator_lost();
}

absl::Status Worker::prepare(const rpc::wire::Welcome& welcome) {
  PACELINE_ASSIGN_OR_RETURN(job_, config::parse_job(welcome.job_toml(), "job.toml"));
  while (place_ < job_.replicas.size() && job_.replicas[place_].name != name_) ++place_;
  if (place_ == job_.replicas.size()) return absl::InternalError("the job has no place for " + name_);
  train::use_threads(job_.replicas[place_].threads);
  PACELINE_ASSIGN_OR_RETURN(data_, train::load_data(job_.data, job_.model.context));
  order_.emplace(job_.seed, data_.train->size());
  PACELINE_ASSIGN_OR_RETURN(
      const std::int64_t units,
      train::unit_count(job_.model, data_.train->sample_shape(), data_.train->classes()));
  PACELINE_RETURN_IF_ERROR(config::check_units(job_.parallel, job_.model.name, units));
  PACELINE_ASSIGN_OR_RETURN(replica_, train::Replica::create(job_.model, data_.train->sample_shape(),
                                                             data_.train->classes(), job_.seed));
  PACELINE_ASSIGN_OR_RETURN(gradient_, transport::GradientWriter::create(replica_->layout().size()));
  if (std::holds_alternative<policy::LocalSgdSpec>(job_.policy))
    local_.emplace(replica_->layout(), job_.optimizer);
  group_.emplace(*gradient_, replica_->layout().size());
  gradients_ = train::tensor_pointers(replica_->layout(), gradient_->gradient().data());
  // The servers may start from this worker's weights.
  replica_->initial_weights(gradient_->gradient());
  return absl::OkStatus();
}

absl::Status Worker::work() {
  while (auto order = connection_.next()) {
    if (order->has_goodbye()) {
      spent_.log(name_);
      return farewell(order->goodbye());
    }
    PACELINE_RETURN_IF_ERROR(carry_out(*order));
  }
  return coordinator_lost();
}

absl::Status Worker::carry_out(const rpc::wire::WorkerOrder& order) {
  switch (order.what_case()) {
    case rpc::wire::WorkerOrder::kRole:
      return take_role(order.role());
    case rpc::wire::WorkerOrder::kRelease:
      return iterate(order.release());
    case rpc::wire::WorkerOrder::kReduce:
      return reduce(order.reduce());
    case rpc::wire::WorkerOrder::kDissolve:
      stage_.reset();
      role_.reset();
      return absl::OkStatus();
    default:
      return absl::InternalError("the coordinator answered out of turn");
  }
}

absl::Status Worker::take_role(const rpc::wire::Role& role) {
  role_ = role;
  if (role.cuts_size() > 0) {
    auto stage =
        PipelineStage::create(job_, *data_.train, role, *gradient_,
                              [this](std::chrono::nanoseconds limit) { return connection_.wait(limit); });
    // A neighbour that died this very moment: the end of the replica is the next thing to come.
    if (absl::IsNotFound(stage.status())) return absl::OkStatus();
    PACELINE_RETURN_IF_ERROR(stage.status());
    stage_ = *std::move(stage);
  }
  rpc::wire::WorkerMessage taken;
  taken.mutable_role_taken()->set_replica(role.replica());
  if (stage_) taken.mutable_role_taken()->set_link_path(stage_->link_path());
  return connection_.send(taken) ? absl::OkStatus() : coordinator_lost();
}

absl::Status Worker::reduce(const rpc::wire::Reduce& order) {
  const auto start = steady_clock::now();
  const Version version(order.version());
  PACELINE_RETURN_IF_ERROR(group_->reduce(order, [&] { return boards_->published(version); }));
  spent_.group += steady_clock::now() - start;
  return absl::OkStatus();
}

absl::Status Worker::iterate(const rpc::wire::WorkerRelease& release) {
  if (!role_) return absl::InternalError("the coordinator answered out of turn");
  const auto start = steady_clock::now();
  PACELINE_ASSIGN_OR_RETURN(const float reach, rpc::look_ahead_reach(release, job_.optimizer));
  // While the shards may still be updating.
  PACELINE_ASSIGN_OR_RETURN(const Compute compute, prepare(release));
  const auto prepared = steady_clock::now();
  const auto weights = pull(Version(release.version()), reach);
  if (!weights) return absl::OkStatus();  // the job or the replica ended meanwhile; the word of it is next
  const auto pulled = steady_clock::now();
  PACELINE_ASSIGN_OR_RETURN(const std::optional<Computed> step, compute(weights->tensors));
  const auto computed = steady_clock::now();
  boards_->unpin();
  if (!step) return absl::OkStatus();  // likewise
  if (!stage_ || stage_->first()) gradient_->stamp(Clock(release.clock()));
  if (!stage_) {
    PACELINE_ASSIGN_OR_RETURN(const Lease lease, rpc::from_wire(release.lease()));
    const double steps = static_cast<double>(std::max<std::int64_t>(1, release.steps()));
    const double whole = job_.parallel.mode == config::Parallel::kData ? steps : iterations(lease);
    const Duration paced_time = paced(release, whole, computed - start);
    if (connection_.wait(start + paced_time - steady_clock::now())) return absl::OkStatus();  // likewise
  }
  const auto paced = steady_clock::now();

  rpc::wire::WorkerMessage message;
  rpc::wire::WorkerReady* ready = message.mutable_ready();
  ready->set_clock(release.clock());
  ready->set_base(weights->version.value());
  ready->set_compute_ns(Duration(paced - start).count());
  ready->set_loss(step->loss);
  ready->set_replica(role_->replica());
  if (!connection_.send(message)) return coordinator_lost();
  spent_.iterations += 1;
  spent_.gradient += computed - pulled - step->pace - step->stages;
  spent_.pull += pulled - prepared;
  spent_.pace += step->pace + (paced - computed);
  spent_.stages += step->stages;
  spent_.own += (prepared - start) + (steady_clock::now() - paced);
  return absl::OkStatus();
}

Duration Worker::paced(const rpc::wire::WorkerRelease& release, double iterations, Duration compute) const {
  return config::paced(job_, place_, Clock(release.clock()), Time(Duration(release.at_ns())), iterations,
                       compute);
}

// Its pace is for a batch of its own.
double Worker::iterations(const Lease& lease) const {
  return static_cast<double>(lease.size()) / static_cast<double>(job_.replicas[place_].batch);
}

absl::StatusOr<Worker::Compute> Worker::prepare(const rpc::wire::WorkerRelease& release) {
  PACELINE_ASSIGN_OR_RETURN(const Lease lease, rpc::from_wire(release.lease()));
  if (order_->samples(lease).empty())
    return absl::InvalidArgumentError("the coordinator leased samples this data set does not have");
  if (release.steps() != 0) return prepare_steps(lease, release);
  if (stage_) return prepare_stage(lease, release);
  return [this, batch = data_.train->batch(order_->samples(lease), order_->augment_seed(lease)),
          seed = order_->step_seed(lease)](std::span<const float* const> weights) {
    return computed(replica_->step(batch, weights, gradients_, seed, role_->micro_batch()));
  };
}

absl::StatusOr<Worker::Compute> Worker::prepare_steps(const Lease& lease,
                                                      const rpc::wire::WorkerRelease& release) {
  if (!local_ || stage_ || release.steps() < 0 || release.steps() > lease.size()) {
    return absl::InvalidArgumentError(
        fmt::format("the coordinator asks for {} steps on {} samples", release.steps(), lease.size()));
  }
  return [this, samples = step_samples(*order_, lease, release.steps()),
          rate = release.learning_rate()](std::span<const float* const> weights) {
    return computed(local_->take(*replica_, *data_.train, samples, rate, weights, gradients_));
  };
}

absl::StatusOr<std::optional<Worker::Computed>> Worker::computed(
    const absl::StatusOr<train::StepResult>& step) {
  PACELINE_RETURN_IF_ERROR(step.status());
  return Computed{.loss = step->loss};
}

Worker::Compute Worker::prepare_stage(const Lease& lease, const rpc::wire::WorkerRelease& release) {
  PipelineStage::Iteration iteration{
      .samples = lease.size(),
      .batch = {},
      .seed = order_->step_seed(lease),
      .pace = [this, &release, whole = iterations(lease)](double part, Duration compute) {
        return paced(release, whole * part, compute);
      }};
  // Between the first stage and the last nobody needs the data.
  if (stage_->first() || stage_->last())
    iteration.batch = data_.train->batch(order_->samples(lease), order_->augment_seed(lease));
  return [this, iteration = std::move(iteration)](
             std::span<const float* const> weights) -> absl::StatusOr<std::optional<Computed>> {
    PACELINE_ASSIGN_OR_RETURN(const auto done, stage_->run(iteration, weights));
    if (!done) return std::nullopt;
    return Computed{done->loss, done->pace, done->waited};
  };
}

std::optional<BoardReaders::Pinned> Worker::pull(Version version, float reach) {
  while (true) {
    auto pulled = reach == 0 ? boards_->pin(version, kPullPatience)
                             : boards_->pull_ahead(version, reach, kPullPatience);
    if (pulled) return pulled;
    if (connection_.wait(std::chrono::nanoseconds::zero())) return std::nullopt;
  }
}

}  // namespace

absl::Status run_worker(const std::string& coordinator, const std::string& name) {
  const auto stub = coordinator_stub(coordinator);
  WorkerConnection connection([&](grpc::ClientContext* context) { return stub->Work(context); });
  // Says that this process lives while it computes.
  const std::jthread beats([&](const std::stop_token& stop) {
    rpc::wire::WorkerMessage beat;
    beat.mutable_beat();
    while (!stop.stop_requested()) {
      std::this_thread::sleep_for(kBeat);
      if (!stop.stop_requested() && !connection.send(beat)) return;
    }
  });
  Worker worker(connection, name);
  const absl::Status joined = worker.join();
  if (absl::IsCancelled(joined)) return absl::OkStatus();  // the job was over before this worker was ready
  PACELINE_RETURN_IF_ERROR(joined);
  return worker.work();
}

}  // namespace paceline::cli
