#include "paceline/processes/server/server.h"

#include <stop_token>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/formats/wire/disconnect.h"
#include "paceline/formats/wire/wire.h"
#include "paceline/parameters/ps/fused_update.h"
#include "paceline/processes/server/exchanged_commits.h"
#include "paceline/processes/server/local_commits.h"
#include "paceline/records/store/shard_files.h"
#include "paceline/records/store/shared_folder.h"

namespace paceline::server {

using wire::coordinator_lost;

Server::Server(Session& session, ServerState& state, UpdateTimes& times,
               std::unique_ptr<exchange::Exchange> exchange)
    : session_(session), state_(state), times_(times), exchange_(std::move(exchange)) {
  state_.log.new_session();
}

absl::Status Server::serve() {
  while (auto order = session_.next()) {
    if (order->has_disconnect()) return wire::outcome_of_job(order->disconnect());
    const absl::Status status = take(*std::move(order));
    if (status.ok()) continue;
    const bool host_lost = commits_ != nullptr && commits_->host_lost();
    if (host_lost && state_.log.cut_off()) continue;  // the exchange has told the coordinator
    say_failed(status, host_lost);
    if (host_lost) return absl::AbortedError(status.message());
    return session_.unless_disconnected(status);
  }
  return coordinator_lost();
}

absl::Status Server::take(wire::ServerOrder order) {
  if (order.has_start()) return start(order.start());
  PACELINE_ASSIGN_OR_RETURN(const Actions actions, state_.log.take(std::move(order)));
  return act(actions);
}

absl::Status Server::act(const Actions& actions) {
  for (const Action& action : actions)
    PACELINE_RETURN_IF_ERROR(std::visit([this](const auto& one) { return act(one); }, action));
  return absl::OkStatus();
}

absl::Status Server::act(const CarryOut& turn) {
  const wire::ServerOrder& order = turn.order;
  switch (order.what_case()) {
    case wire::ServerOrder::kMapGradient:
      return map_gradient(order.map_gradient());
    case wire::ServerOrder::kUnmapGradient:
      return commits_->unmap_gradient(order.unmap_gradient().replica());
    case wire::ServerOrder::kReleaseReader:
      own().board().release_reader(order.release_reader().reader());
      commits_->release_reader(order.release_reader().reader());
      return absl::OkStatus();
    case wire::ServerOrder::kWant:
      commits_->want(order.want().host(), Version(order.want().version()));
      return absl::OkStatus();
    case wire::ServerOrder::kSendEarly:
      return commits_->send_early(order.send_early());
    case wire::ServerOrder::kKeep:
      return keep(order.keep());
    case wire::ServerOrder::kDrop:
      own().board().drop(Version(order.drop().version()));
      commits_->drop(Version(order.drop().version()), order.drop().checkpoint());
      return absl::OkStatus();
    case wire::ServerOrder::kWriteCheckpoint:
      return write_checkpoint(order.write_checkpoint());
    default:
      return absl::InternalError("the coordinator sent an unknown order");
  }
}

// ---- The start ----

absl::Status Server::start(const wire::ServerStart& order) {
  PACELINE_ASSIGN_OR_RETURN(const config::JobConfig job, config::parse_job(order.job_toml(), "job.toml"));
  index_ = order.shard();
  count_ = order.shard_count();
  by_call_ = order.by_call();
  if (!order.mark_file().empty()) {
    // A checkpoint that cannot be written is found out before there is anything to lose.
    PACELINE_RETURN_IF_ERROR(
        store::check_shared(order.mark_file(), order.mark_text(), fmt::format("shard{}", index_)));
  }
  if (order.take_up()) return take_up(order, job);
  wire::ServerMessage message;
  wire::ServerStarted& started = *message.mutable_started();
  const auto first = FirstWeights::of(order, job);
  if (!first.ok()) {
    started.set_error(std::string(first.status().message()));
    return say(std::move(message));
  }
  state_.log = CommitLog();
  state_.shards.reset();
  // Memory of an earlier attempt would be there beside the new one.
  state_.left.reset();
  state_.card.reset();
  state_.kept.reset();
  if (state_.keep) state_.keep->clear();
  const auto saved = session_.files(order.by_call(), order.checkpoint_dir(), {},
                                    {order.checkpoint_files().begin(), order.checkpoint_files().end()});
  auto shards = start_shards(order, job, *first, *saved, started);
  if (!shards.ok()) return saved->in_words(shards.status());
  state_.shards = *std::move(shards);
  PACELINE_RETURN_IF_ERROR(start_commits(order, job, *first));
  return begin(order, std::move(message));
}

absl::Status Server::take_up(const wire::ServerStart& order, const config::JobConfig& job) {
  wire::ServerMessage message;
  wire::ServerStarted& started = *message.mutable_started();
  auto shards = take_up_shards(order, job);
  if (!shards.ok()) {
    started.set_error(std::string(shards.status().message()));
    return say(std::move(message));
  }
  state_.shards = *std::move(shards);
  PACELINE_RETURN_IF_ERROR(start_commits(order, job, FirstWeights()));
  return begin(order, std::move(message));
}

absl::StatusOr<KeptShards> Server::take_up_shards(const wire::ServerStart& order,
                                                  const config::JobConfig& job) {
  if (!state_.left) return absl::NotFoundError("nothing of it is left");
  state_.kept = std::make_unique<KeptMemory>(*std::exchange(state_.left, std::nullopt));
  if (!state_.kept->card().empty()) {
    PACELINE_ASSIGN_OR_RETURN(state_.card, open_card(state_.kept->card(), order));
  }
  return KeptShards::take_up(order, job, state_.card.get(), *state_.kept);
}

// A shard in a card's memory is the whole model.
absl::StatusOr<std::unique_ptr<ServersCard>> Server::open_card(const std::string& uuid,
                                                               const wire::ServerStart& order) const {
  PACELINE_ASSIGN_OR_RETURN(const ps::Layout model, wire::part_from_wire(order.part()));
  return ServersCard::open(uuid, model, state_.kept.get());
}

absl::Status Server::begin(const wire::ServerStart& order, wire::ServerMessage message) {
  wire::ServerStarted& started = *message.mutable_started();
  if (state_.card != nullptr) {
    started.set_card(state_.card->uuid());
    started.set_socket(state_.card->socket());
  }
  started.set_kept(state_.kept != nullptr);
  for (const std::string& board : commits_->boards()) started.add_board_paths(board);
  state_.log.start(order);
  return say(std::move(message));
}

// Whether the launcher can keep the shard's memory.
bool Server::can_be_kept(const wire::ServerStart& order, const config::JobConfig& job) const {
  return state_.keep && order.hosts_size() == 0 && order.copies() <= 1 && KeptShards::can_outlive(job);
}

// A job that asks for a card's memory gets it or an error. Any other gets the host's memory instead, and a line.
absl::StatusOr<KeptShards> Server::start_shards(const wire::ServerStart& order, const config::JobConfig& job,
                                                const FirstWeights& first, store::CheckpointFiles& saved,
                                                wire::ServerStarted& started) {
  const auto new_kept = [&] {
    return can_be_kept(order, job) ? std::make_unique<KeptMemory>(*state_.keep, order) : nullptr;
  };
  state_.kept = new_kept();
  if (!order.card().empty()) {
    absl::Status no_card;
    if (auto card = open_card(order.card(), order); card.ok()) {
      state_.card = *std::move(card);
      auto shards = KeptShards::start(order, job, first, saved, state_.card.get(), state_.kept.get());
      if (shards.ok() || !absl::IsResourceExhausted(shards.status())) return shards;
      no_card = shards.status();
      state_.card.reset();
    } else {
      no_card = card.status();
    }
    if (job.memory == config::ShardMemory::kGpu)
      return absl::FailedPreconditionError(
          fmt::format("the weights cannot be in the GPU's memory: {}; write memory = \"host\" in [cluster], "
                      "or take a smaller "
                      "batch if the memory is full",
                      std::string(no_card.message())));
    started.set_why_host(std::string(no_card.message()));
    state_.kept = new_kept();
  }
  return KeptShards::start(order, job, first, saved, nullptr, state_.kept.get());
}

absl::Status Server::start_commits(const wire::ServerStart& order, const config::JobConfig& job,
                                   const FirstWeights& first) {
  gradients_.emplace(order.whole_floats(), state_.card.get());
  if (order.hosts_size() == 0) {
    commits_ = std::make_unique<LocalCommits>(*state_.shards, *gradients_);
    return absl::OkStatus();
  }
  if (exchange_ == nullptr) return absl::InternalError("the coordinator speaks of other hosts");
  PACELINE_ASSIGN_OR_RETURN(
      auto commits,
      ExchangedCommits::start(order, job, *state_.shards, *gradients_, *exchange_,
                              {.kept_there = [this](Version version) { say_kept(version); },
                               .failed = [this](const absl::Status& status) { say_host_lost(status); }}));
  const absl::Status passed_on = order.first_passed_on() ? commits->pass_on_first(first) : absl::OkStatus();
  commits_ = std::move(commits);
  PACELINE_RETURN_IF_ERROR(passed_on);
  exchange_->published(own().version());
  return absl::OkStatus();
}

absl::Status Server::map_gradient(const wire::MapGradient& order) {
  wire::ServerMessage mapped;
  mapped.mutable_mapped()->set_replica(order.replica());
  mapped.mutable_mapped()->set_error(std::string(commits_->map_gradient(order).message()));
  return say(std::move(mapped));
}

// ---- Versions ----

absl::Status Server::act(const Make& make) {
  const auto began = std::chrono::steady_clock::now();
  const absl::Status made = commits_->make(make.commit);
  PACELINE_RETURN_IF_ERROR(check_finite(make.commit, own()));
  PACELINE_RETURN_IF_ERROR(made);
  note(make.commit, began);
  return act(state_.log.made(Version(make.commit.version())));
}

absl::Status Server::act(const Prepare& prepare) {
  const auto began = std::chrono::steady_clock::now();
  PACELINE_RETURN_IF_ERROR(commits_->prepare(prepare.commit));
  for (const ps::Shard* shard : state_.shards->all())
    PACELINE_RETURN_IF_ERROR(check_finite(prepare.commit, *shard));
  note(prepare.commit, began);
  return act(state_.log.prepared(prepare.commit));
}

absl::Status Server::act(const SendAhead& ahead) { return commits_->send_ahead(ahead.commit); }

absl::Status Server::act(const Publish& publish) {
  commits_->publish(publish.version);
  return absl::OkStatus();
}

void Server::note(const wire::Apply& order, std::chrono::steady_clock::time_point began) {
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
absl::Status Server::check_finite(const wire::Apply& order, const ps::Shard& shard) {
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

absl::Status Server::keep(const wire::Keep& order) {
  const Version version(order.version());
  PACELINE_RETURN_IF_ERROR(order.again() && version < own().version() ? own().board().keep_again(version)
                                                                      : own().board().keep(version));
  if (commits_->keeps_elsewhere(version)) return absl::OkStatus();
  return say_kept(version) ? absl::OkStatus() : coordinator_lost();
}

// ---- Checkpoints ----

absl::Status Server::write_checkpoint(const wire::WriteCheckpoint& order) {
  const Version version(order.version());
  PACELINE_RETURN_IF_ERROR(own().board().keep(version));
  // The weights stay as they are; the optimizer's state moves on with the next commit, so it is copied. The
  // files are written beside training.
  PACELINE_ASSIGN_OR_RETURN(ps::OptimizerState state, own().read_state());
  writer_.write([this, dir = order.dir(), version, places = own().kept_weights(version),
                 state = std::move(state)](const std::stop_token& stop) {
    const auto checkpoint = session_.files(by_call_, dir, stop, {});
    const absl::Status status = write_shard(*checkpoint, places, state);
    wire::ServerMessage written;
    written.mutable_written()->set_version(version.value());
    if (!status.ok()) written.mutable_written()->set_error(std::string(status.message()));
    send(std::move(written));
  });
  return absl::OkStatus();
}

absl::Status Server::write_shard(store::CheckpointFiles& checkpoint, std::span<const float> places,
                                 const ps::OptimizerState& state) const {
  std::vector<float> read;
  if (state_.card != nullptr) {
    PACELINE_ASSIGN_OR_RETURN(read, own().read(places));
    places = read;
  }
  return store::write_shard(checkpoint, index_ + 1, count_, own().layout(), places, state);
}

// Nothing changes any more: no commit is made after this.
absl::Status Server::act(const WriteCopy& copy) {
  if (copy.publish) state_.shards->publish();
  writer_.write([this, copy](const std::stop_token& stop) {
    const auto checkpoint = session_.files(copy.by_call, copy.dir, stop, {});
    const absl::Status status = state_.shards->write(copy.shard.value(), copy.version, *checkpoint);
    wire::ServerMessage written;
    written.mutable_copy_written()->set_shard(copy.shard.value());
    written.mutable_copy_written()->set_error(std::string(status.message()));
    send(std::move(written));
  });
  return absl::OkStatus();
}

// ---- Messages ----

void Server::say_host_lost(const absl::Status& status) {
  wire::ServerMessage failed;
  failed.mutable_failed()->set_error(std::string(status.message()));
  failed.mutable_failed()->set_host_lost(true);
  send(std::move(failed));
}

void Server::say_failed(const absl::Status& status, bool host_lost) {
  wire::ServerMessage message;
  wire::ServerFailed& failed = *message.mutable_failed();
  failed.set_error(std::string(status.message()));
  failed.set_host_lost(host_lost);
  failed.set_diverged(diverged_.value());
  failed.mutable_not_finite()->Add(not_finite_.begin(), not_finite_.end());
  const auto missing = gradients_ ? gradients_->missing() : std::nullopt;
  if (missing && !host_lost && diverged_ == Version(0)) failed.set_not_here(*missing);
  send(std::move(message));
}

bool Server::say_kept(Version version) {
  wire::ServerMessage kept;
  kept.mutable_kept()->set_version(version.value());
  return send(std::move(kept));
}

bool Server::send(wire::ServerMessage message) {
  times_.move_to(message);
  return session_.send(std::move(message));
}

absl::Status Server::say(wire::ServerMessage message) {
  return send(std::move(message)) ? absl::OkStatus() : coordinator_lost();
}

}  // namespace paceline::server
