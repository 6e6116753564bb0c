// gRPC's messages about connections that end before any call, for people.
#pragma once

#include <grpc/support/log.h>

namespace paceline::peer {

// For gpr_set_log_function: a warning for each connection that was refused.
void log_of_grpc(gpr_log_func_args* args);

// For a process that reports the results of its calls itself.
inline void no_log_of_grpc(gpr_log_func_args*) {}

}  // namespace paceline::peer
