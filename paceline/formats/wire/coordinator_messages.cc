#include "paceline/formats/wire/coordinator_messages.h"

#include <utility>

#include "paceline/formats/wire/wire.h"

namespace paceline::wire {

namespace {

Metrics metrics_of(const google::protobuf::Map<std::string, double>& metrics) {
  return {metrics.begin(), metrics.end()};
}

template <class Texts>
std::vector<std::string> texts_of(const Texts& texts) {
  return {texts.begin(), texts.end()};
}

coordinator::Heartbeat heartbeat_of(const Heartbeat& message) {
  coordinator::Heartbeat beat{.resident_bytes = message.resident_bytes()};
  for (const SentBytes& sent : message.sent())
    beat.sent.push_back({ServerId(sent.host()), sent.gradients(), sent.weights()});
  for (const SentToStage& sent : message.sent_to_stages())
    beat.sent_to_stages.push_back({sent.worker(), sent.kind(), sent.bytes()});
  for (const Received& received : message.received()) {
    beat.received.push_back({received.worker(), ServerId(received.host()), received.bytes(),
                             Duration(received.busy_ns()), received.times()});
  }
  return beat;
}

// ---- Workers

coordinator::WorkerMessage attached_of(const WorkerAttached& message) {
  coordinator::WorkerAttached attached{.dataset_size = message.dataset_size(),
                                       .gradient_path = message.gradient_path(),
                                       .data_digest = message.data_digest(),
                                       .constants = {message.constants().begin(), message.constants().end()},
                                       .card = message.card(),
                                       .cards = message.cards()};
  auto layout = from_wire(message.layout());
  if (!layout.ok()) return coordinator::Unreadable{layout.status()};
  attached.layout = *std::move(layout);
  auto data_order = from_wire(message.data_order());
  if (!data_order.ok()) return coordinator::Unreadable{data_order.status()};
  attached.data_order = *std::move(data_order);
  for (const FrozenTensor& tensor : message.frozen())
    attached.frozen.push_back({tensor.name(), tensor.digest()});
  if (message.has_first_state()) attached.first_state = message.first_state();
  if (message.has_first_weights()) attached.first_weights = message.first_weights();
  if (message.has_card_memory())
    attached.card_memory = {message.card_memory().card(), message.card_memory().free_bytes()};
  if (message.has_cuts()) attached.cuts = {message.cuts().digest(), message.cuts().libraries()};
  return attached;
}

coordinator::RoleTaken taken_of(const RoleTaken& message) {
  return {.replica = ReplicaId(message.replica()),
          .next_paths = texts_of(message.next_paths()),
          .address = message.address(),
          .gradient_path = message.gradient_path(),
          .gradient_paths = texts_of(message.gradient_paths())};
}

coordinator::WorkerReady ready_of(const WorkerReady& message) {
  coordinator::WorkerReady ready{.replica = ReplicaId(message.replica()),
                                 .clock = Clock(message.clock()),
                                 .base = Version(message.base()),
                                 .compute = Duration(message.compute_ns()),
                                 .worked = Duration(message.worked_ns()),
                                 .loss = message.loss(),
                                 .metrics = metrics_of(message.metrics()),
                                 .not_finite = message.not_finite(),
                                 .norm = message.norm(),
                                 .loading = Duration(message.loading_ns()),
                                 .pulling = Duration(message.pulling_ns())};
  if (message.has_weight()) ready.weight = message.weight();
  if (message.has_data_end()) ready.data_end = message.data_end();
  for (const ShardLength& one : message.lengths())
    ready.lengths.push_back({.shard = one.shard(), .records = one.records(), .name = one.name()});
  return ready;
}

// ---- Servers

coordinator::ServerHello hello_of(const ServerHello& message) {
  const Ballot& ballot = message.ballot();
  const KeptShard& kept = message.kept();
  return {.shard = HostRank(message.shard()),
          .exchange = message.exchange(),
          .fabric = message.fabric(),
          .ballot = {.attempt = ballot.attempt(),
                     .shard = ballot.shard(),
                     .shard_count = ballot.shard_count(),
                     .copies = ballot.copies(),
                     .published = Version(ballot.published()),
                     .made = Version(ballot.made()),
                     .state = ballot.state(),
                     .elapsed = Duration(ballot.elapsed_ns())},
          .kept = {.attempt = kept.attempt(),
                   .shard = kept.shard(),
                   .shard_count = kept.shard_count(),
                   .version = Version(kept.version()),
                   .begun = kept.begun()}};
}

coordinator::ServerStarted started_of(const ServerStarted& message) {
  return {.board_paths = texts_of(message.board_paths()),
          .error = message.error(),
          .card = message.card(),
          .socket = message.socket(),
          .kept = message.kept(),
          .why_host = message.why_host(),
          .host_path = message.host_path()};
}

coordinator::ServerFailed failed_of(const ServerFailed& message) {
  coordinator::ServerFailed failed{
      .error = message.error(), .host_lost = message.host_lost(), .diverged = Version(message.diverged())};
  for (const std::int32_t replica : message.not_finite()) failed.not_finite.emplace_back(replica);
  if (message.has_not_here()) failed.not_here = ReplicaId(message.not_here());
  return failed;
}

decltype(coordinator::ServerMessage::what) what_of(const ServerMessage& message) {
  switch (message.what_case()) {
    case ServerMessage::kHello:
      return hello_of(message.hello());
    case ServerMessage::kStarted:
      return started_of(message.started());
    case ServerMessage::kKept:
      return coordinator::ServerKept{Version(message.kept().version())};
    case ServerMessage::kWritten:
      return coordinator::ServerWritten{Version(message.written().version()), message.written().error()};
    case ServerMessage::kFailed:
      return failed_of(message.failed());
    case ServerMessage::kApplied:
      return coordinator::ServerApplied{Version(message.applied().version())};
    case ServerMessage::kHeartbeat:
      return heartbeat_of(message.heartbeat());
    case ServerMessage::kPrepared:
      return coordinator::ServerPrepared{Version(message.prepared().version())};
    case ServerMessage::kRevoked:
      return coordinator::ServerRevoked{Version(message.revoked().version()), message.revoked().made()};
    case ServerMessage::kCopyWritten:
      return coordinator::CopyWritten{ShardId(message.copy_written().shard()),
                                      message.copy_written().error()};
    case ServerMessage::kMapped:
      return coordinator::ServerMapped{ReplicaId(message.mapped().replica()), message.mapped().error()};
    case ServerMessage::WHAT_NOT_SET:
      break;
  }
  return std::monostate();
}

}  // namespace

coordinator::WorkerMessage from_wire(const WorkerMessage& message) {
  switch (message.what_case()) {
    case WorkerMessage::kHello:
      return coordinator::WorkerHello{message.hello().name()};
    case WorkerMessage::kAttached:
      return attached_of(message.attached());
    case WorkerMessage::kJoined:
      return coordinator::WorkerJoined{};
    case WorkerMessage::kReady:
      return ready_of(message.ready());
    case WorkerMessage::kHeartbeat:
      return heartbeat_of(message.heartbeat());
    case WorkerMessage::kRoleTaken:
      return taken_of(message.role_taken());
    case WorkerMessage::kTooFew:
      return coordinator::TooFew{message.too_few().least(), message.too_few().why()};
    case WorkerMessage::kOutOfMemory:
      return coordinator::OutOfMemory{ReplicaId(message.out_of_memory().replica()),
                                      message.out_of_memory().why()};
    case WorkerMessage::kTookLast:
      return coordinator::TookLast{};
    case WorkerMessage::WHAT_NOT_SET:
      break;
  }
  return std::monostate();
}

coordinator::ServerMessage from_wire(const ServerMessage& message) {
  coordinator::ServerMessage read{what_of(message)};
  for (const UpdateTime& update : message.updates()) {
    read.updates.push_back({.version = Version(update.version()),
                            .took = Duration(update.took_ns()),
                            .age = Duration(update.age_ns()),
                            .bytes = update.bytes(),
                            .threads = update.threads(),
                            .members = update.members()});
  }
  return read;
}

coordinator::EvaluatorMessage from_wire(const EvaluatorMessage& message) {
  switch (message.what_case()) {
    case EvaluatorMessage::kHello:
      return coordinator::EvaluatorHello{};
    case EvaluatorMessage::kPrepared:
      return coordinator::EvaluatorPrepared{.card = message.prepared().card()};
    case EvaluatorMessage::kEvaluated: {
      const Evaluated& evaluated = message.evaluated();
      return coordinator::Evaluated{.version = Version(evaluated.version()),
                                    .loss = evaluated.loss(),
                                    .accuracy = evaluated.accuracy(),
                                    .metrics = metrics_of(evaluated.metrics()),
                                    .took = Duration(evaluated.took_ns())};
    }
    case EvaluatorMessage::kHeartbeat:
      return heartbeat_of(message.heartbeat());
    case EvaluatorMessage::WHAT_NOT_SET:
      break;
  }
  return std::monostate();
}

}  // namespace paceline::wire
