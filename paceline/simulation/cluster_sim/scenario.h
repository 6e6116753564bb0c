// A scenario that a seed makes: a small job, and the faults of its run.
#pragma once

#include <cstdint>
#include <string>

#include "paceline/formats/config/job_config.h"
#include "paceline/simulation/cluster_sim/world.h"

namespace paceline::cluster_sim {

// Ways to break the protocol on purpose, to check that the fault is found.
enum class Break {
  kNone,
  kPublishUncertain,    // a server publishes what it has prepared at once
  kForgetApply,         // a server does not hear of one commit
  kApplyTwice,          // a server gets a commit twice
  kCountBeforeWritten,  // a server says that it has written a checkpoint before it has
  kIgnoreJournal,       // a commit is ordered before the journal has it
  kForgetBallot,        // a server that comes again does not say which versions it has
  kBallotTooHigh,       // a server that comes again claims one version more than it has
  kKeptTooNew,          // the same of a server that takes up the only copy of its shard
  kOldCheckpoint,       // a run goes on from the checkpoint before the newest
  kReadyTwice,          // a worker reports the same gradient twice
  kNobodyMissed,        // neither the end of a worker's connection nor its silence is noticed
  kLateReply,           // a server's answer to one attempt is given to the next attempt
  kForgetSync,          // a server says that it has written a file that it has not synced
  kForgetJournalSync,   // a checkpoint counts before the journal is synced
  kTwoLeaders,          // the lock of the run folder is given to all that ask
  kWaitForNobody,       // a launcher does not hear that its processes ended
  kSayDone,             // a launcher says of a failed run that all is well
  kStartBeforeKept,     // servers start from a checkpoint that is on one disk alone
  kForgetState,         // a server that takes up its shard begins with an optimizer that has made no step
  kPublishHalf,        // a server that takes up its shard publishes the update that its predecessor had begun
  kStateLater,         // the optimizer's state of a checkpoint is read when the file is written
  kDropKept,           // the version of a checkpoint is not kept while its file is written
  kStaleGradient,      // a worker says that a gradient is ready before it has written it
  kWaitForNoGradient,  // a server does not wait for the gradients of other hosts
  kSkipMissing,        // a commit is made without a gradient that is not here
  kStaleCopy,          // the copy of the journal on another disk stays as it was at first
  kForgetLeases,       // a checkpoint's state lacks samples that were leased and not committed
  kForgetGoodbye,      // a coordinator ends streams without its last word
  kForgetWant,         // a server does not hear that a worker of another host waits for a version
  kStaleMirror,        // a mirror shows a version whose weights are still those of an older one
  kForgetRevoke,       // a server says that it will not make a commit before the order for it, and makes it
  kReadyUnsaid,        // a worker tells servers that its gradient is ready, and the coordinator later
};
inline constexpr int kBreaks = 33;
std::string name_of(Break one);

// The size of the job's data set.
inline constexpr std::int64_t kSamples = 96;
inline constexpr std::int64_t kMostEpochs = 2;

struct Scenario {
  std::string job_toml;
  config::JobConfig job;
  std::int64_t samples_an_epoch = kSamples;
  std::int64_t samples = kSamples;  // over all epochs
  bool hosts_apart = false;         // each host has a launcher of its own
  bool own_disks = false;           // each host has a disk of its own
  int faults = 0;
  bool full_disks = false;  // full disks are among the faults
  bool stopped = false;     // somebody asks for a stop
};

Scenario scenario_of(World& world);

}  // namespace paceline::cluster_sim
