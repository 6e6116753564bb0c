// The reports in heartbeats: the memory and traffic of processes, for the run's report, and how fast payloads came
// from other hosts, for the planner. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "paceline/decisions/coordinator/job_settings.h"
#include "paceline/decisions/coordinator/link_watch.h"
#include "paceline/decisions/coordinator/messages.h"
#include "paceline/decisions/coordinator/processes.h"

namespace paceline::coordinator {

class HeartbeatReports {
 public:
  // The references outlive this.
  HeartbeatReports(const JobSettings& job, const ServerFleet& servers, Outbox& out)
      : job_(job), servers_(servers), out_(out), link_watch_(job.hosts) {}

  // Reports the process. Impossible numbers are ignored: they only feed the report.
  void note_process(const std::string& name, const Heartbeat& beat, Time at);
  // The news for the planner about links, from a process on that host.
  std::vector<control::LinkMeasured> links(const std::string& name, HostPlace host, const Heartbeat& beat);

 private:
  std::optional<HostPlace> sender_of(const Received& received) const;

  const JobSettings& job_;
  const ServerFleet& servers_;
  Outbox& out_;
  LinkWatch link_watch_;
};

}  // namespace paceline::coordinator
