// The messages of a job's processes to their coordinator. Numbers from outside are as they came: the taker of a message
// checks them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <absl/status/status.h>

#include "paceline/base/data_order.h"
#include "paceline/base/ids.h"
#include "paceline/base/layout.h"
#include "paceline/base/metrics.h"
#include "paceline/base/places.h"
#include "paceline/base/time.h"

namespace paceline::coordinator {

// ---- All processes

// The bytes that a server has sent to another host's server since it began.
struct SentBytes {
  ServerId host{};
  std::int64_t gradients = 0;
  std::int64_t weights = 0;
  friend bool operator==(const SentBytes&, const SentBytes&) = default;
};

// The bytes that a worker has sent to another stage's worker since it began.
struct SentToStage {
  std::string worker{};
  std::string kind{};  // see StageLink::carries
  std::int64_t bytes = 0;
  friend bool operator==(const SentToStage&, const SentToStage&) = default;
};

// How fast payloads came from a process on another host since this process began.
struct Received {
  std::string worker{};  // from a stage: that of this worker
  ServerId host{};       // else: from the server of this host
  std::int64_t bytes = 0;
  Duration busy{0};
  std::int64_t times = 0;
  friend bool operator==(const Received&, const Received&) = default;
};

// A sign of life. Once a second it has a report, too.
struct Heartbeat {
  std::int64_t resident_bytes = 0;  // 0: it has no report
  std::vector<SentBytes> sent{};
  std::vector<SentToStage> sent_to_stages{};
  std::vector<Received> received{};
  friend bool operator==(const Heartbeat&, const Heartbeat&) = default;
};

// A message that makes no sense, and why.
struct Unreadable {
  absl::Status why{};
  friend bool operator==(const Unreadable&, const Unreadable&) = default;
};

// ---- Workers

struct WorkerHello {
  std::string name{};  // name of its place in the job, "w2"
  friend bool operator==(const WorkerHello&, const WorkerHello&) = default;
};

// A tensor of the model that nobody trains, and that lies in each program's own memory only.
struct FrozenTensor {
  std::string name{};
  std::string digest{};  // the same wherever the values are
  friend bool operator==(const FrozenTensor&, const FrozenTensor&) = default;
};

// A card's free memory, before the program that says so used any.
struct CardMemory {
  std::string card;
  std::int64_t free_bytes = 0;
  friend bool operator==(const CardMemory&, const CardMemory&) = default;
};

// The places where a worker can cut its program's model into stages.
struct Cuts {
  std::uint32_t digest = 0;  // equal for equal places
  std::string
      libraries{};  // the libraries that found them, with their versions, for people; empty: not known
  friend bool operator==(const Cuts&, const Cuts&) = default;
};

struct WorkerAttached {
  std::int64_t dataset_size = 0;
  Layout layout{};
  std::string gradient_path{};  // holds the model's initial weights until the servers have started
  std::string data_digest{};    // the same wherever the training set is; empty: not known
  // A checksum of the bytes of each constant of the layout, as this worker's model had them at first.
  std::vector<std::uint32_t> constants{};
  // The card that its program computes on, and how many cards it could have chosen; empty if it is none, or one whose
  // memory other processes cannot map.
  std::string card{};
  std::int32_t cards = 0;
  std::vector<FrozenTensor> frozen{};
  DataOrder data_order{};  // empty: not known
  // A checksum of the optimizer's state that its program brings; 0 without one. Unset if the run was resumed.
  std::optional<std::uint32_t> first_state{};
  std::optional<CardMemory> card_memory{};  // the free memory of its program's card, if it was measured
  // A checksum of the initial weights, in a job of several hosts. Unset if the worker did not write any, or all hosts have
  // them from one file.
  std::optional<std::uint32_t> first_weights{};
  std::optional<Cuts> cuts{};  // unset if the job has no stages, or every worker finds the same
  friend bool operator==(const WorkerAttached&, const WorkerAttached&) = default;
};

struct WorkerJoined {
  friend bool operator==(const WorkerJoined&, const WorkerJoined&) = default;
};

struct RoleTaken {
  ReplicaId replica{};
  std::vector<std::string>
      next_paths{};             // paths of the channels in memory, as in Role::next; empty over a link
  std::string address{};        // the address for devices on other hosts; empty if none connects
  std::string gradient_path{};  // its own gradient, from now on
  std::vector<std::string>
      gradient_paths{};  // paths of the channels in memory, as in Role::gradients; empty over a link
  friend bool operator==(const RoleTaken&, const RoleTaken&) = default;
};

// The stage has done its part of an iteration of the replica.
// A shard of the training set whose length showed only while it was read.
struct ShardLength {
  std::int32_t shard = 0;  // its number
  std::int64_t records = 0;
  std::string name{};  // the same on all hosts
  friend bool operator==(const ShardLength&, const ShardLength&) = default;
};

struct WorkerReady {
  ReplicaId replica{};
  Clock clock{};
  Version base{};
  Duration compute{0};
  Duration worked{0};  // part of `compute`: without waiting for other stages
  double loss = 0;     // only the last stage has it
  Metrics metrics{};   // the user's own; of the last stage
  // The name of a tensor that is not finite in the gradient; empty: all are. Only the first stage has it.
  std::string not_finite{};
  double norm = 0;                         // norm of the gradient; 0: it was not measured
  Duration loading{0};                     // part of `compute`: until its samples were loaded
  Duration pulling{0};                     // part of `compute`: from then on until its weights were there
  std::optional<double> weight{};          // see control::ReplicaReady; only the last stage has it
  std::optional<std::int64_t> data_end{};  // see control::ReplicaReady
  std::vector<ShardLength> lengths{};      // the ones that this worker has not said before
  friend bool operator==(const WorkerReady&, const WorkerReady&) = default;
};

// Its device had no memory for its stage of this replica. The worker waits for another role.
struct OutOfMemory {
  ReplicaId replica{};
  std::string why;
  friend bool operator==(const OutOfMemory&, const OutOfMemory&) = default;
};

// Its program failed because its batch was so small. The answer is a disconnect: `again` if its samples can be part of
// a larger batch.
struct TooFew {
  std::int64_t least = 1;  // samples with which it may not fail
  std::string why{};
  friend bool operator==(const TooFew&, const TooFew&) = default;
};

// The answer to TakeLast.
struct TookLast {
  friend bool operator==(const TookLast&, const TookLast&) = default;
};

// Nothing: a message that this version does not know.
using WorkerMessage = std::variant<std::monostate, WorkerHello, WorkerAttached, WorkerJoined, WorkerReady,
                                   Heartbeat, RoleTaken, OutOfMemory, TooFew, TookLast, Unreadable>;

// ---- Servers

// The versions that a server still has, of an attempt at a job that keeps its weights twice, when the coordinator of that
// attempt is gone. The fields are as in ServerStart.
struct Ballot {
  std::string attempt{};
  std::int32_t shard = 0;
  std::int32_t shard_count = 0;
  std::int32_t copies = 0;
  Version published{};  // the version that it has published last
  Version made{};       // `published`, or the next version, which is prepared
  std::string state{};  // the Controller's as of that version, in the form of AttemptOptions::state_text
  Duration elapsed{0};  // the job's time as of that state
  friend bool operator==(const Ballot&, const Ballot&) = default;
};

// The version of a shard in memory that outlived its server. The fields are as in ServerStart.
struct KeptShard {
  std::string attempt{};
  std::int32_t shard = 0;
  std::int32_t shard_count = 0;
  Version version{};
  bool begun = false;  // an update of the next version may have changed the optimizer's state
  friend bool operator==(const KeptShard&, const KeptShard&) = default;
};

struct ServerHello {
  HostRank shard{};        // 0, 1, …: if there are several hosts, the host
  std::string exchange{};  // address of its exchange with the servers of other hosts; empty: it has none
  std::string fabric{};    // fabric of the exchange: "sealed", "tcp", "ucx"
  Ballot ballot{};
  KeptShard kept{};
  friend bool operator==(const ServerHello&, const ServerHello&) = default;
};

// The places from which workers of its host read the weights: of its own shard, or of all if there are several hosts.
struct ServerStarted {
  std::vector<std::string> board_paths{};
  std::string error{};  // why the worker's weights cannot be read: it has not started, and takes others
  std::string card{};   // see Board
  std::string socket{};
  bool kept = false;       // the shard is in memory that outlives this process
  std::string why_host{};  // why the host's memory has what a card was to have
  // A board in the host's memory with the same versions, for workers that do not compute on the card.
  std::string host_path{};
  friend bool operator==(const ServerStarted&, const ServerStarted&) = default;
};

// The replica's gradient is here, whatever becomes of its worker.
struct ServerMapped {
  ReplicaId replica{};
  std::string error{};  // why it is not
  friend bool operator==(const ServerMapped&, const ServerMapped&) = default;
};

struct ServerApplied {
  Version version{};
  friend bool operator==(const ServerApplied&, const ServerApplied&) = default;
};

// If there are several copies of each shard: the version is made of each that is kept here, and unseen. No later one is
// made before it is certain.
struct ServerPrepared {
  Version version{};
  friend bool operator==(const ServerPrepared&, const ServerPrepared&) = default;
};

// The server has made the revoked version, or it will not make it before Apply.
struct ServerRevoked {
  Version version{};
  bool made = false;
  friend bool operator==(const ServerRevoked&, const ServerRevoked&) = default;
};

struct CopyWritten {
  ShardId shard{};
  std::string error{};  // empty: it is written
  friend bool operator==(const CopyWritten&, const CopyWritten&) = default;
};

struct ServerKept {
  Version version{};
  friend bool operator==(const ServerKept&, const ServerKept&) = default;
};

struct ServerWritten {
  Version version{};
  std::string error{};  // empty: all is written
  friend bool operator==(const ServerWritten&, const ServerWritten&) = default;
};

struct ServerFailed {
  std::string error{};
  bool host_lost = false;               // the traffic with another host has ended; the server comes again
  Version diverged{};                   // above 0: the version whose weights are not finite numbers
  std::vector<ReplicaId> not_finite{};  // its members whose gradients were not, as far as the server knows
  std::optional<ReplicaId>
      not_here{};  // a replica that was ready and has no such gradient; the server comes again
  friend bool operator==(const ServerFailed&, const ServerFailed&) = default;
};

// The time that making a version of this server's part took.
struct UpdateTime {
  Version version{};
  Duration took{0};
  Duration age{0};         // since then
  std::int64_t bytes = 0;  // bytes of the weights that it made
  std::int32_t threads = 0;
  std::int32_t members = 0;  // gradients
  friend bool operator==(const UpdateTime&, const UpdateTime&) = default;
};

struct ServerMessage {
  std::variant<std::monostate, ServerHello, ServerStarted, ServerKept, ServerWritten, ServerFailed,
               ServerApplied, Heartbeat, ServerPrepared, CopyWritten, ServerMapped, ServerRevoked>
      what;
  std::vector<UpdateTime> updates{};  // since the message before
  friend bool operator==(const ServerMessage&, const ServerMessage&) = default;
};

// ---- The evaluator

struct EvaluatorHello {
  friend bool operator==(const EvaluatorHello&, const EvaluatorHello&) = default;
};

// The evaluator's program is there.
struct EvaluatorPrepared {
  std::string card{};  // the card that it computes on; empty: processors
  friend bool operator==(const EvaluatorPrepared&, const EvaluatorPrepared&) = default;
};

struct Evaluated {
  Version version{};
  double loss = 0;
  double accuracy = 0;
  Metrics metrics{};
  Duration took{0};
  friend bool operator==(const Evaluated&, const Evaluated&) = default;
};

using EvaluatorMessage =
    std::variant<std::monostate, EvaluatorHello, EvaluatorPrepared, Evaluated, Heartbeat>;

}  // namespace paceline::coordinator
