// The orders of a coordinator to the processes of its job.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "paceline/base/ids.h"
#include "paceline/base/layout.h"
#include "paceline/base/places.h"
#include "paceline/base/time.h"
#include "paceline/decisions/control/orders.h"

namespace paceline::coordinator {

// ---- All processes

// The job is over, or this process is not wanted in it.
struct Disconnect {
  enum class Reason {
    kNone,
    kPlaceTaken,   // another process has its place
    kHostGivenUp,  // the run goes on without its host
  };
  bool refused = false;
  std::string why{};
  bool again = false;             // the process was given up, and may come again as a new one
  bool failed = false;            // the run could not go on
  Reason reason = Reason::kNone;  // why it is refused, if more is to be known than the words
  bool stopped = false;           // the job is not done: somebody stopped the run, and may resume it
  bool interrupted = false;       // the same, because the command of a host was interrupted, as `why` says
  bool first = false;             // to a worker: it is the first of those that are left
};

struct Welcome {
  std::string job_toml{};
  // The servers have weights, or know where to read them: the model's first ones are not needed.
  bool started = false;
  // The optimizer's state is that of a checkpoint, whatever a program brings.
  bool resumed = false;
  std::string run{};  // the name of the run's folder, the same for all its attempts; an evaluator needs none
};

// One shard's published weights.
struct Board {
  std::string path{};
  Layout part{};
  // The card that has its buffers, and the socket that gives their descriptors; empty: the file at `path` has them.
  std::string card{}, socket{};
  // The board whose bell the server hears, if it is another one than that at `path`: that of the same shard in a card's memory.
  std::string bell{};
};

struct Boards {
  std::vector<Board> boards{};  // in the order of the shards
  int reader = 0;               // the slot of the reader
};

// ---- Workers

// A link between two devices of a replica that are on different hosts. The one of them that comes before the other in
// the replica listens, and is told under which name the other comes; the other is told where. In the clear the end that
// connects proves itself with its own key.
struct StageLink {
  std::string name{};
  std::string address{};  // empty if this device listens
  std::string send_key{};
  std::string receive_key{};
  std::string to{};       // the worker at the other end
  std::string carries{};  // kActivations or kGradients (stage_links.h)
};

// The way to another device of a replica: through memory or, if that is on another host, over a link.
struct StageWay {
  std::int32_t turn = 0;  // turn of the other end among the devices of its stage
  std::string path{};     // path of the channel in memory; empty if this end creates it, and over a link
  std::optional<StageLink> link{};
};

// A device's part of a replica: a stage, which it may share. Devices take their roles one after the other, so that each
// finds those before it.
struct Role {
  ReplicaId replica{};
  std::int32_t stage = 0;
  std::vector<std::int32_t> cuts{};  // the first unit of each stage but the first; none: the whole model
  std::int64_t micro_batch = 0;      // samples
  // The first device's gradient, for those that write to it. Empty: this one is the first, or has a way home.
  std::string gradient_path{};
  std::int32_t turn = 0;               // among the devices of its stage
  std::vector<std::int32_t> widths{};  // how many devices share each stage
  std::vector<StageWay>
      previous{};                // to devices of the stage before, with which it has micro-batches in common
  std::vector<StageWay> next{};  // to those of the stage behind
  std::optional<StageWay> home{};  // to the first device, for this one's part of the gradient
  std::vector<StageWay>
      gradients{};  // in the first device: over which parts come, in the order of the devices
};

// The replica is no more. Its workers leave what they are doing for it, and wait for another role.
struct Dissolve {
  ReplicaId replica{};
};

// The worker's replica begins an iteration.
struct BeginIteration {
  control::Release release{};
  Time at{};  // the job's time
};

// Its gradient is in this commit. The members may sum among themselves: rank r makes slice r of the sum, and publishes
// how far it is. Nobody waits for it, so it may be left undone.
struct Reduce {
  struct Member {
    ReplicaId replica{};
    Clock clock{};
    double weight = 0;
    std::string gradient_path{};
  };
  Version version{};
  std::int32_t rank = 0;
  std::vector<Member> members{};
  std::vector<ReplicaId> left{};  // replicas gone since it was told last: their memory is not needed any more
};

// The job is done. Its last weights are of this version: the worker's program takes them, and the answer is TookLast.
// The disconnect comes next, in any case after a while.
struct TakeLast {
  Version version{};
};

using WorkerOrder =
    std::variant<Welcome, Boards, BeginIteration, Disconnect, Reduce, Role, Dissolve, TakeLast>;

// ---- Servers

// Another host's server, or the own.
struct HostShard {
  std::string exchange{};
  Layout part{};
  std::string send_key{}, receive_key{};  // see StageLink
};

struct ServerStart {
  std::string job_toml{};
  std::int32_t shard = 0;
  std::int32_t shard_count = 0;
  Layout part{};
  std::int64_t part_offset = 0;  // floats before this part in the whole layout
  std::int64_t whole_floats = 0;
  std::int32_t readers = 0;  // at once
  Version version{};
  std::string weights_path{};      // a worker's gradient buffer that holds the initial weights, or
  std::string checkpoint_dir{};    // the folder to restore from
  bool announce = false;           // say when each version is applied
  std::vector<HostShard> hosts{};  // all, by host; none if there is only one
  // A file in the run folder for a server to find before anything is trained; empty if there is only one host.
  std::string mark_file{};
  std::string mark_text{};
  std::int32_t copies = 0;  // copies of each shard, on as many hosts
  HostPlace evaluator_host{};
  std::string attempt{};          // which run, and which attempt at it
  std::optional<Layout> whole{};  // set if one host's servers clip gradients: each sees all of them
  // This server's host does not see the run folder: its files of checkpoints go through the coordinator.
  bool by_call = false;
  std::vector<std::string> checkpoint_files{};  // in checkpoint_dir, if files come by call
  // There is no worker on the first server's host: it gets the initial weights from the second.
  bool first_passed_on = false;
  // The server goes on from the memory that an earlier one of this attempt left, and says an error if it cannot.
  bool take_up = false;
  // The card for the weights, the optimizer's state and the gradients; empty: the host's memory.
  std::string card{};
  std::int32_t card_holders = 1;  // versions that devices of the card may hold at once
};

struct MapGradient {
  ReplicaId replica{};
  std::string path{};
  HostPlace host{};
  // The card of its worker; empty: none. A shard on another card has the gradient from the host's memory.
  std::string card{};
};

// The replica is gone.
struct UnmapGradient {
  ReplicaId replica{};
};

// The worker that read in this slot is gone: what it had pinned is free.
struct ReleaseReader {
  int reader = 0;
};

struct Apply {
  struct Member {
    ReplicaId replica{};
    Clock clock{};
    double weight = 0;
    double share = 0;
    bool waits = false;   // for this version's weights: its replica goes on with them
    EarlyNumber early{};  // 0: this gradient was not sent early
    friend bool operator==(const Member&, const Member&) = default;
  };
  Version version{};
  std::vector<Member> members{};
  double learning_rate = 0;
  double fraction = 0;
  bool of_differences = false;  // see control::CommitRecord
  bool group = false;           // the members sum among themselves
  // The Controller's state as of this version, in the form of AttemptOptions::state_text, and the job's time; if there
  // are several copies of each shard.
  std::string state{};
  Duration elapsed{0};
  friend bool operator==(const Apply&, const Apply&) = default;
};

// This is the next commit, unless it is revoked. A server makes it once all members have said in its host's memory that
// their gradients are ready (memory/gradient_buffer.h). Apply orders the same commit when the coordinator has heard of
// them, too.
struct Expect {
  Apply commit{};
};

// The expected commit may become another one: a server that has not made it waits for Apply. It answers with
// ServerRevoked.
struct Revoke {
  Version version{};
};

// The replica waits, with a gradient that is in no commit yet: its host's server sends it now. Earlier numbers of that
// host are named by no commit from here on.
struct SendEarly {
  ReplicaId replica{};
  Clock clock{};
  EarlyNumber number{};  // 1, 2, 3... of each host in an attempt
};

// Somebody on that host waits for this version.
struct Want {
  HostPlace host{};
  Version version{};
};

// Keep the newest version's weights unchanged until Drop.
struct Keep {
  Version version{};
  bool again = false;  // an earlier server was told so, and maybe has; then the version may be an older one
  // In the host's memory, too, if the shard is in a card's: the evaluator may not see that card.
  bool in_host = false;
};

struct Drop {
  Version version{};
  // The version was kept to be written, here alone; else for an evaluation, and at the evaluator's host.
  bool checkpoint = false;
};

// Write the newest version, which is also kept until Drop.
struct WriteCheckpoint {
  Version version{};
  std::string dir{};
};

// All have prepared the version: publish it.
struct Publish {
  Version version{};
};

// A server was lost, or the coordinator was. Write the version that was certain last, of that shard, which is kept
// here. A version that is prepared is certain by that.
struct WriteCopy {
  Version version{};
  ShardId shard{};
  std::string dir{};
  bool by_call = false;  // see ServerStart
};

using ServerOrder =
    std::variant<ServerStart, MapGradient, UnmapGradient, Apply, Keep, Drop, WriteCheckpoint, Disconnect,
                 ReleaseReader, Want, Publish, WriteCopy, SendEarly, Expect, Revoke>;

// ---- The evaluator

struct EvaluateVersion {
  Version version{};
};

using EvaluatorOrder = std::variant<Welcome, Boards, EvaluateVersion, Disconnect>;

}  // namespace paceline::coordinator
