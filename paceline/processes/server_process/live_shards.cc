#include "paceline/processes/server_process/live_shards.h"

#include <algorithm>
#include <stop_token>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/formats/wire/wire.h"
#include "paceline/parameters/ps/fused_update.h"
#include "paceline/processes/server_process/exchanged_commits.h"
#include "paceline/processes/server_process/local_commits.h"
#include "paceline/processes/server_process/memory_comes_back.h"
#include "paceline/records/store/shard_files.h"
#include "paceline/records/store/shared_folder.h"

namespace paceline::server_process {

LiveShards::LiveShards(Session& session, ServerState& state, UpdateTimes& times,
                       std::unique_ptr<exchange::Exchange> exchange)
    : session_(session), state_(state), times_(times), exchange_(std::move(exchange)) {}

void LiveShards::forget() {
  bell_.reset();
  state_.shards.reset();
  state_.card.reset();
  state_.kept.reset();
  if (state_.keep) state_.left = KeptMemory::look(*state_.keep);
}

// ---- The start ----

absl::Status LiveShards::check(const wire::ServerStart& order, wire::ServerStarted& started) {
  PACELINE_ASSIGN_OR_RETURN(job_, config::parse_job(order.job_toml(), "job.toml"));
  index_ = order.shard();
  count_ = order.shard_count();
  by_call_ = order.by_call();
  if (!order.mark_file().empty()) {
    // A checkpoint that cannot be written is found out before there is anything to lose.
    PACELINE_RETURN_IF_ERROR(
        store::check_shared(order.mark_file(), order.mark_text(), fmt::format("shard{}", index_)));
  }
  if (order.take_up()) return absl::OkStatus();
  auto first = FirstWeights::of(order, job_);
  if (first.ok()) {
    first_ = *std::move(first);
  } else {
    started.set_error(std::string(first.status().message()));
  }
  return absl::OkStatus();
}

absl::Status LiveShards::start(const wire::ServerStart& order, wire::ServerStarted& started,
                               const Traffic& traffic) {
  const FirstWeights first = std::exchange(first_, {});
  auto shards = order.take_up() ? take_up_shards(order) : new_shards(order, first, started);
  if (!shards.ok() && order.take_up()) {
    started.set_error(std::string(shards.status().message()));
    return absl::OkStatus();
  }
  PACELINE_RETURN_IF_ERROR(shards.status());
  state_.shards = *std::move(shards);
  PACELINE_RETURN_IF_ERROR(start_commits(order, first, traffic));
  PACELINE_ASSIGN_OR_RETURN(auto bell, memory::BoardBell::open(own().board().path()));
  bell_ = std::make_shared<const memory::BoardBell>(std::move(bell));
  if (state_.card != nullptr) {
    started.set_card(state_.card->uuid());
    started.set_socket(state_.card->socket());
  }
  started.set_kept(state_.kept != nullptr);
  started.set_host_path(commits_->mirror());
  for (const std::string& board : commits_->boards()) started.add_board_paths(board);
  return absl::OkStatus();
}

absl::StatusOr<KeptShards> LiveShards::take_up_shards(const wire::ServerStart& order) {
  if (!state_.left) return absl::NotFoundError("nothing of it is left");
  state_.kept = std::make_unique<KeptMemory>(*std::exchange(state_.left, std::nullopt));
  return once_memory_is_back([&]() -> absl::StatusOr<KeptShards> {
    state_.card.reset();
    if (!state_.kept->card().empty()) {
      PACELINE_ASSIGN_OR_RETURN(state_.card, open_card(state_.kept->card(), order));
    }
    return KeptShards::take_up(order, job_, state_.card.get(), *state_.kept);
  });
}

absl::StatusOr<KeptShards> LiveShards::new_shards(const wire::ServerStart& order, const FirstWeights& first,
                                                  wire::ServerStarted& started) {
  // Memory of an earlier attempt would be there beside the new one.
  state_.shards.reset();
  state_.left.reset();
  let_go_of_memory();
  const auto saved = session_.files(order.by_call(), order.checkpoint_dir(), {},
                                    {order.checkpoint_files().begin(), order.checkpoint_files().end()});
  auto shards = start_shards(order, first, *saved, started);
  if (!shards.ok()) return saved->in_words(shards.status());
  return shards;
}

// The keep, too, would hold memory of an attempt or of a try that is over.
void LiveShards::let_go_of_memory() {
  state_.card.reset();
  state_.kept.reset();
  if (state_.keep) state_.keep->clear();
}

absl::StatusOr<std::unique_ptr<ServersCard>> LiveShards::open_card(const std::string& uuid,
                                                                   const wire::ServerStart& order) const {
  PACELINE_ASSIGN_OR_RETURN(const ps::Layout part, wire::part_from_wire(order.part()));
  return ServersCard::open(uuid, part, order.part_offset(), state_.kept.get());
}

// Whether the launcher can keep the shard's memory.
bool LiveShards::can_be_kept(const wire::ServerStart& order) const {
  return state_.keep && order.hosts_size() == 0 && order.copies() <= 1 && KeptShards::can_outlive(job_);
}

// A job that asks for a card's memory gets it or an error. Any other gets the host's memory instead, and a line.
absl::StatusOr<KeptShards> LiveShards::start_shards(const wire::ServerStart& order, const FirstWeights& first,
                                                    store::CheckpointFiles& saved,
                                                    wire::ServerStarted& started) {
  const auto new_kept = [&] {
    return can_be_kept(order) ? std::make_unique<KeptMemory>(*state_.keep, order) : nullptr;
  };
  const auto on_card = [&]() -> absl::StatusOr<KeptShards> {
    let_go_of_memory();
    state_.kept = new_kept();
    PACELINE_ASSIGN_OR_RETURN(state_.card, open_card(order.card(), order));
    return KeptShards::start(order, job_, first, saved, state_.card.get(), state_.kept.get());
  };
  if (!order.card().empty()) {
    // A server of the attempt before may have been killed.
    auto shards = order.checkpoint_dir().empty() ? on_card() : once_memory_is_back(on_card);
    if (shards.ok()) return shards;
    const absl::Status no_card = shards.status();
    let_go_of_memory();
    if (job_.memory == config::ShardMemory::kGpu)
      return absl::FailedPreconditionError(
          fmt::format("the weights cannot be in the GPU's memory: {}; write memory = \"host\" in [cluster], "
                      "or take a smaller "
                      "batch if the memory is full",
                      std::string(no_card.message())));
    started.set_why_host(std::string(no_card.message()));
  }
  state_.kept = new_kept();
  return KeptShards::start(order, job_, first, saved, nullptr, state_.kept.get());
}

absl::Status LiveShards::start_commits(const wire::ServerStart& order, const FirstWeights& first,
                                       const Traffic& traffic) {
  gradients_.emplace(order.whole_floats(), state_.card.get());
  if (order.hosts_size() == 0) {
    std::optional<HostMirror> mirror;
    if (state_.card != nullptr) {
      PACELINE_ASSIGN_OR_RETURN(mirror, HostMirror::create(own(), order.readers(), state_.kept.get()));
    }
    commits_ = std::make_unique<LocalCommits>(*state_.shards, *gradients_, std::move(mirror));
    return absl::OkStatus();
  }
  if (exchange_ == nullptr) return absl::InternalError("the coordinator speaks of other hosts");
  PACELINE_ASSIGN_OR_RETURN(
      auto commits, ExchangedCommits::start(order, job_, *state_.shards, *gradients_, *exchange_, traffic));
  const absl::Status passed_on = order.first_passed_on() ? commits->pass_on_first(first) : absl::OkStatus();
  commits_ = std::move(commits);
  PACELINE_RETURN_IF_ERROR(passed_on);
  exchange_->published(own().version());
  return absl::OkStatus();
}

// ---- Versions ----

absl::Status LiveShards::make(const wire::Apply& order) {
  const auto began = std::chrono::steady_clock::now();
  const absl::Status made = commits_->make(order);
  PACELINE_RETURN_IF_ERROR(check_finite(order, own()));
  PACELINE_RETURN_IF_ERROR(made);
  note(order, began);
  return absl::OkStatus();
}

bool LiveShards::are_ready(const wire::Apply& order) {
  const auto& members = order.members();
  return std::all_of(members.begin(), members.end(), [&](const wire::Apply::Member& member) {
    return gradients_->is_ready(member.replica(), Clock(member.clock()));
  });
}

// The calling thread may be another one than that of the orders.
absl::Status LiveShards::make_early(const wire::Apply& order) {
  if (state_.card != nullptr) PACELINE_RETURN_IF_ERROR(state_.card->enter());
  PACELINE_RETURN_IF_ERROR(own().board().keep(own().version()));
  return make(order);
}

void LiveShards::confirm(Version version) { own().board().drop(Version(version.value() - 1)); }

std::optional<absl::Status> LiveShards::prepare(const wire::Apply& order) {
  const auto began = std::chrono::steady_clock::now();
  PACELINE_RETURN_IF_ERROR(commits_->prepare(order));
  for (const ps::Shard* shard : state_.shards->all()) PACELINE_RETURN_IF_ERROR(check_finite(order, *shard));
  note(order, began);
  return absl::OkStatus();
}

void LiveShards::note(const wire::Apply& order, std::chrono::steady_clock::time_point began) {
  std::int64_t floats = 0;
  for (const ps::Shard* shard : state_.shards->all()) floats += shard->layout().size();
  if (floats == 0) return;
  wire::UpdateTime update;
  update.set_version(order.version());
  update.set_took_ns(std::chrono::nanoseconds(std::chrono::steady_clock::now() - began).count());
  update.set_bytes(floats * static_cast<std::int64_t>(sizeof(float)));
  update.set_threads(own().threads());
  update.set_members(order.members_size());
  times_.made(std::move(update));
}

// Before the version can become a checkpoint. Nobody looks at gradients for this but then.
absl::Status LiveShards::check_finite(const wire::Apply& order, const ps::Shard& shard) {
  if (shard.finite()) return absl::OkStatus();
  diverged_ = Version(order.version());
  for (const auto& member : order.members()) {
    const auto place = gradients_->place(member.replica(), Clock(member.clock()));
    if (!place.ok()) continue;  // its own host says so
    PACELINE_ASSIGN_OR_RETURN(const std::vector<float> values,
                              shard.read_gradient(*place, state_.shards->own_offset()));
    if (!ps::all_finite(shard.layout(), values.data())) not_finite_.push_back(member.replica());
  }
  return absl::OutOfRangeError(fmt::format("version {} is not finite", order.version()));
}

absl::Status LiveShards::keep(const wire::Keep& order) {
  const Version version(order.version());
  const bool earlier = version < own().version();
  PACELINE_RETURN_IF_ERROR(earlier ? own().board().keep_again(version) : own().board().keep(version));
  return order.in_host() ? commits_->keep_in_host(version) : absl::OkStatus();
}

void LiveShards::drop(Version version, bool checkpoint) {
  own().board().drop(version);
  commits_->drop(version, checkpoint);
}

void LiveShards::release_reader(int reader) {
  own().board().release_reader(reader);
  commits_->release_reader(reader);
}

void LiveShards::explain(wire::ServerFailed& failed) {
  failed.set_diverged(diverged_.value());
  failed.mutable_not_finite()->Add(not_finite_.begin(), not_finite_.end());
  const auto missing = gradients_ ? gradients_->missing() : std::nullopt;
  if (missing && !failed.host_lost() && diverged_ == Version(0)) failed.set_not_here(*missing);
}

// ---- Checkpoints ----

// The weights stay as they are; the optimizer's state moves on with the next commit, so it is copied. The files are
// written beside training.
absl::Status LiveShards::write_checkpoint(const wire::WriteCheckpoint& order, Done done) {
  PACELINE_ASSIGN_OR_RETURN(ps::OptimizerState state, own().read_state());
  writer_.write([this, dir = order.dir(), places = own().kept_weights(Version(order.version())),
                 state = std::move(state), done = std::move(done)](const std::stop_token& stop) {
    const auto checkpoint = session_.files(by_call_, dir, stop, {});
    done(write_shard(*checkpoint, places, state));
  });
  return absl::OkStatus();
}

absl::Status LiveShards::write_shard(store::CheckpointFiles& checkpoint, std::span<const float> places,
                                     const ps::OptimizerState& state) const {
  std::vector<float> read;
  if (state_.card != nullptr) {
    PACELINE_ASSIGN_OR_RETURN(read, own().read(places));
    places = read;
  }
  return store::write_shard(checkpoint, index_ + 1, count_, own().layout(), places, state);
}

void LiveShards::write_copy(const server::WriteCopy& copy, Done done) {
  if (copy.publish) state_.shards->publish();
  writer_.write([this, copy, done = std::move(done)](const std::stop_token& stop) {
    const auto checkpoint = session_.files(copy.by_call, copy.dir, stop, {});
    done(state_.shards->write(copy.shard.value(), copy.version, *checkpoint));
  });
}

}  // namespace paceline::server_process
