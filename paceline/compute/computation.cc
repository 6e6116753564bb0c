#include "paceline/compute/computation.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/rpc/wire.h"
#include "paceline/train/threads.h"

namespace paceline::compute {

namespace {

absl::StatusOr<std::optional<Computation::Computed>> computed(const absl::StatusOr<train::StepResult>& step) {
  PACELINE_RETURN_IF_ERROR(step.status());
  return Computation::Computed{.loss = step->loss};
}

// Of a device's own batch, in which its pace is given.
double batches(const Lease& lease, const config::ReplicaConfig& device) {
  return static_cast<double>(lease.size()) / static_cast<double>(device.batch);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Computation>> Computation::create(const std::string& job_toml,
                                                                 const std::string& name,
                                                                 const std::string& address,
                                                                 PipelineStage::Interrupted interrupted) {
  std::unique_ptr<Computation> made(new Computation(address, std::move(interrupted)));
  PACELINE_RETURN_IF_ERROR(made->read(job_toml, name));
  PACELINE_RETURN_IF_ERROR(made->build_replica());
  made->layout_ = made->replica_->layout();
  PACELINE_RETURN_IF_ERROR(made->make_gradient());
  made->replica_->initial_weights(made->gradient_->gradient());
  if (std::holds_alternative<policy::LocalSgdSpec>(made->job_.policy))
    made->local_.emplace(made->layout_, made->job_.optimizer);
  return made;
}

absl::Status Computation::read(const std::string& job_toml, const std::string& name) {
  PACELINE_ASSIGN_OR_RETURN(job_, config::parse_job(job_toml, "job.toml"));
  while (place_ < job_.replicas.size() && job_.replicas[place_].name != name) ++place_;
  if (place_ == job_.replicas.size()) return absl::InternalError("the job has no place for " + name);
  train::use_threads(job_.replicas[place_].threads);
  PACELINE_ASSIGN_OR_RETURN(data_, train::load_data(job_.data, job_.model.context));
  order_.emplace(job_.seed, data_.train->size());
  PACELINE_ASSIGN_OR_RETURN(
      const std::int64_t units,
      train::unit_count(job_.model, data_.train->sample_shape(), data_.train->classes()));
  return config::check_units(job_.parallel, job_.model.name, units);
}

absl::Status Computation::build_replica() {
  PACELINE_ASSIGN_OR_RETURN(replica_, train::Replica::create(job_.model, data_.train->sample_shape(),
                                                             data_.train->classes(), job_.seed));
  return absl::OkStatus();
}

absl::Status Computation::make_gradient() {
  PACELINE_ASSIGN_OR_RETURN(gradient_, transport::GradientWriter::create(layout_.size()));
  gradients_ = train::tensor_pointers(layout_, gradient_->gradient().data());
  others_may_write_ = false;
  return absl::OkStatus();
}

absl::Status Computation::take(const rpc::wire::Role& role) {
  if (role.micro_batch() < 1)
    return absl::InvalidArgumentError(
        fmt::format("the coordinator asks for micro-batches of {}", role.micro_batch()));
  leave();
  if (others_may_write_) PACELINE_RETURN_IF_ERROR(make_gradient());
  others_may_write_ = role.cuts_size() > 0 && role.stage() == 0;
  if (role.cuts_size() > 0) {
    if (has_links(role)) PACELINE_RETURN_IF_ERROR(open_links());
    PACELINE_ASSIGN_OR_RETURN(
        stage_, PipelineStage::create(job_, *data_.train, role, *gradient_, links_.get(), interrupted_));
    replica_.reset();  // who runs a stage does not hold the whole model
  } else if (replica_ == nullptr) {
    PACELINE_RETURN_IF_ERROR(build_replica());
  }
  role_ = role;
  return absl::OkStatus();
}

absl::Status Computation::open_links() {
  if (links_ != nullptr) return absl::OkStatus();
  if (address_.empty()) {
    return absl::FailedPreconditionError(
        "other stages of its replica are on other hosts, and this worker has no --address, an address of its "
        "host that those reach");
  }
  PACELINE_ASSIGN_OR_RETURN(const auto fabric, transport::fabric_of_host(job_.fabric, address_));
  PACELINE_ASSIGN_OR_RETURN(links_, transport::LinkChannels::listen(address_, fabric));
  return absl::OkStatus();
}

void Computation::leave() {
  stage_.reset();
  role_.reset();
}

std::optional<std::int32_t> Computation::replica() const {
  if (!role_) return std::nullopt;
  return role_->replica();
}

absl::StatusOr<Computation::Compute> Computation::prepare(const rpc::wire::WorkerRelease& release) {
  PACELINE_ASSIGN_OR_RETURN(const Lease lease, rpc::from_wire(release.lease()));
  if (order_->samples(lease).empty())
    return absl::InvalidArgumentError("the coordinator leased samples this data set does not have");
  if (release.steps() != 0) return prepare_steps(lease, release);
  if (stage_) return prepare_stage(lease, release);
  return
      [this, batch = batch(lease), seed = order_->step_seed(lease)](std::span<const float* const> weights) {
        return computed(replica_->step(batch, weights, gradients_, seed, role_->micro_batch()));
      };
}

absl::StatusOr<Computation::Compute> Computation::prepare_steps(const Lease& lease,
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

Computation::Compute Computation::prepare_stage(const Lease& lease, const rpc::wire::WorkerRelease& release) {
  PipelineStage::Iteration iteration{
      .samples = lease.size(),
      .batch = {},
      .seed = order_->step_seed(lease),
      .pace = [this, &release, whole = batches(lease, job_.replicas[place_])](double part, Duration compute) {
        return paced(release, whole * part, compute);
      }};
  // Between the first stage and the last nobody needs the data.
  if (stage_->first() || stage_->last()) iteration.batch = batch(lease);
  return [this, iteration = std::move(iteration)](
             std::span<const float* const> weights) -> absl::StatusOr<std::optional<Computed>> {
    PACELINE_ASSIGN_OR_RETURN(const auto done, stage_->run(iteration, weights));
    if (!done) return std::nullopt;
    return Computed{done->loss, done->pace, done->waited};
  };
}

train::Batch Computation::batch(const Lease& lease) {
  return data_.train->batch(order_->samples(lease), order_->augment_seed(lease));
}

void Computation::finish(Clock clock) {
  if (!stage_ || stage_->first()) gradient_->stamp(clock);
}

// A replica that takes the same batch every time takes as long for the last, smaller one of an epoch.
Duration Computation::paced(const rpc::wire::WorkerRelease& release, Duration taken) const {
  if (stage_) return taken;
  const auto lease = rpc::from_wire(release.lease());
  if (job_.parallel.paced_by_samples() && lease.ok())
    return paced(release, batches(*lease, job_.replicas[place_]), taken);
  return paced(release, static_cast<double>(std::max<std::int64_t>(1, release.steps())), taken);
}

Duration Computation::paced(const rpc::wire::WorkerRelease& release, double iterations,
                            Duration compute) const {
  return config::paced(job_, place_, Clock(release.clock()), Time(Duration(release.at_ns())), iterations,
                       compute);
}

}  // namespace paceline::compute
