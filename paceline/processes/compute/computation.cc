#include "paceline/processes/compute/computation.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/formats/wire/wire.h"
#include "paceline/parameters/ps/fused_update.h"
#include "paceline/processes/compute/shared.h"
#include "paceline/processes/peer/refused_log.h"
#include "paceline/records/store/crc32.h"
#include "paceline/records/store/weights_file.h"

namespace paceline::compute {

namespace {

absl::StatusOr<std::optional<Computation::Computed>> computed(
    const absl::StatusOr<engine::StepResult>& step) {
  if (absl::IsCancelled(step.status())) return std::nullopt;
  PACELINE_RETURN_IF_ERROR(step.status());
  return Computation::Computed{.loss = step->loss,
                               .metrics = step->metrics,
                               .finite = step->finite,
                               .not_finite = step->not_finite,
                               .weight = step->weight,
                               .data_end = step->data_end};
}

std::uint32_t crc32_of(std::span<const float> state, double steps) {
  const std::uint32_t of_steps = store::crc32_after(&steps, sizeof steps, 0);
  return store::crc32_after(state.data(), state.size_bytes(), of_steps);
}

// A large model is checked in parts, all over it: weights of another draw or file differ in them, too.
std::uint32_t some_crc32_of(std::span<const float> weights) {
  constexpr std::size_t kPart = 1 << 12, kMostParts = 1 << 12;
  const std::size_t parts = (weights.size() + kPart - 1) / kPart;
  const std::size_t step = std::max<std::size_t>(1, parts / kMostParts);
  std::uint32_t crc = 0;
  for (std::size_t part = 0; part < parts; part += step) {
    const auto floats = weights.subspan(part * kPart, std::min(kPart, weights.size() - part * kPart));
    crc = store::crc32_after(floats.data(), floats.size_bytes(), crc);
  }
  return crc;
}

// The lease's size in batches of the device, in which its pace is given.
double batches(const Lease& lease, const config::DeviceConfig& device) {
  return static_cast<double>(lease.size()) / static_cast<double>(device.batch);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Computation>> Computation::create(const wire::Welcome& welcome,
                                                                 const std::string& name,
                                                                 const std::string& address, OwnEngine& own,
                                                                 StageTraffic& traffic,
                                                                 PipelineStage::Interrupted interrupted) {
  std::unique_ptr<Computation> made(new Computation(address, traffic, std::move(interrupted)));
  PACELINE_ASSIGN_OR_RETURN(made->job_, own.job_of(welcome.job_toml()));
  PACELINE_RETURN_IF_ERROR(made->find_place(name));
  const int threads = made->job_.devices[made->place_].threads;
  PACELINE_ASSIGN_OR_RETURN(made->engine_, own.of(made->job_, name, threads, welcome.run()));
  for (auto* const order : {&made->order_, &made->order_ahead_})
    order->emplace(made->job_.seed, made->engine_->samples(), made->engine_->in_order());
  made->layout_ = made->engine_->layout();
  PACELINE_RETURN_IF_ERROR(made->make_first(welcome, own));
  if (std::holds_alternative<policy::LocalSgdSpec>(made->job_.policy)) {
    PACELINE_ASSIGN_OR_RETURN(made->local_, LocalSteps::create(made->layout_, made->job_.optimizer));
    made->share(made->local_->memories());
  }
  return made;
}

wire::WorkerAttached Computation::attached() const {
  wire::WorkerAttached attached;
  attached.set_dataset_size(engine_->samples());
  *attached.mutable_layout() = wire::to_wire(layout_);
  attached.set_gradient_path(gradient_->path());
  attached.set_data_digest(engine_->digest());
  *attached.mutable_data_order() = wire::to_wire(engine_->data_order());
  for (const engine::FrozenTensor& tensor : engine_->frozen()) {
    wire::FrozenTensor* const added = attached.add_frozen();
    added->set_name(tensor.name);
    added->set_digest(tensor.digest);
  }
  const engine::Engine::Card card = engine_->card();
  attached.set_card(card.uuid);
  attached.set_cards(card.of);
  if (first_state_) attached.set_first_state(*first_state_);
  if (first_weights_) attached.set_first_weights(*first_weights_);
  if (const auto memory = engine_->card_memory()) {
    attached.mutable_card_memory()->set_card(memory->card);
    attached.mutable_card_memory()->set_free_bytes(memory->free_bytes);
  }
  if (const auto cuts = engine_->cuts()) {
    attached.mutable_cuts()->set_digest(cuts->digest);
    attached.mutable_cuts()->set_libraries(cuts->libraries);
  }
  // Constants of a file of weights are the same for all workers, whatever their models begin with.
  if (job_.initial_weights.empty()) attached.mutable_constants()->Add(constants_.begin(), constants_.end());
  return attached;
}

Computation::~Computation() {
  if (gradient_) engine_->forget(gradient_->mapping().data());
  for (const std::byte* memory : shared_) engine_->forget(memory);
}

absl::Status Computation::find_place(const std::string& name) {
  while (place_ < job_.devices.size() && job_.devices[place_].name != name) ++place_;
  if (place_ == job_.devices.size()) return absl::InternalError("the job has no place for " + name);
  return absl::OkStatus();
}

absl::Status Computation::make_first(const wire::Welcome& welcome, OwnEngine& own) {
  const bool has_state = engine_->first_steps() > 0 && !welcome.resumed();
  if (has_state && std::holds_alternative<policy::LocalSgdSpec>(job_.policy))
    PACELINE_RETURN_IF_ERROR(LocalSteps::check_stateless(*engine_));
  PACELINE_RETURN_IF_ERROR(make_gradient(has_state ? ps::state_streams(job_.optimizer.kind) : 0));
  const bool has_weights = !welcome.started() || !own.knows_constants();
  if (has_weights) PACELINE_RETURN_IF_ERROR(engine_->initial_weights(gradient_->gradient()));
  constants_ = own.constants(gradient_->gradient());
  if (has_weights && !welcome.resumed() && job_.hosts > 1 && job_.initial_weights.empty())
    first_weights_ = some_crc32_of(gradient_->gradient());
  if (!welcome.resumed()) first_state_ = 0;
  if (has_state) {
    PACELINE_RETURN_IF_ERROR(engine_->first_state(gradient_->first_state()));
    first_state_ = crc32_of(gradient_->first_state(), engine_->first_steps());
  }
  if (welcome.started()) return has_weights || has_state ? make_gradient() : absl::OkStatus();
  const std::string& file = job_.initial_weights;
  return file.empty() ? absl::OkStatus() : store::read_weights(file, layout_, gradient_->gradient());
}

absl::Status Computation::servers_started() { return make_gradient(); }

void Computation::share(std::span<const engine::Memory> memories) {
  for (const engine::Memory& memory : memories) {
    engine_->share(memory);
    shared_.push_back(memory.base);
  }
}

absl::Status Computation::make_gradient(int streams) {
  if (gradient_) engine_->forget(gradient_->mapping().data());
  PACELINE_ASSIGN_OR_RETURN(
      gradient_,
      memory::GradientWriter::create(layout_.size(), streams, streams > 0 ? engine_->first_steps() : 0));
  share_gradient(memory_of(*gradient_));
  others_may_write_ = false;
  return absl::OkStatus();
}

void Computation::share_gradient(const engine::Memory& memory) {
  engine_->share(memory);
  gradients_ = engine::gradient_pointers(layout_, gradient_->gradient().data(), gradient_->on_device());
}

absl::Status Computation::use_cards(const std::vector<CardPart>& parts) {
  card_parts_ = parts;
  if (parts.empty()) return absl::OkStatus();
  const bool whole = parts.front().begin == 0 && parts.front().end == layout_.size();
  if (whole) engine_->forget(gradient_->mapping().data());
  return gradient_->move_to_device();
}

// The server makes one for each replica, with this name.
void Computation::share_gradient_on_cards(std::int32_t replica) {
  for (const CardPart& part : card_parts_) {
    const std::int64_t floats = ps::card_gradient_floats(part.end - part.begin, layout_.narrow());
    share_gradient(
        {.path = fmt::format("gradient/{}", replica),
         .base = gradient_->mapping().data() + static_cast<std::size_t>(part.begin) * sizeof(float),
         .bytes = sizeof(float) * static_cast<std::size_t>(floats),
         .file_offset = 0,
         .writable = true,
         .card = part.card,
         .socket = part.socket});
  }
  const std::vector<float*> on_host = engine::tensor_pointers(layout_, gradient_->on_host().data());
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    const std::int64_t at = layout_.tensors()[i].offset;
    const bool on_card = std::any_of(card_parts_.begin(), card_parts_.end(),
                                     [&](const CardPart& part) { return part.begin <= at && at < part.end; });
    if (!on_card) gradients_[i] = on_host[i];
  }
}

absl::Status Computation::take(const wire::Role& role) {
  if (role.micro_batch() < 1)
    return absl::InvalidArgumentError(
        fmt::format("the coordinator asks for micro-batches of {}", role.micro_batch()));
  leave();
  if (local_) local_->reset_momentum();
  if (!card_parts_.empty()) share_gradient_on_cards(role.replica());
  if (others_may_write_) PACELINE_RETURN_IF_ERROR(make_gradient());
  others_may_write_ = role.cuts_size() > 0 && role.stage() == 0 && role.turn() == 0;
  if (role.cuts_size() > 0) {
    if (has_links(role)) PACELINE_RETURN_IF_ERROR(open_links());
    PACELINE_ASSIGN_OR_RETURN(stage_, PipelineStage::create(job_, *engine_, role, *gradient_, links_.get(),
                                                            traffic_, interrupted_));
  }
  role_ = role;
  return absl::OkStatus();
}

absl::Status Computation::open_links() {
  if (links_ != nullptr) return absl::OkStatus();
  if (address_.empty()) {
    return absl::FailedPreconditionError(
        "other devices of its replica are on other hosts, and this worker has no --address, an address of "
        "its host that those reach");
  }
  PACELINE_ASSIGN_OR_RETURN(const auto fabric, links::fabric_of_host(job_.fabric, address_));
  PACELINE_ASSIGN_OR_RETURN(links_, links::LinkChannels::listen(address_, fabric, peer::warn_of_refused));
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

absl::StatusOr<Computation::Compute> Computation::prepare(const wire::WorkerRelease& release) {
  PACELINE_ASSIGN_OR_RETURN(const Lease lease, wire::from_wire(release.lease()));
  if (order_->samples(lease).empty())
    return absl::InvalidArgumentError("the coordinator leased samples this data set does not have");
  if (release.steps() != 0) return prepare_steps(lease, release);
  if (stage_) return prepare_stage(lease, release);
  engine::Batch batch = batch_of(*order_, lease);
  PACELINE_RETURN_IF_ERROR(expect({batch}, release));
  PACELINE_RETURN_IF_ERROR(engine_->prepare(batch));
  return [this, batch = std::move(batch)](const engine::Weights& weights) {
    return computed(step_until_taken(*engine_, batch, weights, gradients_, role_->micro_batch(),
                                     [this] { return keep_going(); }));
  };
}

// Its own permutation: what comes next may be of the next epoch.
absl::Status Computation::expect(std::vector<engine::Batch> now, const wire::WorkerRelease& release) {
  if (engine_->prefetch() == 0) return absl::OkStatus();
  std::vector<std::pair<Lease, std::vector<engine::Batch>>> next;
  for (const wire::Lease& one : release.ahead()) {
    PACELINE_ASSIGN_OR_RETURN(const Lease lease, wire::from_wire(one));
    const auto known = std::find_if(expected_.begin(), expected_.end(),
                                    [&](const auto& other) { return other.first == lease; });
    if (known != expected_.end())
      next.push_back(*known);
    else if (release.steps() == 0)
      next.push_back({lease, {batch_of(*order_ahead_, lease)}});
    else
      next.push_back({lease, step_samples(*order_ahead_, lease, std::min(release.steps(), lease.size()))});
  }
  expected_ = std::move(next);
  for (const auto& [lease, batches] : expected_) now.insert(now.end(), batches.begin(), batches.end());
  engine_->expect(now);
  return absl::OkStatus();
}

absl::Status Computation::take_last(const engine::Weights& weights) {
  return engine_->take_last(weights.tensors, [this] { return keep_going(); });
}

absl::StatusOr<Computation::Compute> Computation::prepare_steps(const Lease& lease,
                                                                const wire::WorkerRelease& release) {
  if (!local_ || stage_ || release.steps() < 0 || release.steps() > lease.size()) {
    return absl::InvalidArgumentError(
        fmt::format("the coordinator asks for {} steps on {} samples", release.steps(), lease.size()));
  }
  std::vector<engine::Batch> batches = step_samples(*order_, lease, release.steps());
  PACELINE_RETURN_IF_ERROR(expect(batches, release));
  return
      [this, batches = std::move(batches), rate = release.learning_rate()](const engine::Weights& weights) {
        auto done = computed(local_->take(*engine_, batches, rate, weights.tensors, gradients_,
                                          [this] { return keep_going(); }));
        if (done.ok() && *done) (*done)->loading = local_->loading();
        return done;
      };
}

absl::StatusOr<Computation::Compute> Computation::prepare_stage(const Lease& lease,
                                                                const wire::WorkerRelease& release) {
  PipelineStage::Iteration iteration{
      .samples = lease.size(),
      .seed = order_->step_seed(lease),
      .pace = [this, &release, whole = batches(lease, job_.devices[place_])](double part, Duration compute) {
        return paced(release, whole * part, compute);
      }};
  engine::Batch batch = batch_of(*order_, lease);
  PACELINE_RETURN_IF_ERROR(expect({batch}, release));
  PACELINE_RETURN_IF_ERROR(stage_->prepare(batch));
  return [this, iteration = std::move(iteration)](
             const engine::Weights& weights) -> absl::StatusOr<std::optional<Computed>> {
    PACELINE_ASSIGN_OR_RETURN(const auto done, stage_->run(iteration, weights.tensors));
    if (!done) return std::nullopt;
    return Computed{.loss = done->loss,
                    .pace = done->pace,
                    .stages = done->waited,
                    .metrics = done->metrics,
                    .weight = done->weight};
  };
}

// One look at memory that was written a moment ago. Where all is well nobody looks at single tensors.
Computation::Contributed Computation::contributed(const Computed& done) {
  if (stage_ && !stage_->first()) return {};
  // This process cannot read a card's memory, so the engine has looked.
  if (gradient_->on_device())
    return {.not_finite = done.finite ? "" : done.not_finite.empty() ? "its gradient" : done.not_finite};
  const float* gradient = gradient_->gradient().data();
  if (done.finite || ps::all_finite(layout_, gradient)) return {.not_finite = "", .norm = norm()};
  for (const ps::TensorSpec& tensor : layout_.tensors()) {
    if (tensor.kind != ps::TensorKind::kConstant &&
        !ps::all_finite(layout_, gradient, {tensor.offset, tensor.offset + tensor.size}))
      return {.not_finite = tensor.name};
  }
  return {.not_finite = "what lies between its tensors"};
}

double Computation::norm() {
  if (job_.reject_outliers == 0) return 0;
  const float* gradient = gradient_->gradient().data();
  double squares = ps::squares_of(ps::narrow_part(gradient), layout_.narrow());
  for (const ps::Layout::Run& run : layout_.runs()) {
    const std::int64_t begin = std::max(run.begin, layout_.narrow());
    if (run.kind == ps::TensorKind::kParameter && begin < run.end)
      squares += ps::squares_of(gradient + begin, run.end - begin);
  }
  return std::sqrt(squares);
}

void Computation::finish(Clock clock) {
  if (!stage_ || stage_->first()) gradient_->stamp(clock);
}

// A replica that takes the same batch every time takes as long for the last, smaller one of an epoch.
Duration Computation::paced(const wire::WorkerRelease& release, Duration taken) const {
  if (stage_) return taken;
  const auto lease = wire::from_wire(release.lease());
  if (job_.parallel.paced_by_samples() && lease.ok())
    return paced(release, batches(*lease, job_.devices[place_]), taken);
  return paced(release, static_cast<double>(std::max<std::int64_t>(1, release.steps())), taken);
}

Duration Computation::paced(const wire::WorkerRelease& release, double iterations, Duration compute) const {
  return config::paced(job_, place_, Clock(release.clock()), release.steps(), Time(Duration(release.at_ns())),
                       iterations, compute);
}

}  // namespace paceline::compute
