// Work of minutes before an attempt, for example reading a large checkpoint. The launchers of other hosts would take a
// coordinator that says nothing for so long for one that is lost, and lead the run themselves or end.
#pragma once

#include <chrono>
#include <functional>

#include "paceline/base/listening_socket.h"
#include "paceline/processes/coordinator_process/coordinator_server.h"

namespace paceline::coordinator_process {

// Does `work` on a thread of its own, and returns once it is done. If that takes longer than `soon`, calls
// `takes_long`, and then a server without a coordinator listens at that socket until the work is done, if there can be
// one. Everything else is called on the caller's thread.
void answer_meanwhile(const ListeningSocket& listening, const CoordinatorServer::Options& options,
                      std::chrono::milliseconds soon, const std::function<void()>& takes_long,
                      const std::function<void()>& work);

}  // namespace paceline::coordinator_process
