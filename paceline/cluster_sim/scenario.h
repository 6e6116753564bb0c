// What a seed stands for: a small job, and what goes wrong with it.
#pragma once

#include <cstdint>
#include <string>

#include "paceline/cluster_sim/world.h"
#include "paceline/config/job_config.h"

namespace paceline::cluster_sim {

// Ways to break the protocol on purpose, to see that it is noticed.
enum class Break {
  kNone,
  kPublishUncertain,    // a server publishes what it has prepared at once
  kForgetApply,         // a server does not hear of one commit
  kApplyTwice,          // a commit comes to a server twice
  kCountBeforeWritten,  // a server says that it has written before it has
  kIgnoreJournal,       // a commit is ordered before the journal has it
  kForgetBallot,        // a server that comes again does not say what it has
  kBallotTooHigh,       // it says that it has made one version more than it has
  kOldCheckpoint,       // a run goes on from the checkpoint before the newest
  kReadyTwice,          // a worker says again what it said
  kNobodyMissed,        // the end of a worker's connection is not noticed, nor its silence
  kLateReply,           // what a server said to an attempt is taken for an answer to the next one
  kForgetSync,          // a server says that it has written what it has not synced
  kForgetJournalSync,   // a checkpoint counts before the journal is synced
  kTwoLeaders,          // the lock of the run folder is given to all that ask
  kWaitForNobody,       // a launcher does not hear that its processes ended
  kSayDone,             // a launcher says of a failed run that all is well
  kCountBeforeKept,     // what servers had counts as written, and is on one disk alone
  kStartBeforeKept,     // they start from a checkpoint that is on one disk alone
};
inline constexpr int kBreaks = 19;
std::string name_of(Break one);

// Of the job's data set.
inline constexpr std::int64_t kSamples = 96;

struct Scenario {
  std::string job_toml;
  config::JobConfig job;
  bool hosts_apart = false;  // each host has a launcher of its own
  bool own_disks = false;    // and a disk of its own
  int faults = 0;
  bool full_disks = false;  // among them
  bool stopped = false;     // somebody wants it to stop
};

Scenario scenario_of(World& world);

}  // namespace paceline::cluster_sim
